"""Plans: records, effects, totals, capacity, limits and the plan file. No decisions are made here."""

# Public names of the package, by module.
PUBLIC = {
    "cluster_upgrades": "compute_quorum Disruptions PoolUpgrade Upgrade",
    "plan_checks": "DecisionDifference GuardRailResult ProgramCheck SincePrevious",
    "plan": (
        "Action is_fully_decided Basis Change CheckResult NumaSampling Drift FORGOTTEN_REASON "
        "InventoryRead Mode OutputChange RejectedCluster PlacementAction PlacementChange PlacementTable "
        "PlacementTotal Plan PREDICTION_KEY PredictionScore Rollout RolloutStep SeparationVerdict "
        "SeparationViolation Step StepKind VariableValue FeasibilityResult Feasibility LossEffect"
    ),
    "machine_actions": "LeavingVm MachineAction select_stopped_vms describe_stopped_vms",
    "evaluation": "EvaluatedFile Evaluation",
}
