"""Site snapshots, read from a state or a plan alike, and further placements that would fit."""

# Public names of the package, by module.
PUBLIC = {
    "availability": "sample_capacity",
    "machine_losses": "add_machine_losses simulate_machine_loss",
    "machine_alternatives": "list_alternative_machines MachineObstacle MachineAlternative",
    "snapshot": (
        "VmOwnerSnapshot is_large_enough supports_machine_hardware PoolSnapshot SiteSnapshot "
        "list_planned_objects list_recorded_machines list_state_objects build_snapshot Snapshot"
    ),
}
