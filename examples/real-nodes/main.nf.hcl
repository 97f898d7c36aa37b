# A running cluster: its nodes and pods from kubectl.

resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  count         = 2
  name          = "rack${count.index + 1}"
  site_id       = nexus_site.lab.id
  machine_count = 2
}

resource "nexus_kubernetes_cluster" "core" {
  site_id = nexus_site.lab.id

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "workers" {
    count       = 2
    vm_sku_name = "NC_P10_56_v1"
    sriov_vfs   = 4
  }
}

data "kubernetes_nodes" "core" {
  files      = ["nodes.json"]
  cluster_id = nexus_kubernetes_cluster.core.id
}

variable "replicas" {
  description = "Number of replicas of upf. Each needs two VFs; a node has four."
  type        = number
  default     = 2
}

resource "fleet_hub_manifest" "upf" {
  cluster_id = nexus_kubernetes_cluster.core.id
  yaml_body  = templatefile("upf.yaml", { replicas = var.replicas })
}

output "node_of_each_replica" {
  description = "Node of each replica of upf, or the reason why it is Pending."
  value = {
    for pod, place in fleet_hub_manifest.upf.workloads["core/Deployment/upf"] :
    pod => place.node == null ? "${place.state}: ${place.reason}" : place.node
  }
}
