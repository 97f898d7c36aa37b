"""Providers of azure."""

# What other rooms may use of this one.
DOOR = {
    "azure_budget": "BUDGET_VARIABLE",
}
