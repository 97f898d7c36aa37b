"""Backends that store state.

registry.py lists them.
"""

# Public names of the package, by module.
PUBLIC = {
    "registry": "BACKENDS explain_unknown_backend",
    "backend_definition": (
        "BackendDefinition build_required_setting build_setting build_size_problem "
        "check_deletable check_name DEFAULT_WORKSPACE Directories MAXIMUM_LOCK_SIZE MAXIMUM_SIZE "
        "require_backend_package"
    ),
    "journal_lines": (
        "build_compaction_mark LineBatcher LineJournalBackend "
        "split_journal build_seal_record compute_document_digest WRITTEN_MARK"
    ),
    "locks": (
        "describe_lock_holder parse_lock LockLease read_lease_seconds LeaseLost read_lock_member "
        "check_breakable format_unlock_failure read_monotonic_clock format_lock"
    ),
    "memory": "MemoryBackend",
    "local_file": "is_local_state",
    "local_lock": "is_process_dead",
    "state_files": "JournalFile",
}
