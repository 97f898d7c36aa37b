# What every site is made of: racks, and one NKS cluster on them.

variable "name" {
  description = "The site's name; the cluster is called after it."
  type        = string
}

variable "racks" {
  description = "How many racks the site has."
  type        = number
  default     = 2
}

variable "workers" {
  description = "How many workers the cluster has."
  type        = number
}

resource "nexus_site" "this" {
  name = var.name
}

resource "nexus_rack" "rack" {
  count         = var.racks
  name          = "rack${count.index + 1}"
  site_id       = nexus_site.this.id
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "edge" {
  name    = var.name
  site_id = nexus_site.this.id

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "workers" {
    count       = var.workers
    vm_sku_name = "NC_P10_56_v1"
  }

  depends_on = [nexus_rack.rack]
}

output "cluster_id" {
  description = "The cluster's id, for the fleet."
  value       = nexus_kubernetes_cluster.edge.id
}
