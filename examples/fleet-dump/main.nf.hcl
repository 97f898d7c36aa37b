variable "dump" {
  description = "Directory of what `kubectl get ... -A -o json` printed of a hub"
  type        = string
  default     = "hub"
}

# What stands: members with their figures, placements with their bindings. A plan goes on from there.
data "fleet_hub_export" "hub" {
  directory = var.dump
}

resource "fleet_member_cluster" "all" {
  for_each   = data.fleet_hub_export.hub.member_clusters
  name       = each.key
  labels     = each.value.labels
  health     = each.value.health
  properties = each.value.properties
  namespaces = each.value.namespaces

  resources {
    total       = each.value.resources.total
    allocatable = each.value.resources.allocatable
    available   = each.value.resources.available
  }

  dynamic "taint" {
    for_each = each.value.taints

    content {
      key    = taint.value.key
      value  = taint.value.value
      effect = taint.value.effect
    }
  }
}

resource "fleet_hub_manifest" "all" {
  for_each  = data.fleet_hub_export.hub.hub_objects
  yaml_body = each.value
}

resource "fleet_cluster_resource_placement" "all" {
  for_each = data.fleet_hub_export.hub.cluster_resource_placements
  manifest = each.value
}

output "clusters" {
  value = {
    for name, placement in fleet_cluster_resource_placement.all : name => keys(placement.bindings)
  }
}
