"""Output of the `openstack` command line."""

# Public names of the package, by module.
PUBLIC: dict[str, str] = {}
