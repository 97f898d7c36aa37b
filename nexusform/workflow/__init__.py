"""The wiring, one file per operation. Prints nothing."""

# What other rooms may use of this one.
DOOR = {
    "advise": "Advice find_advice",
    "apply": "apply_plan apply_rest ApplyOptions ApplyOutcome RESCUE",
    "backend_choice": "BackendChoice open_choice refusal_of_settings",
    "console": "Console is_unfinished open_console",
    "elsewhere": "RemoteStates Servers",
    "encryption": "encrypted",
    "explain": "explain Reason",
    "exporting": "export_plan FORMATS",
    "formatting": "decoded format_paths Formatting STDIN",
    "graph": "find_graph svg_of_dot",
    "importing": (
        "address_to_import ENDING generated_block import_one refusal_to_generate SOURCES Takeover "
        "with_computed write_new"
    ),
    "init": "init_directory InitOptions missing_files write_first_file",
    "locking": "break_lock describe_holder find_holder Locking",
    "place": "confinement_of confining_of ENCRYPTION_VARIABLE load_configuration NO_LIMITS Place place_in",
    "plan_verdicts": "judge",
    "project": "find_backend open_project Opened Project project_with",
    "providers": "managed_objects objects_of strange_addresses",
    "resuming": "differences discard find_rest remarks_on_rest Rest rest_of",
    "run": "base_request begin Notices PlanOptions Run",
    "saved_plans": (
        "configuration_of open_limited open_saved other_variables place_of_plan planned_variables prior_of "
        "read_limited read_plan save_plan Signer sources_of unsealed"
    ),
    "show": "find_shown Shown",
    "signed_plans": "sign_plan signature_problems signer_of write_signed",
    "state_commands": (
        "change_state ChangedState decode_pushed exists move parse_patterns push read_state remove "
        "Session StateChange taint unrelated verify"
    ),
    "state_history": "earlier_versions read_history rollback Version",
    "stored": "read_stored state_digest Stored",
    "surroundings": "plan_time read_file RealFiles SystemClock unwritable write_output",
    "validate": "TEST_DIRECTORY validate_directory Validation",
    "workspaces": "delete list_workspaces make select Workspaces",
}
