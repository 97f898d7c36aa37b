# Two servers, as in the Tacker specification "Support hardware-aware affinity for pods on k8s cluster".

variable "maintenance" {
  description = "Whether Compute02 is out of service: its VMs stay, and it takes no new ones."
  type        = bool
  default     = false
}

resource "nexus_site" "lab" {}

resource "nexus_rack" "rack1" {
  site_id       = nexus_site.lab.id
  machine_count = 0
}

resource "nexus_bare_metal_machine" "compute" {
  for_each = {
    Compute01 = { slot = 1, cordoned = false }
    Compute02 = { slot = 2, cordoned = var.maintenance }
  }

  rack_id     = nexus_rack.rack1.id
  name        = each.key
  slot        = each.value.slot
  machine_sku = "bom-1.7.3"
  cordoned    = each.value.cordoned
}
