# The Tacker specification "Support hardware-aware affinity for pods on k8s cluster", from the VNF package to the pods.

variable "tacker_endpoint" {
  description = "Address of Tacker."
  type        = string
  default     = "http://127.0.0.1:9890"
}

variable "workers" {
  description = "Scale level of the workers: 0 are 3 workers."
  type        = number
  default     = 0
}

provider "tacker" {
  endpoint = var.tacker_endpoint
  auth     = "none" # with Keystone: leave it out, and set OS_CLOUD
}

data "openstack_inventory" "lab" {
  directory = "export"
}

resource "openstack_site" "lab" {
  inventory = data.openstack_inventory.lab
}

resource "tacker_vnf" "a" {
  provider            = tacker
  name                = "vnf-a"
  site_id             = openstack_site.lab.id
  csar                = "vnf-a"
  instantiate_request = file("request.json")
  scale_levels        = { worker_instance = var.workers }
}

resource "fleet_hub_manifest" "redis" {
  cluster_id = tacker_vnf.a.id
  yaml_body  = file("redis.yaml")
}

output "host_of_each_worker" {
  description = "Compute host of each worker, as planned or observed."
  value       = { for name, vnfc in tacker_vnf.a.vnfcs : name => vnfc.machine if vnfc.vdu == "workerNode" }
}

output "host_of_each_replica" {
  description = "Compute host of each replica of redis-cache."
  value = {
    for pod, place in fleet_hub_manifest.redis.workloads["default/Deployment/redis-cache"] : pod => place.machine
  }
}
