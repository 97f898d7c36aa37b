# Restart of a machine. A new run_id restarts it again.
resource "nexus_bare_metal_machine_action" "restart" {
  machine_id      = nexus_bare_metal_machine.spare.id
  action          = "Restart"
  run_id          = "2026-11-20"
  allow_workloads = true
}
