"""Lint: one file per rule, registry.py lists them."""

# Public names of the package, by module.
PUBLIC = {
    "lint_input": "LintInput LintPool build_fit_counter build_placement_simulator LintSite",
    "registry": "run_rules check_ignored_rules RULE_IDS RULES",
}
