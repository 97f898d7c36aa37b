"""Verification of a state: rules and consistency."""

PUBLIC = {  # public names of the package, by module
    "state_rules": "check_state_rules",
    "state_consistency": "check_missing_dependencies check_consistency check_missing_machines",
}
