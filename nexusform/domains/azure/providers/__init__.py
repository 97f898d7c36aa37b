"""Providers of azure: live sites and captured exports."""

# Public names of the package, by module.
PUBLIC = {"azure_rate_limit": "BUDGET_VARIABLE"}
