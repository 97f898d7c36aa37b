# The Deployment of the specification: two replicas that must not share what `topology_key` stands for.

variable "topology_key" {
  description = "Where the replicas must be apart: \"kubernetes.io/hostname\" (worker) or \"kubernetes.io/zone\" (server)."
  type        = string
  default     = "kubernetes.io/zone"
}

variable "preferred" {
  description = "Whether the rule may be broken where it cannot be met, instead of leaving a replica Pending."
  type        = bool
  default     = false
}

resource "fleet_hub_manifest" "redis" {
  cluster_id = tacker_vnf.a.id
  yaml_body  = templatefile("redis.yaml", { topology_key = var.topology_key, preferred = var.preferred })
}

output "server_of_each_replica" {
  description = "Which server each replica of redis-cache runs on."
  value = {
    for pod, place in fleet_hub_manifest.redis.workloads["default/Deployment/redis-cache"] : pod => place.machine
  }
}
