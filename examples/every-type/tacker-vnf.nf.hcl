resource "tacker_vnf" "firewall" {
  site_id  = nexus_site.lab.id
  base_hot = file("firewall.hot.yaml")

  vdu "filters" {
    vcpus      = 4
    memory_gib = 16
  }
}
