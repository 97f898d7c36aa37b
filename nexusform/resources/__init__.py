"""Addresses of resources, and the graph of their dependencies."""

# Public names of the package, by module.
PUBLIC = {
    "address": (
        "Address AddressPattern AddressProblem compute_address_order compute_key_sort_key "
        "ConfigAddress format_module Key Mode MODE_KEYWORDS MODE_PREFIXES MODES OTHER_MODES "
        "ModulePath ModulePathStep parse_address parse_pattern render_moved_block ROOT_MODULE"
    ),
    "graph": "DEFAULT_PARALLELISM find_cycles find_reachable sort_topologically",
}
