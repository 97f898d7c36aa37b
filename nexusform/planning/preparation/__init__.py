"""Preparation of planning: moved addresses, imports, the order of blocks, the selection."""

# Public names of the package, by module.
PUBLIC = {
    "planning_order": (
        "FLEET_PHASE iterate_modules PlanningOrder PLACEMENT_PHASE compute_planning_order "
        "iterate_resource_blocks"
    ),
    "prior_state": (
        "normalize_imported_attributes list_import_targets ImportTarget PriorState "
        "build_missing_configuration_error"
    ),
    "target_selection": "split_object_address",
}
