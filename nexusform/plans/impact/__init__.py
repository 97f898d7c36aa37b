"""Impact of a plan on running objects: the effect of each row, totals, and guard rails."""

# Public names of the package, by module.
PUBLIC = {
    "approved_consequences": "list_smaller_consequences list_unapproved_consequences",
    "decision_figures": (
        "build_decision PlanDecisionSummary SpareCapacitySummary "
        "PlacementConfidenceSummary ImpactSummary SurgeVerdict SUFFICIENT INSUFFICIENT "
        "sum_decisions"
    ),
    "consequence_texts": "describe_objects describe_risks format_price",
    "consequence_views": (
        "list_assessed_risks list_destroyed_objects "
        "list_replaced_objects list_reported_consequences list_unnamed_risks "
        "select_added_consequences"
    ),
    "object_effects": (
        "build_cluster_formatter select_rows_outside_upgrades Effect "
        "format_effect_clauses count_effects count_content_effects count_plan_effects "
        "compute_effect EffectCount LOSS_EFFECTS count_objects_with_effects "
        "describe_lost_vms describe_state format_effect_verb format_kind_counts "
        "sum_effects"
    ),
    "outside_changes": "find_outside_changes",
    "overridden_values": "list_overridden_values",
    "risk_assessment": "compute_consequences",
    "site_changes": "list_site_changes",
    "guard_rails": (
        "list_broken_limits GUARD_RAIL GUARD_RAIL_REVIEW apply_limits GuardRailLimit "
        "get_limit_text list_limits parse_guard_rail_limits NOT_PREDICTED "
        "NOTHING_TO_PREDICT STRANDED count_unpredicted_resources format_limit "
        "GuardRailMeasurement check_limit is_summed measure_limit"
    ),
    "previous_plan": "compare_plans compare_with_previous warn_about_previous",
}
