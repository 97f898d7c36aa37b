"""Runs: lock, refresh, import and plan."""

# Public names of the package, by module.
PUBLIC = {
    "object_import": (
        "find_imported_object resolve_import_address CONFIGURATION_SUFFIX render_resource_block "
        "import_object check_generated_path ImportResult find_source_importer "
        "add_computed_attributes write_new_file"
    ),
    "state_locking": "break_lock find_lock_holder LockOptions",
    "provider_identity": "check_identities",
    "evaluation_record": "build_plan_origin find_backend_origin find_plan_origin",
    "saved_plan_checks": "check_saved_plan",
    "site_checks": (
        "MAXIMUM_WAIT_SECONDS check_after_approval check_approved_consequences "
        "check_consequences_again needs_replay read_drift_again record_unchecked_site"
    ),
    "run": (
        "build_base_request begin_run find_older_exports FOREIGN_JOURNAL_MOVED get_plan_options "
        "record_sources RunCallbacks PlanOptions Run"
    ),
    "state_refresh": "refresh_objects",
}
