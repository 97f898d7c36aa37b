# VNF-A: the VMs of a Kubernetes cluster, from a HOT file with nested templates.

variable "server_group" {
  description = "Whether the workers are in a server group with the policy anti-affinity."
  type        = bool
  default     = true
}

resource "tacker_vnf" "a" {
  site_id  = nexus_site.lab.id
  name     = "vnf-a"
  base_hot = file(var.server_group ? "vnf-a/base.hot.yaml" : "vnf-a/base-before.hot.yaml")

  nested = {
    "master.hot.yaml" = file("vnf-a/master.hot.yaml")
    "worker.hot.yaml" = file("vnf-a/worker.hot.yaml")
  }

  vdu "masterNode" {
    vm_sku_name = "NC_G6_28_v1"
  }

  vdu "workerNode" {
    vm_sku_name = "NC_G12_56_v1"
  }
}

output "server_of_each_worker" {
  description = "Which server each worker stands on."
  value       = { for name, vnfc in tacker_vnf.a.vnfcs : name => vnfc.machine if vnfc.vdu == "workerNode" }
}

output "labels" {
  description = "The labels that the workers carry."
  value       = { for name, vnfc in tacker_vnf.a.vnfcs : name => vnfc.labels if vnfc.vdu == "workerNode" }
}
