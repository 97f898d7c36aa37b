# A namespace, on the two clusters with the most nodes.
resource "fleet_cluster_resource_placement" "shop" {
  resource_selector {
    version         = "v1"
    kind            = "Namespace"
    name            = "shop"
    selection_scope = "NamespaceOnly" # default: "NamespaceWithResources", with all objects in it
  }

  policy {
    placement_type     = "PickN"
    number_of_clusters = 2

    affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 100

          preference {
            property_sorter {
              name       = "kubernetes-fleet.io/node-count"
              sort_order = "Descending"
            }
          }
        }
      }
    }
  }

  strategy {
    type = "External" # fleet_cluster_staged_update_run.shop rolls it out
  }

  depends_on = [fleet_hub_manifest.shop]
}
