resource "fleet_hub_manifest" "shop" {
  yaml_body = <<-YAML
    apiVersion: v1
    kind: Namespace
    metadata:
      name: shop
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata:
      namespace: shop
      name: settings
    data:
      colour: blue
  YAML
}
