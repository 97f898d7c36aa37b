"""Verification of a state: rules and consistency."""

# Public names of the package, by module.
PUBLIC = {
    "state_rules": "check_state_rules",
    "state_consistency": (
        "build_state_inventory check_missing_dependencies check_consistency check_missing_machines"
    ),
}
