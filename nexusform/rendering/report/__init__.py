"""Rows of a plan for all output formats: changes, placements and findings."""

# Public names of the package, by module.
PUBLIC = {
    "code_origin": "CodeOrigin",
    "finding_entries": "Finding collect_findings",
    "evaluation_sentence": "describe_plan_evaluation",
    "folding": "fold_instances format_instances format_names",
    "object_rows": "build_object_folds create_schema_lookup",
    "placement_rows": "ShownPlacements",
    "availability_losses": "find_availability_losses describe_weakened_rules",
    "upgrade_runbook": "build_upgrade_runbook",
    "plan_sentences": "format_prediction_accuracy",
    "report_tree": "CodeBlock Section Table Report Row",
    "plan_verdict": "compute_impact",
    "plan_conditions": "describe_candidate describe_feasibility describe_suggested_fixes",
}
