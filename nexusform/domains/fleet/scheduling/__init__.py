"""Placements on member clusters: KubeFleet's scheduler, rollout and status, as pure functions."""

# What other rooms may use of this one.
DOOR = {
    "bindings": "Abort Binding BindingState Health Member PlacementType ResourceUsage",
    "decisions": "SchedulingStatus",
    "explanation": "drift eligible PolicyDrift",
    "properties": "RESOURCE_PREFIX",
    "rollout": "Readiness roll_out Stop target_of",
    "roster": "Roster",
    "validation": "check_member",
}
