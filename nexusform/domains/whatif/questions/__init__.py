"""Questions asked of a state or a plan."""

# What other rooms may use of this one.
DOOR = {
    "failure": "Failure FailureScope lose_machines",
    "pod_view": "NOTHING_SEEN view_pods",
}
