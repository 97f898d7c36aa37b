# Clusters of a Terraform plan (azapi), read with jsondecode and placed on the site below.

variable "plan" {
  description = "Output of `terraform show -json PLANFILE`."
  type        = string
  default     = "plan.json"
}

locals {
  changes = jsondecode(file(var.plan)).resource_changes
  made    = [for one in local.changes : one.change.after if contains(one.change.actions, "create")]

  clusters = {
    for one in local.made : one.name => one.body.properties
    if startswith(lower(try(one.type, "")), "microsoft.networkcloud/kubernetesclusters@")
  }
}

resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  count = 4

  site_id       = nexus_site.lab.id
  name          = "rack${count.index + 1}"
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "planned" {
  for_each = local.clusters

  site_id            = nexus_site.lab.id
  name               = each.key
  kubernetes_version = each.value.kubernetesVersion

  control_plane {
    count              = each.value.controlPlaneNodeConfiguration.count
    vm_sku_name        = each.value.controlPlaneNodeConfiguration.vmSkuName
    availability_zones = try(each.value.controlPlaneNodeConfiguration.availabilityZones, null)
  }

  dynamic "agent_pool" {
    for_each = each.value.initialAgentPoolConfigurations
    labels   = [agent_pool.value.name]

    content {
      count              = agent_pool.value.count
      vm_sku_name        = agent_pool.value.vmSkuName
      mode               = agent_pool.value.mode
      availability_zones = try(agent_pool.value.availabilityZones, null)
    }
  }
}

output "machines" {
  description = "Machines of the nodes of each cluster."
  value = {
    for name, cluster in nexus_kubernetes_cluster.planned :
    name => { for node, place in cluster.nodes : node => place.machine }
  }
}
