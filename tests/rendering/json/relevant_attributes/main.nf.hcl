variable "n" {
  default = 1
}

variable "bs" {
  default = 2
}

resource "nexus_vm_sku" "a" {
  name       = "a"
  vcpus      = 2
  memory_gib = 4
  disk_gib   = var.n
}

resource "nexus_vm_sku" "b" {
  count      = var.bs
  name       = "b${count.index}"
  vcpus      = 2
  memory_gib = 4
  disk_gib   = nexus_vm_sku.a.disk_gib

  lifecycle {
    precondition {
      condition     = nexus_vm_sku.c["q"].id != ""
      error_message = "what conditions look at does not count"
    }
  }
}

resource "nexus_vm_sku" "c" {
  for_each   = toset(["q"])
  name       = "c"
  vcpus      = 2
  memory_gib = 4
  disk_gib   = 1
}

resource "nexus_vm_sku" "e" {
  for_each   = nexus_vm_sku.c
  depends_on = [nexus_vm_sku.a]
  name       = "e"
  vcpus      = 2
  memory_gib = 4
  disk_gib   = nexus_vm_sku.b[0].disk_gib
}

locals {
  first = nexus_vm_sku.e["q"]
}

resource "nexus_vm_sku" "f" {
  for_each   = { x = local.first.disk_gib }
  name       = "f"
  vcpus      = 2
  memory_gib = 4
  disk_gib   = each.value
}

module "m" {
  source = "./m"
  x      = nexus_vm_sku.b[1].disk_gib
  y      = nexus_vm_sku.c["q"]
}

module "several" {
  count  = 2
  source = "./m"
  x      = 1
  y      = { disk_gib = 1 }
  name   = "several-${count.index}"
}

output "o" {
  value = module.m
}

output "p" {
  value = nexus_vm_sku.e["q"].disk_gib
}

output "splat" {
  value = [nexus_vm_sku.b[*].disk_gib, module.several[*].o, module.several[1].o]
}
