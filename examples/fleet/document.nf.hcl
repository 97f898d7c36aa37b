# One of the YAML manifests of the product documents, read as printed: -var document=NAME.

variable "document" {
  description = "File of documents/ to place, without .yaml."
  type        = string
  default     = "pick-n-affinity"
}

resource "fleet_cluster_resource_placement" "document" {
  manifest = file("documents/${var.document}.yaml")
  lenient  = true # as printed, some of them have slips that a hub refuses
}

output "document" {
  description = "Clusters selected by the document."
  value       = sort(keys(fleet_cluster_resource_placement.document.bindings))
}
