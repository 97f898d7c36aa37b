# Files exported with `nexusform inventory script -for=openstack`.
data "openstack_inventory" "region_one" {
  directory = "documents/openstack"
}

output "compute_hosts" {
  value = keys(data.openstack_inventory.region_one.hosts)
}
