"""Site snapshots, read from a state or a plan alike, and further placements that would fit."""

# Public names of the package, by module.
PUBLIC = {
    "availability": (
        "sample_capacity group_down_vms SampledCapacity place_replacements PlacedReplacements "
        "build_pool_availability PoolAvailability list_affected_pools Replacement"
    ),
    "machine_alternatives": "list_alternative_machines Requirement MachineAlternative",
    "snapshot": (
        "ClusterSnapshot is_large_enough is_hardware_listed OwnerKind PoolSnapshot SiteSnapshot "
        "list_planned_objects list_state_objects build_snapshot Snapshot"
    ),
}
