resource "nexus_site" "s" {}

resource "nexus_rack" "r" {
  count         = 2
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 2
}

resource "nexus_kubernetes_cluster" "a" {
  site_id             = nexus_site.s.id
  hardware_label_keys = ["kubernetes.io/zone"]

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "np" {
    count       = 2
    vm_sku_name = "NC_P10_56_v1"
    labels      = { tier = "front" }
  }
}

resource "nexus_agent_pool" "more" {
  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id
  node_count            = 1
  vm_sku_name           = "NC_G2_8_v1"
}

resource "tacker_vnf" "v" {
  site_id  = nexus_site.s.id
  base_hot = <<-EOT
    heat_template_version: 2013-05-23
    resources:
      workerNode:
        type: OS::Nova::Server
        properties: { flavor: m1, image: i }
  EOT

  vdu "workerNode" {
    vcpus      = 4
    memory_gib = 8
  }
}

# Asks for the whole of a node's memory, and for a label that nodes carry since.
resource "fleet_hub_manifest" "pods" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: apps/v1
    kind: Deployment
    metadata: { name: large, namespace: default }
    spec:
      replicas: 2
      selector: { matchLabels: { app: large } }
      template:
        metadata: { labels: { app: large } }
        spec:
          containers: [{ name: c, resources: { requests: { memory: 56Gi } } }]
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: { name: agent, namespace: default }
    spec:
      selector: { matchLabels: { app: agent } }
      template:
        metadata: { labels: { app: agent } }
        spec:
          nodeSelector: { kubernetes.io/os: linux }
          containers: [{ name: c }]
  EOT
}

resource "fleet_member_cluster" "a" {
  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id
}

resource "fleet_cluster_resource_placement" "all" {
  resource_selector {
    group   = ""
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
}

output "labels" {
  value = { for name, node in nexus_kubernetes_cluster.a.nodes : name => node.labels }
}
