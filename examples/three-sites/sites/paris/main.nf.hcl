# Site paris, with its own state, plan and apply.

variable "workers" {
  description = "Number of workers of the cluster."
  type        = number
  default     = 4
}

module "site" {
  source  = "../../modules/site"
  name    = "paris"
  workers = var.workers
}

output "cluster_id" {
  description = "Id of the cluster, for the fleet."
  value       = module.site.cluster_id
}
