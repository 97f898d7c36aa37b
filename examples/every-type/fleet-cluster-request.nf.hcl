nexusform {
  experimental = ["cluster_request"]
}

# A KubeFleet policy asks for one more cluster in ring 3: who could hold it?
data "fleet_cluster_request" "ring3" {
  manifest = <<-EOT
    apiVersion: placement.kubefleet.dev/v1alpha1
    kind: ClusterRequest
    metadata:
      name: shop-1
    spec:
      placementPolicyRef: { apiVersion: v1alpha1, kind: ClusterPlacementPolicy, name: shop }
      clusterSelectorTerms:
        - matchLabels: { ring: "3" }
          matchClusterPropertyExpressions:
            - { key: kubernetes-fleet.io/node-count, operator: Ge, values: ["2"] }
  EOT

  template {
    sku    = "NC_G6_28_v1"
    count  = 2
    labels = { ring = "3" }
  }
}

output "sites_for_ring_3" {
  value = [for id, site in data.fleet_cluster_request.ring3.sites : id if site.fits]
}
