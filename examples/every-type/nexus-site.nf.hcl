resource "nexus_site" "lab" {
  scheduler {
    rack_spread = "pool" # rank racks by VMs of the pool first, like Operator Nexus
  }
}
