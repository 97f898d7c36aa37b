"""Output of the `openstack` command line."""

# Public names of the package, by module.
PUBLIC = {"capture_script": "build_openstack_script"}
