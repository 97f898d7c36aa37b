"""Uncertainty of placements: ties that other seeds break otherwise, and unknown cells."""

# Public names of the package, by module.
PUBLIC = {
    "arrivals": "UNTRIED Arrival BuildingVms GroupMembership REMOVALS Stage",
    "certainty": (
        "compute_default_runs MIN_RUNS MAX_RUNS PoolCertainty repeat_with_samples "
        "run_operations SamplingResult"
    ),
    "operations": "OccupyOperation Operation PlaceOperation ReleaseOperation Token",
    "splits": (
        "count_blocked_vms format_split_choice PACKED LargestSplit RULE_DESCRIPTIONS "
        "CellSplits SPREAD SplitChoice"
    ),
}
