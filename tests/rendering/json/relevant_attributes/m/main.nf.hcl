variable "x" {
}

variable "y" {
}

variable "name" {
  default = "m"
}

resource "nexus_vm_sku" "in" {
  name       = var.name
  vcpus      = 2
  memory_gib = 4
  disk_gib   = var.x + var.y.disk_gib
}

output "o" {
  value = nexus_vm_sku.in.disk_gib
}

output "n" {
  value = null
}
