"""Backends that store state. registry.py lists them."""

# Public names of the package, by module.
PUBLIC = {
    "backend_kind": "BackendKind Directories build_required_setting build_setting",
    "journal_lines": "check_records build_compaction_mark LineBatcher LineJournal split_lines build_seal_record",
    "locks": (
        "describe_holder parse_lock Lease read_lease_seconds LeaseLost read_lock_member format_break_failure "
        "format_release_failure read_clock format_lock"
    ),
    "memory": "MemoryBackend",
    "backend_checks": (
        "check_deletable check_name DEFAULT_WORKSPACE MAXIMUM_SIZE MAXIMUM_LOCK_SIZE require_package build_size_problem"
    ),
    "registry": "BACKENDS is_local_state",
    "state_files": "JournalFile",
}
