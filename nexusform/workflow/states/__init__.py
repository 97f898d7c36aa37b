"""What changes or tells a state without a plan: commands of `state`, its versions, workspaces."""

# What other rooms may use of this one.
DOOR = {
    "state_commands": (
        "change_state ChangedState decode_pushed exists move parse_patterns push read_state remove "
        "Session StateChange unrelated untaint verify"
    ),
    "state_history": "read_history rollback Version",
    "workspaces": "delete list_workspaces make select Workspaces",
}
