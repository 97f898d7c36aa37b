"""Plans: records, effects, totals, capacity, limits and the plan file.

No decisions are made here.
"""

# Public names of the package, by module.
PUBLIC = {
    "maintenance": (
        "ACTION_WITH_WORKLOADS "
        "compute_quorum describe_stopped_vms DrainObstacles EvacuatedVm PlannedMachineAction "
        "PoolNodeRecreation Upgrade"
    ),
    "plan_checks": (
        "PlanOrigin DecisionDifference EvaluatedFile EvaluationEnvironment GuardRailOutcome "
        "GuardRailResult ProgramCheck PreviousPlanDifferences"
    ),
    "machine_losses": "MachineLoss NodeDeletion",
    "numa_sampling": "NumaSampling SampledShortage",
    "site_facts": "list_changed_facts",
    "plan": (
        "Action is_fully_decided PlanInputs Change CheckResult ContentChange ContentEffect "
        "Drift FORGOTTEN_REASON InventoryRead Mode OutputChange OutsideChange Reversal "
        "RejectedCluster PlacementAction PlacementChange PlacementTable PlacementTotal Plan "
        "PREDICTION_KEY SitePredictionAccuracy Rollout RolloutStep SeparationVerdict "
        "SeparationViolation Step StepKind VariableValue FeasibilityResult Feasibility LossEffect "
        "MissingObject NOT_READ_IDS HypotheticalPlan build_hypothetical_plan Observations "
        "PlacementFigures WorkloadResults"
    ),
}
