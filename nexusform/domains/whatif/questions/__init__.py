"""What-if questions about a state or a plan."""

# Public names of the package, by module.
PUBLIC = {"failure": "FailureScope simulate_machine_loss", "pod_view": "NO_OBSERVATIONS build_pods"}
