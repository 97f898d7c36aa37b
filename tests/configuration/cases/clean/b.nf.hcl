nexusform {
  required_version = ">= 0.1, < 100"
  backend "local" {
    path = "state/lab.nfstate"
  }
  lint {
    ignore = ["zones-pinned"]
  }
}

resource "nexus_site" "lab" {
  name     = var.site
  provider = simulated.east
}

module "edge" {
  source  = "./edge"
  site_id = nexus_site.lab.id
}

# nexusform:ignore big-rack, zones-pinned the rack came this way
resource "nexus_rack" "r" {
  for_each      = local.racks
  site_id       = nexus_site.lab.id
  name          = each.value
  machine_count = 16
  depends_on    = [module.edge]

  dynamic "machine_override" {
    for_each = var.cordoned
    labels   = [machine_override.value]
    content {
      cordoned = true
    }
  }

  lifecycle {
    prevent_destroy = true
    ignore_changes  = [machine_count, machine_override["bm01"].cordoned]
    precondition {
      condition     = each.key != ""
      error_message = "A rack needs a name."
    }
    postcondition {
      condition     = self.machine_count == 16
      error_message = "Odd rack ${self.name}."
    }
  }
}

resource "nexus_cluster" "a" {
  count = 2
  name  = "a-${count.index}"
  control_plane {
    count = 3
  }
  agent_pool "np1" {
    count = 2
  }
}

output "nodes" {
  value = nexus_cluster.a[0].nodes
}

output "inner" {
  value = module.edge.id
}

check "size" {
  data "nexus_inventory" "now" {
    directory = "${path.module}/inventory"
  }
  assert {
    condition     = length(data.nexus_inventory.now.racks) > 0
    error_message = "No racks."
  }
}

moved {
  from = nexus_rack.old
  to   = nexus_rack.r["a"]
}

removed {
  from = nexus_site.gone
  lifecycle {
    destroy = false
  }
}

import {
  for_each = var.cordoned
  to       = nexus_rack.r[each.key]
  id       = "lab/${each.value}"
}
