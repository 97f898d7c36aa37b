resource "fleet_cluster_resource_override" "canary" {
  placement {
    name = "shop"
  }

  cluster_resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "shop"
  }

  policy {
    override_rule {
      cluster_selector {
        cluster_selector_term {
          label_selector {
            match_labels = { ring = "1" }
          }
        }
      }

      json_patch_override {
        op    = "add"
        path  = "/metadata/labels"
        value = jsonencode({ canary = "true" })
      }
    }
  }
}
