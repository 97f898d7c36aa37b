"""What-if questions about a state or a plan."""

# Public names of the package, by module.
PUBLIC = {"failure_simulation": "FailureScope simulate_machine_failure"}
