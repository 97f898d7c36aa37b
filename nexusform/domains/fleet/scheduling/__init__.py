"""Placement on member clusters: KubeFleet's scheduler, rollout and status as pure functions."""

# public names of the package, by module.
PUBLIC = {
    "bindings": (
        "CycleAbort Binding BindingState Health Member PlacementType ResourceUsage SchedulingStatus"
    ),
    "eviction": "PREDICTED_EVICTION",
    "placement_explanation": "compute_policy_drift find_eligible_members SchedulingDrift",
    "properties": "RESOURCE_PREFIX",
    "rolling_update": "Readiness simulate_rollout BlockedRollout compute_rollout_target",
    "member_list": "MemberList",
    "fleet_api_validation": "check_member",
}
