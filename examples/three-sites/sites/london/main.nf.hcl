# Site london, with its own state, plan and apply.

variable "workers" {
  description = "Number of workers of the cluster."
  type        = number
  default     = 5
}

module "site" {
  source  = "../../modules/site"
  name    = "london"
  workers = var.workers
}

output "cluster_id" {
  description = "Id of the cluster, for the fleet."
  value       = module.site.cluster_id
}
