"""Placement on member clusters: KubeFleet's scheduler, rollout and status as pure functions."""

# Public names of the package, by module.
PUBLIC = {
    "bindings": "CycleAbort Binding BindingState Health Member PlacementType ResourceUsage",
    "decisions": "SchedulingStatus",
    "eviction": "PREDICTED_EVICTION",
    "explanation": "compute_drift find_eligible_members PolicyDrift",
    "properties": "RESOURCE_PREFIX",
    "rollout": "Readiness simulate_rollout BlockedRollout compute_rollout_target",
    "member_list": "MemberList",
    "validation": "check_member",
}
