# The empty environment of "Resource placement in Azure Operator Nexus Kubernetes": eight racks of sixteen machines,
# clusters A, B and C. A and C belong to one tenant, B to another, and tenants must not share a machine.

variable "apart" {
  description = "Give each tenant its own racks."
  type        = bool
  default     = false
}

locals {
  first_tenant  = var.apart ? ["1", "2", "3", "4"] : null
  second_tenant = var.apart ? ["5", "6", "7", "8"] : null
}

resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  for_each = toset([for number in range(1, 9) : tostring(number)])

  site_id           = nexus_site.lab.id
  name              = "rack${each.key}"
  availability_zone = each.key
  machine_count     = 16
  machine_sku       = "bom-1.7.3"
}

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.lab.id
  name    = "cluster-a"

  control_plane {
    count              = 3
    vm_sku_name        = "NC_G12_56_v1"
    availability_zones = local.first_tenant
  }

  agent_pool "pool1" {
    count              = 24
    vm_sku_name        = "NC_P46_224_v1"
    availability_zones = local.first_tenant
  }

  agent_pool "pool2" {
    count              = 6
    vm_sku_name        = "NC_G6_28_v1"
    availability_zones = local.first_tenant
  }
}

resource "nexus_kubernetes_cluster" "b" {
  site_id = nexus_site.lab.id
  name    = "cluster-b"

  control_plane {
    count              = 5
    vm_sku_name        = "NC_G24_112_v1"
    availability_zones = local.second_tenant
  }

  agent_pool "pool1" {
    count              = 48
    vm_sku_name        = "NC_P46_224_v1"
    availability_zones = local.second_tenant
  }

  agent_pool "pool2" {
    count              = 24
    vm_sku_name        = "NC_P22_112_v1"
    availability_zones = local.second_tenant
  }
}

resource "nexus_kubernetes_cluster" "c" {
  site_id = nexus_site.lab.id
  name    = "cluster-c"

  control_plane {
    count              = 3
    vm_sku_name        = "NC_G12_56_v1"
    availability_zones = local.first_tenant
  }

  agent_pool "pool1" {
    count              = 12
    vm_sku_name        = "NC_P46_224_v1"
    availability_zones = ["1", "4"]
  }
}

resource "nexus_separation_rule" "tenants" {
  scope = "machine"

  group {
    cluster_ids = [nexus_kubernetes_cluster.a.id, nexus_kubernetes_cluster.c.id]
  }

  group {
    cluster_ids = [nexus_kubernetes_cluster.b.id]
  }
}
