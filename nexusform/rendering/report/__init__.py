"""Rows of a plan for all output formats: changes, placements and findings."""

# Public names of the package, by module.
PUBLIC = {
    "code_origin": "CodeOrigin",
    "entries": "Finding collect_findings",
    "folding": "fold_instances format_instances format_names",
    "object_rows": "build_object_folds",
    "overview": "compute_impact",
    "placement_rows": "Detail",
    "plan_report": "create_schema_lookup",
    "availability_losses": "find_availability_losses find_weakened_rules",
    "upgrade_runbook": "build_upgrade_runbook",
    "wording": "format_prediction_accuracy",
    "report_tree": "Section Table Report Row",
    "evaluation_sentence": "describe_evaluation",
}
