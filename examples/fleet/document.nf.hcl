# One of the YAML manifests of the product documents, read as printed: -var document=NAME.

variable "document" {
  description = "Which file of documents/ to place, without .yaml."
  type        = string
  default     = "pick-n-affinity"
}

resource "fleet_cluster_resource_placement" "document" {
  manifest = file("documents/${var.document}.yaml")
}

output "document" {
  description = "The clusters that the document picks."
  value       = sort(keys(fleet_cluster_resource_placement.document.bindings))
}
