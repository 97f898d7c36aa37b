resource "nexus_virtual_machine" "probe" {
  site_id    = nexus_site.lab.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 100

  placement_hint {
    hint_type            = "AntiAffinity"
    resource_id          = nexus_kubernetes_cluster.core.id
    scheduling_execution = "Hard"
    scope                = "Machine"
  }
}
