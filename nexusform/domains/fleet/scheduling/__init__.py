"""Placement on member clusters: KubeFleet's scheduler, rollout and status as pure functions."""

# public names of the package, by module.
PUBLIC = {
    "bindings": "BindingState Health Member",
    "eviction": "PREDICTED_EVICTION",
    "rolling_update": "Readiness simulate_rollout BlockedRollout compute_rollout_target",
}
