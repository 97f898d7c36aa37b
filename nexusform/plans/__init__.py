"""What a plan is and what it says: records, effects, sums, room, limits, file. Nothing here decides."""

# What other rooms may use of this one.
DOOR = {
    "effects": (
        "beside_upgrades DISMISSED DISTURBING Effect effect_clauses effect_counts effect_of EffectCount "
        "ground_of is_told LEAVING Node node_of number_of state_of told_nodes told_pools verb_of"
    ),
    "guard_rails": "broken_limits GUARD_RAIL GUARD_RAILS guarded Limit limit_of limits_of STRANDED",
    "occupancy": (
        "changed_racks MachineCount note_of noted OutsideVm PoolVms RackCounts Room "
        "sharing_as_before SiteMachine SiteRack SiteRoom SiteVms take_note"
    ),
    "other_room": (
        "ClusterNetworks declared_network lacking_text left_text NetworkSupply Nodes nodes_of "
        "note_of_supplies noted_supplies other_room OtherKind OtherRoom POD_BLOCK RuntimeUpgradeOffer "
        "RuntimeVersion StorageSupply Supplies tightest WORDS"
    ),
    "plan": (
        "Action all_decided Basis Change CheckResult Disruptions Draws Drift FORGOTTEN InventoryRead "
        "Mode OutputChange PassedOver PlacementAction PlacementChange PlacementTable PlacementTotal "
        "Plan PoolUpgrade PREDICTION PredictionScore Rollout RolloutStep SeparationVerdict "
        "SeparationViolation Step StepKind Upgrade VariableValue"
    ),
    "pool_reason": "Coming PoolReason",
}
