variable "zones" {}

locals {
  zone_count = var.zone
  other      = local.zonecount
  lone       = var
  bare       = eastern
  fine       = [for z in var.zones : z]
}

data "nexus_inventory" "now" {
  directory = "${path.modul}/x"
}

resource "nexus_site" "lab" {
  name = nexus_inventory.now.directory
}

resource "nexus_rack" "one" {
  site_id       = nexus_site.lob.id
  name          = nexus_site.lab.nam
  machine_count = count.index
  zone          = each.key
  status        = self.name
}

resource "nexus_rack" "many" {
  count   = 2
  site_id = nexus_site.lab[0].id
  name    = count.number
  tags    = { a = nexus_rack.many[0].name, b = terraform.workspace }
}

resource "nexus_cluster" "c" {
  for_each = toset(["a"])
  name     = each.nam
  control_plane {
    count = nexus_rack.many.machine_count
  }
  dynamic "agent_pool" {
    for_each = var.zones
    iterator = pool
    labels   = [pool.key]
    content {
      count = pol.value
    }
  }
  depends_on = [nexus_rack.one.id, module.net, nexus_rack.gone]
  lifecycle {
    postcondition {
      condition     = self.nodez != null
      error_message = "x"
    }
  }
}

module "net" {
  source = "./net"
}

output "a" {
  value = module.net.ip
}

output "b" {
  value = module.nut.id
}

output "c" {
  value = nexus_cluster.c.name
}

output "d" {
  value = nexus_rack
}

output "e" {
  value = nexusform.workspce
}

output "f" {
  value = [data.nexus_inventory.then.racks, data.nexus_inventory, nexus_cluster.c["a"].agent_pool["np1"].cont]
}

locals {
  again = [for x in local.again : x]
}

resource "nexus_rack" "ignoring" {
  site_id = nexus_site.lab.id
  name    = "r"
  lifecycle {
    ignore_changes = [machine_count, machine_override["bm01"].cordoned, machine_cuont]
  }
}

resource "nexus_rack" "watching" {
  for_each = toset(["a"])
  site_id  = nexus_site.lab.id
  name     = "w"
  lifecycle {
    replace_triggered_by = [local.fine, nexus_site.lab, var.zones, nexus_rack.one[each.key], module.net.ip, path.module]
  }
}

locals {
  whole = module
}

output "bare" {
  value = [path, nexusform, count, each, local, var, path["root"]]
}
