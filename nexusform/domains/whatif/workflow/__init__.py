"""Preparation of what-if questions."""

# Public names of the package, by module.
PUBLIC = {"state_warnings": "has_node_data list_unfinished_step_warnings list_unread_warnings"}
