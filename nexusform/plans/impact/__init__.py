"""What a plan does to what runs: the effect of each row, their sums, the limits that a team sets on them."""

# What other rooms may use of this one.
DOOR = {
    "effects": (
        "beside_upgrades DISMISSED DISTURBING Effect effect_clauses effect_counts effect_of EffectCount "
        "ground_of is_told LEAVING Node node_of number_of state_of told_nodes told_pools verb_of"
    ),
    "guard_rails": "broken_limits GUARD_RAIL guarded Limit limit_of limits_of STRANDED",
    "pool_reason": "Coming PoolReason",
}
