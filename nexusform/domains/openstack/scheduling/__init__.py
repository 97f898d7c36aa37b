"""Placement as Nova and Placement decide it."""

# Public names of the package, by module.
PUBLIC = {
    "nova_hosts": "Flavor NovaHost Resource",
    "nova_profile": "build_machine build_nova_profile build_sku DEFAULT_FILTERS DEFAULT_MULTIPLIERS FILTERS",
}
