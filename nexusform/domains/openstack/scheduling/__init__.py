"""Placement as Nova and Placement decide it."""

# Public names of the package, by module.
PUBLIC = {"recorded_decisions": "decide_host"}
