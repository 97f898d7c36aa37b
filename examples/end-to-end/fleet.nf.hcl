# The clusters are members of a fleet. Their figures (node count, CPU, memory) follow from their nodes.

locals {
  region = {
    east  = "east"
    south = "south"
    west  = "west"
  }
}

resource "fleet_member_cluster" "edge" {
  for_each              = nexus_kubernetes_cluster.edge
  name                  = each.key
  kubernetes_cluster_id = each.value.id
  labels                = { region = local.region[each.key] }
}

resource "fleet_hub_manifest" "web" {
  yaml_body = file("hub/web.yaml")
}

resource "fleet_hub_manifest" "batch" {
  yaml_body = file("hub/batch.yaml")
}

# Every cluster with five nodes or more.
resource "fleet_cluster_resource_placement" "web" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }

  policy {
    placement_type = "PickAll"

    affinity {
      cluster_affinity {
        required_during_scheduling_ignored_during_execution {
          cluster_selector_term {
            property_selector {
              match_expression {
                name     = "kubernetes-fleet.io/node-count"
                operator = "Ge"
                values   = ["5"]
              }
            }
          }
        }
      }
    }
  }
}

# The one cluster with the most CPU left.
resource "fleet_cluster_resource_placement" "batch" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "batch"
  }

  policy {
    placement_type     = "PickN"
    number_of_clusters = 1

    affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 100

          preference {
            property_sorter {
              name       = "resources.kubernetes-fleet.io/available-cpu"
              sort_order = "Descending"
            }
          }
        }
      }
    }
  }
}

output "clusters_of_web" {
  description = "Clusters that run the web shop."
  value       = sort(keys(fleet_cluster_resource_placement.web.bindings))
}

output "cluster_of_batch" {
  description = "Cluster that runs the batch jobs."
  value       = one(keys(fleet_cluster_resource_placement.batch.bindings))
}
