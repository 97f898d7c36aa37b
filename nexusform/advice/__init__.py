"""Lint: one file per rule, registry.py lists them."""

# Public names of the package, by module.
PUBLIC = {"facts": "LintFacts PoolFacts build_simulator SiteFacts", "registry": "run_rules RULE_IDS RULES"}
