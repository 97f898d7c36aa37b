"""Whether a plan that was read means what it shows."""

# What other rooms may use of this one.
DOOR = {
    "standing_rules": "broken_rules",
    "standing_state": "dependencies_on_nothing state_problems vms_on_no_machine",
}
