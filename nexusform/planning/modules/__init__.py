"""Module-level parts of a plan: outputs, conditions, inventories, and validation without state."""

# Public names of the package, by module.
PUBLIC = {
    "root_outputs": "build_inventory_read read_all_data",
    "configuration_validation": "mark_unset_variables_unknown validate_configuration",
}
