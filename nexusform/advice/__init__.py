"""Lint: one file per rule, registry.py lists them."""

# Public names of the package, by module.
PUBLIC = {
    "lint_input": "LintInput LintPool LintSite PlanTrial SiteUsage build_fit_counter measure_usage",
    "registry": "run_rules check_ignored_rules RULE_IDS RULES",
}
