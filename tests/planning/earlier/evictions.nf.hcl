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

resource "fleet_hub_manifest" "classes" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata: {name: low}
    value: -10
    ---
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata: {name: gold}
    value: 1000
  EOT
}

resource "fleet_hub_manifest" "low" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: low, namespace: default}
    spec:
      replicas: 5
      selector: {matchLabels: {app: low}}
      template:
        metadata: {labels: {app: low}}
        spec:
          priorityClassName: low
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "1500m"}}
  EOT
}

resource "fleet_hub_manifest" "gold" {
  depends_on = [fleet_hub_manifest.low]
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: gold, namespace: default}
    spec:
      replicas: 2
      selector: {matchLabels: {app: gold}}
      template:
        metadata: {labels: {app: gold}}
        spec:
          priorityClassName: gold
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "3"}}
  EOT
}
