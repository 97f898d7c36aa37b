"""What a plan is and what it says: records, effects, sums, room, limits, file. Nothing here decides."""

# What other rooms may use of this one.
DOOR = {
    "plan": (
        "Action all_decided Basis Change CheckResult Disruptions Draws Drift FORGOTTEN InventoryRead Mode "
        "OutputChange PassedOver PlacementAction PlacementChange PlacementTable PlacementTotal Plan "
        "PoolUpgrade PREDICTION PredictionScore Rollout RolloutStep SeparationVerdict SeparationViolation "
        "Step StepKind Upgrade VariableValue"
    ),
}
