"""Assembly of the plan: changes, rows, tables, steps.

Start at plan_assembly.py.
"""

# Public names of the package, by module.
PUBLIC = {
    "changes": "collect_drifted_objects",
    "plan_assembly": "build_unchanged_plan",
    "placement_accounting": "list_placement_kinds collect_names",
    "plan_result": "ExplainedVm PlanResult",
    "site_records": "add_site_capacity list_risk_diagnostics",
}
