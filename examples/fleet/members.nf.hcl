# Six member clusters with given figures.

locals {
  members = {
    cluster1   = { region = "east", ring = "monday", nodes = 3, cpu = "40", cost = "0.4", production = true, critical = "" }
    cluster2   = { region = "east", ring = "friday", nodes = 5, cpu = "60", cost = "0.5", production = true, critical = "1" }
    cluster3   = { region = "west", ring = "monday", nodes = 9, cpu = "80", cost = "0.3", production = false, critical = "2" }
    bravelion  = { region = "west", ring = "friday", nodes = 8, cpu = "100", cost = "1", production = true, critical = "1" }
    smartfish  = { region = "north", ring = "monday", nodes = 4, cpu = "20", cost = "0.2", production = false, critical = "" }
    jumpingcat = { region = "north", ring = "friday", nodes = 2, cpu = "10", cost = "0.1", production = false, critical = "" }
  }
}

resource "fleet_member_cluster" "all" {
  for_each = local.members
  name     = each.key
  location = each.value.region

  labels = merge(
    { region = each.value.region, updateDay = each.value.ring, env = each.value.production ? "prod" : "test" },
    each.value.production ? { environment = "production" } : {},
    each.value.critical != "" ? { "critical-allowed" = "true", "critical-level" = each.value.critical } : {},
  )

  properties = { "kubernetes-fleet.io/node-count" = tostring(each.value.nodes) }

  resources {
    total       = { cpu = each.value.cpu, memory = "256Gi" }
    allocatable = { cpu = each.value.cpu, memory = "240Gi" }
    available   = { cpu = each.value.cpu, memory = "128Gi" }
  }

  cost {
    per_cpu_core = each.value.cost
  }
}

resource "fleet_hub_manifest" "namespaces" {
  yaml_body = file("hub/namespaces.yaml")
}
