provider "fleet" {}

resource "fleet_hub_manifest" "shop" {
  provider  = fleet
  yaml_body = file("${path.module}/shop.yaml")
}

resource "fleet_cluster_resource_placement" "shop" {
  provider = fleet
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "shop"
  }
  policy {
    placement_type     = "PickN"
    number_of_clusters = 2
  }
  depends_on = [fleet_hub_manifest.shop]
}

output "clusters" {
  value = keys(fleet_cluster_resource_placement.shop.bindings)
}
