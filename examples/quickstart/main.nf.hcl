# One site with two racks of four machines, and one cluster on them.

resource "nexus_site" "demo" {}

resource "nexus_rack" "left" {
  site_id       = nexus_site.demo.id
  machine_count = 4
}

resource "nexus_rack" "right" {
  site_id       = nexus_site.demo.id
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.demo.id

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "workers" {
    count       = 4
    vm_sku_name = "NC_P22_112_v1"
  }
}

output "machine_of_each_node" {
  description = "Machine of each node of the cluster."
  value       = { for name, node in nexus_kubernetes_cluster.web.nodes : name => node.machine }
}
