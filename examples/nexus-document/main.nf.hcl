# The environment of "Resource placement in Azure Operator Nexus Kubernetes": eight racks of sixteen
# machines, and the clusters A to E in the order in which the document creates them.

variable "step" {
  description = "Step of the document: \"empty\" (clusters A, B, C), \"half-full\" (and D), \"nearly-full\" (and E)."
  type        = string
  default     = "nearly-full"

  validation {
    condition     = contains(["empty", "half-full", "nearly-full"], var.step)
    error_message = "The step is \"empty\", \"half-full\" or \"nearly-full\"."
  }
}

resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  for_each = toset([for number in range(1, 9) : tostring(number)])

  site_id           = nexus_site.lab.id
  name              = "rack${each.key}"
  availability_zone = each.key
  machine_count     = 16
  machine_sku       = "bom-1.7.3"
}
