# The site london: a state of its own, planned and applied on its own.

variable "workers" {
  description = "How many workers the cluster has."
  type        = number
  default     = 5
}

module "site" {
  source  = "../../modules/site"
  name    = "london"
  workers = var.workers
}

output "cluster_id" {
  description = "The cluster's id, for the fleet."
  value       = module.site.cluster_id
}
