# Clusters ranked by a property, as blocks: the best cluster gets the full weight, the others a share.

resource "fleet_cluster_resource_placement" "most_cpu" {
  name = "most-cpu"

  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "test-deployment"
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
              name       = "resources.kubernetes-fleet.io/available-cpu"
              sort_order = "Descending"
            }
          }
        }
      }
    }
  }
}

resource "fleet_cluster_resource_placement" "cheapest" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "prod-deployment"
  }

  policy {
    placement_type     = "PickN"
    number_of_clusters = 3

    affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 100

          preference {
            property_sorter {
              name       = "kubernetes.azure.com/per-cpu-core-cost"
              sort_order = "Ascending"
            }
          }
        }
      }
    }

    # At most one more in a region than in any other.
    topology_spread_constraint {
      max_skew           = 1
      topology_key       = "region"
      when_unsatisfiable = "DoNotSchedule"
    }
  }
}

# One cluster gets another colour.
resource "fleet_resource_override" "colour" {
  namespace = "prod-deployment"

  placement {
    name = "cheapest"
  }

  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }

  policy {
    override_rule {
      cluster_selector {
        cluster_selector_term {
          label_selector {
            match_labels = { region = "north" }
          }
        }
      }

      json_patch_override {
        op    = "replace"
        path  = "/data/colour"
        value = "$${MEMBER-CLUSTER-NAME}"
      }
    }
  }
}

output "scores" {
  description = "Affinity score of every cluster selected by a ranking."
  value = {
    most_cpu = { for name, binding in fleet_cluster_resource_placement.most_cpu.bindings : name => binding.affinity_score }
    cheapest = { for name, binding in fleet_cluster_resource_placement.cheapest.bindings : name => binding.affinity_score }
  }
}
