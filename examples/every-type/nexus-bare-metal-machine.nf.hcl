resource "nexus_bare_metal_machine" "spare" {
  rack_id = nexus_rack.rack[1].id
  slot    = 4

  machine {
    numa_cells          = 2
    cpus_per_cell       = 32
    memory_gib_per_cell = 128
    ephemeral_disk_gib  = 3000
  }
}
