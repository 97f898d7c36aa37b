"""Placement as Nova and Placement decide it."""

# Public names of the package, by module.
PUBLIC = {
    "host_usage": "SERVER_RECORD",
    "nova_hosts": "build_sku_name",
    "nova_profile": "DEFAULT_FILTERS build_nova_settings",
    "recorded_decisions": "build_hosts_without_servers decide_host",
}
