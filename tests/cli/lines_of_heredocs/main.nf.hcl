resource "fleet_hub_manifest" "m" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: a
     namespace: x
    data:
      k: v
  EOT
}

resource "fleet_hub_manifest" "n" {
  yaml_body = <<-EOT
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: a
      namespace: x
    spec:
      replicsa: 3
      replicas: many
      selector:
        matchLabels: {a: b}
      template:
        metadata:
          labels: {a: b}
        spec:
          containers:
            - name: c
              image: x
              resources:
                requests: {cpu: 1x}
  EOT
}

output "d" {
  value = yamldecode(<<-EOT
    a: 1
    b: [1, 2
    c: 3
  EOT
  )
}

locals {
  who = "me"
}

resource "fleet_hub_manifest" "t" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: ${local.who}
     namespace: x
  EOT
}
output "j" {
  value = jsondecode(<<EOT
{
  "a": 1,
  "b": }
EOT
  )
}

# Sequences of several lines, and what ends without being there: as near as can be told.
resource "fleet_hub_manifest" "several" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: several
    %{ for word in ["a", "b"] }
      ${word}: x
    %{ endfor }
    data: 5
  EOT
}

resource "fleet_hub_manifest" "function" {
  yaml_body = yamlencode({ apiVersion = "v1", kind = "ConfigMap", data = 5, metadata = { name = "f" } })
}

resource "tacker_vnf" "v" {
  site_id  = "lab"
  name     = "v"
  base_hot = <<-EOT
    heat_template_version: 2013-05-23
    resources:
      a: [1, 2
      b: 3
  EOT
}
