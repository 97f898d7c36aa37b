"""Module-level parts of a plan: outputs, conditions, inventories, and validation without state."""

# Public names of the package, by module.
PUBLIC = {
    "outputs": "build_inventory_read read_all_data",
    "configuration_validation": "mask_unknown_values validate_configuration",
}
