"""Before anything is planned: addresses that moved, imports, the order of blocks, the selection."""

# What other rooms may use of this one.
DOOR = {
    "order": "FLEET_PHASE modules Order PLACEMENT_PHASE planning_order resource_blocks",
    "prior": "adopted import_targets ImportTarget Prior without_configuration",
    "selection": "split_object",
}
