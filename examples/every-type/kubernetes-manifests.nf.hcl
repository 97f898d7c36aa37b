data "kubernetes_manifests" "hub" {
  directory = "documents/hub"
}

output "objects_on_the_hub" {
  value = keys(data.kubernetes_manifests.hub.hub_objects)
}
