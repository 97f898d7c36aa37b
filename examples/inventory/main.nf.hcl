# A real site exported with az networkcloud (export/), and a new cluster on its free capacity.

variable "max_age" {
  description = "Warn when the export is older than this, for example \"24h\"."
  type        = string
  default     = null
}

data "nexus_inventory" "lon1" {
  directory = "${path.module}/export"
  max_age   = var.max_age
}

resource "nexus_site" "lon1" {}

resource "nexus_rack" "rack" {
  for_each = data.nexus_inventory.lon1.racks

  site_id           = nexus_site.lon1.id
  name              = each.key
  availability_zone = each.value.availability_zone
  machine_sku       = each.value.machine_sku
  machine_count     = 0 # every machine is described on its own
}

resource "nexus_bare_metal_machine" "machine" {
  for_each = data.nexus_inventory.lon1.machines

  rack_id         = nexus_rack.rack[each.value.rack].id
  name            = each.key
  slot            = each.value.slot
  machine_sku     = each.value.machine_sku
  roles           = each.value.roles
  cordoned        = each.value.cordon_status == "Cordoned"
  power_state     = each.value.power_state
  ready_state     = each.value.ready_state
  detailed_status = each.value.detailed_status

  # Capacity held by VMs that this configuration does not manage.
  dynamic "occupied" {
    for_each = each.value.occupied

    content {
      name       = occupied.value.name
      cpu_cores  = occupied.value.cpu_cores
      memory_gib = occupied.value.memory_gib
      disk_gib   = occupied.value.disk_gib
      numa_cells = occupied.value.numa_cells
      cells      = occupied.value.cells
    }
  }
}

resource "nexus_kubernetes_cluster" "ran" {
  site_id = nexus_site.lon1.id
  name    = "ran-du"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "workers" {
    count       = 6
    vm_sku_name = "NC_P46_224_v1"
  }
}

output "nodes" {
  description = "Machine of each node of the new cluster."
  value = {
    for name, node in nexus_kubernetes_cluster.ran.nodes :
    name => { machine = node.machine, rack = node.rack }
  }
}

output "machines_that_take_no_new_vms" {
  description = "Compute machines that are not schedulable, and their state."
  value = {
    for name, machine in data.nexus_inventory.lon1.machines :
    name => "${machine.cordon_status}, power ${machine.power_state}, ready ${machine.ready_state}"
    if contains(machine.roles, "compute-plane") && !(
      machine.cordon_status == "Uncordoned" && machine.power_state == "On" &&
      machine.ready_state == "True" && machine.detailed_status == "Provisioned"
    )
  }
}

output "already_there" {
  description = "VMs per machine that this configuration does not manage."
  value = {
    for name, machine in data.nexus_inventory.lon1.machines :
    name => [for vm in machine.occupied : vm.name] if length(machine.occupied) > 0
  }
}
