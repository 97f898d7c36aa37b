"""Opening of a project: configuration, variables, providers, backend and state."""

# Public names of the package, by module.
PUBLIC = {
    "backend_choice": "BackendChoice open_chosen_backend explain_rejected_settings",
    "remote_inputs": "RemoteStateReader ServerResponseCache",
    "command_context": (
        "parse_confinement detect_confinement_source ENCRYPTION_VARIABLE "
        "load_project_configuration CommandContext create_editor_context create_locked_packages"
    ),
    "project": (
        "find_backend open_backend prepare_backend open_project OpenResult Project create_project "
        "select_variable_values"
    ),
    "garbage_collection": "collect_garbage_rarely",
    "provider_setup": (
        "build_capture_address check_provider_addresses is_capture_of_site list_managed_objects "
        "list_objects"
    ),
    "stored_state": "read_stored_state compute_state_digest StoredState",
    "system_io": (
        "read_file ConfinedFileAccess SystemClock explain_unwritable_file write_output "
        "remove_older_output may_be_input open_output SIZE_CAP is_stream_or_directory"
    ),
    "directory_validation": "TEST_DIRECTORY validate_directory DirectoryValidation",
}
