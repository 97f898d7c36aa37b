resource "nexus_site" "lab" {
  scheduler {
    rack_spread = "pool" # racks are ranked by the VMs of the pool first, as Operator Nexus does
  }
}
