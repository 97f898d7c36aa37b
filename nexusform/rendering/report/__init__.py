"""Rows of a plan for all output formats: changes, placements and findings."""

# Public names of the package, by module.
PUBLIC = {
    "summed_decision": (
        "build_summed_lines check_summed_limits describe_interruptions has_lasting_risks "
        "list_record_risks"
    ),
    "decision_record": "DecisionRecord build_decision_record",
    "decision_lines": "describe_expiry DecisionLine",
    "domain_sections": "ACTION_SIGNS limit_rows",
    "finding_entries": "Finding collect_findings",
    "folding": "format_instances SITE replace_site",
    "loss_sections": ("build_loss_section build_pool_table describe_waiting_vms get_pool_name"),
    "object_rows": "build_object_folds create_schema_lookup",
    "placement_rows": "ShownPlacements",
    "playback": "Playback PlaybackStep PoolEffect",
    "rack_map": "MapVm ChangeMark OUTSIDE SiteMap build_site_map",
    "plan_sentences": (
        "describe_inventory describe_inventory_age describe_plan_evaluation describe_plan_origin "
        "format_prediction_accuracy format_uncertainty_mark has_waiting_changes "
        "HYPOTHETICAL_PLAN"
    ),
    "report_tree": (
        "ActionText CodeBlock CodeOrigin Item ItemGroup Section Style StyledText Table Text "
        "Report Row"
    ),
    "plan_verdict": "format_current_verdict",
    "plan_conditions": (
        "describe_placement_feasibility describe_suggested_fixes describe_unselected_cluster"
    ),
}
