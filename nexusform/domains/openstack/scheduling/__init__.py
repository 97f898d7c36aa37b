"""Placement as Nova and Placement decide it."""

# public names of the package, by module.
PUBLIC = {
    "host_usage": "SERVER_RECORD",
    "nova_host_records": "ACTIVE ServerSize build_sku_name is_form_of_flavor",
    "nova_profile": "DEFAULT_FILTERS DEFAULT_ZONE build_nova_settings build_nova_site",
    "hosts_without_servers": "build_hosts_without_servers",
}
