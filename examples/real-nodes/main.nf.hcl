# A cluster that runs already: its nodes and pods as kubectl printed them.

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
  description = "How many replicas of upf run. Each takes two VFs; one node offers four."
  type        = number
  default     = 2
}

resource "fleet_hub_manifest" "upf" {
  cluster_id = nexus_kubernetes_cluster.core.id
  yaml_body  = templatefile("upf.yaml", { replicas = var.replicas })
}

output "node_of_each_replica" {
  description = "Where each replica of upf runs, or why it does not."
  value = {
    for pod, place in fleet_hub_manifest.upf.workloads["core/Deployment/upf"] :
    pod => place.node == null ? "${place.state}: ${place.reason}" : place.node
  }
}
