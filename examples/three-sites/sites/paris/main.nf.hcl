# The site paris: a state of its own, planned and applied on its own.

variable "workers" {
  description = "How many workers the cluster has."
  type        = number
  default     = 4
}

module "site" {
  source  = "../../modules/site"
  name    = "paris"
  workers = var.workers
}

output "cluster_id" {
  description = "The cluster's id, for the fleet."
  value       = module.site.cluster_id
}
