resource "nexus_site" "s" {}

resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 2
}

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.s.id

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "np" {
    count       = 2
    vm_sku_name = "NC_G6_28_v1"
  }
}

resource "fleet_member_cluster" "a" {
  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id
}

resource "fleet_hub_manifest" "hub" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata: {name: web}
    ---
    apiVersion: v1
    kind: ReplicationController
    metadata: {name: old, namespace: web}
    spec:
      replicas: 2
      selector: {app: old}
      template:
        metadata: {labels: {app: old}}
        spec:
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "500m"}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: gated, namespace: web}
    spec:
      replicas: 1
      selector: {matchLabels: {app: gated}}
      template:
        metadata: {labels: {app: gated}}
        spec:
          schedulingGates: [{name: example.com/g}]
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "500m"}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: web}
    spec:
      replicas: 3
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "1"}}
  EOT
}

resource "fleet_cluster_resource_placement" "p" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
}
