# The fleet over all sites. It reads the states of the sites and changes none of them.

locals {
  region = {
    dublin = "north"
    london = "south"
    paris  = "south"
  }
}

data "nexusform_remote_state" "site" {
  for_each = local.region
  backend  = "local"

  config = {
    path = "../sites/${each.key}/state/nexusform.nfstate"
  }
}

# Node count, CPU and memory follow from the nodes in the site's state.
resource "fleet_member_cluster" "edge" {
  for_each              = data.nexusform_remote_state.site
  name                  = each.key
  kubernetes_cluster_id = each.value.outputs.cluster_id
  labels                = { region = local.region[each.key] }
}

resource "fleet_hub_manifest" "web" {
  yaml_body = file("hub/web.yaml")
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

output "clusters_of_web" {
  description = "Clusters that run the web shop."
  value       = sort(keys(fleet_cluster_resource_placement.web.bindings))
}

output "nodes" {
  description = "Number of nodes of each site's cluster, by its address in the state."

  value = {
    for name, site in data.nexusform_remote_state.site :
    name => site.resources["module.site.nexus_kubernetes_cluster.edge"].node_count
  }
}
