"""Placement as Nova and Placement decide it."""

# Public names of the package, by module.
PUBLIC = {"host_usage": "SERVER_RECORD", "nova_profile": "DEFAULT_FILTERS", "recorded_decisions": "decide_host"}
