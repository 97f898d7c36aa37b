# Single objects of a namespace.
resource "fleet_resource_placement" "settings" {
  namespace = "shop"

  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }

  policy {
    placement_type = "PickFixed"
    cluster_names  = ["core", "paris"]
  }

  strategy {
    type = "External" # fleet_staged_update_run.limits rolls it out
  }
}
