data "kubernetes_manifests" "hub" {
  directory = "../fleet/hub"
}

output "objects_on_the_hub" {
  value = keys(data.kubernetes_manifests.hub.hub_objects)
}
