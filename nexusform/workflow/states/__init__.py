"""Operations on states without a plan: `state` commands, versions and workspaces."""

# Public names of the package, by module.
PUBLIC = {
    "state_commands": (
        "change_state StateChangeResult StateReadResult decode_document has_been_written "
        "create_move_change parse_patterns create_push_change read_state create_remove_change "
        "StateCommandContext StateChange change_locked_state create_untaint_change verify_state"
    ),
    "state_history": "read_history create_rollback_change",
    "workspaces": "delete_workspace list_workspaces create_workspace select_workspace Workspaces",
}
