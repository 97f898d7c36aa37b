# One site with four racks, and three NKS clusters on it.

variable "workers_of_south" {
  description = "Number of workers of cluster south."
  type        = number
  default     = 2
}

locals {
  workers = {
    east  = 4
    south = var.workers_of_south
    west  = 5
  }
}

resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  count         = 4
  name          = "rack${count.index + 1}"
  site_id       = nexus_site.lab.id
  machine_count = 3
}

resource "nexus_kubernetes_cluster" "edge" {
  for_each = local.workers
  name     = each.key
  site_id  = nexus_site.lab.id

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "workers" {
    count       = each.value
    vm_sku_name = "NC_P10_56_v1"
  }

  depends_on = [nexus_rack.rack]
}
