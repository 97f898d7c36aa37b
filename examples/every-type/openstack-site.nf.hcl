# A tacker_vnf with site_id = openstack_site.region_one.id is placed as Nova places its servers.
resource "openstack_site" "region_one" {
  inventory          = data.openstack_inventory.region_one
  weight_multipliers = { ram = 2 }
}
