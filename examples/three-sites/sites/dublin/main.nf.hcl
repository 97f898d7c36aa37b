# The site dublin: a state of its own, planned and applied on its own.

variable "workers" {
  description = "How many workers the cluster has."
  type        = number
  default     = 3
}

module "site" {
  source  = "../../modules/site"
  name    = "dublin"
  workers = var.workers
}

output "cluster_id" {
  description = "The cluster's id, for the fleet."
  value       = module.site.cluster_id
}
