"""Plans: records, effects, totals, capacity, limits and the plan file. No decisions are made here."""

# Public names of the package, by module.
PUBLIC = {
    "plan_checks": "GuardRailResult SincePrevious",
    "plan": (
        "Action is_fully_decided Basis Change CheckResult Disruptions NumaSampling Drift FORGOTTEN_REASON "
        "InventoryRead Mode OutputChange RejectedCluster PlacementAction PlacementChange "
        "PlacementTable PlacementTotal Plan PoolUpgrade PREDICTION_KEY PredictionScore Rollout "
        "RolloutStep SeparationVerdict SeparationViolation Step StepKind Upgrade "
        "VariableValue FeasibilityResult Feasibility"
    ),
}
