resource "nexus_kubernetes_cluster" "core" {
  site_id            = nexus_site.lab.id
  kubernetes_version = "1.31.5"

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "workers" {
    count       = 2
    vm_sku_name = "NC_P10_56_v1"
    labels      = { tier = "web" }

    upgrade_settings {
      max_surge = "1"
    }
  }

  depends_on = [nexus_rack.rack]
}
