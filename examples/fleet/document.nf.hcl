# One of the YAML manifests of the product documents, read as printed: -var document=NAME.

variable "document" {
  description = "Which file of documents/ to place, without .yaml."
  type        = string
  default     = "pick-n-affinity"
}

resource "fleet_cluster_resource_placement" "document" {
  manifest = file("documents/${var.document}.yaml")
  lenient  = true # as printed, some of them have slips that a hub refuses
}

output "document" {
  description = "The clusters that the document picks."
  value       = sort(keys(fleet_cluster_resource_placement.document.bindings))
}
