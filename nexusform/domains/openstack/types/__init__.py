"""Resource type openstack_site, and data openstack_inventory."""
