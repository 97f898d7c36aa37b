"""From a directory to an opened project: configuration, variables, providers, the backend and its state."""

# What other rooms may use of this one.
DOOR = {
    "backend_choice": "BackendChoice open_choice refusal_of_settings",
    "elsewhere": "RemoteStates Servers",
    "place": "confinement_of confining_of ENCRYPTION_VARIABLE load_configuration Place place_in",
    "project": "find_backend of_workspace open_project Opened Project project_with",
    "providers": "managed_objects objects_of strange_addresses",
    "stored": "read_stored state_digest Stored",
    "surroundings": "plan_time read_file RealFiles SystemClock unwritable write_output",
    "validate": "TEST_DIRECTORY validate_directory Validation",
}
