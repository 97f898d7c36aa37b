resource "fleet_resource_override" "colour" {
  namespace = "shop"

  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }

  policy {
    override_rule {
      cluster_selector {} # every cluster

      json_patch_override {
        op    = "replace"
        path  = "/data/colour"
        value = "$${MEMBER-CLUSTER-NAME}"
      }
    }
  }
}
