
provider "fleet" { timeout = "1s" }
data "fleet_hub" "hub" {}

resource "fleet_hub_manifest" "web" {
  provider  = fleet
  yaml_body = <<-Y
    apiVersion: v1
    kind: Namespace
    metadata: {name: web}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: settings, namespace: web}
    data: {a: "1"}
  Y
}

resource "fleet_cluster_resource_placement" "web" {
  provider = fleet
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type     = "PickN"
    number_of_clusters = 2
  }
  
  depends_on = [fleet_hub_manifest.web]
}
