"""Files and log: regular files only, durable writes."""

# Public names of the package, by module.
PUBLIC = {
    "directories": (
        "LinkInWorkTree OpenDirectory make_directories open_directory "
        "open_parent remove_tree resolve_links"
    ),
    "external_files": (
        "AllowedWriter ArgumentFile PathValueForm explain_untrusted_file find_untrusted_files "
        "is_untrusted_path list_command_files PLAN_FILE"
    ),
    "file_trees": ("TreeEntry TreeLimits UnsafeTree compute_tree_hash read_tree write_tree"),
    "limited_program": "run_program",
    "run_log": "format_traceback log_duration log_event start_log",
    "tree_hash_cache": "TreeHashCache",
    "regular_files": (
        "Confinement create_file is_path_below NotRegularFile open_regular_file "
        "open_regular_to_read OutsideConfinement PRIVATE read_regular sync_directory FileTooLarge "
        "list_directory UNCONFINED write_all_bytes write_file_atomically "
        "remove_abandoned_temporary_files remove_file"
    ),
    "program_environment": "build_program_environment",
    "limited_worker": "LimitedWorker serve_requests WorkerFailure",
    "sandbox": "declare_path declare_program declare_server enter_sandbox use_sandbox",
    "access_record": (
        "get_recorded_accesses record_file_access record_server_access start_access_record "
        "read_variable"
    ),
}
