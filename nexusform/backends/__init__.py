"""Where state lives. registry.py lists them."""

# What other rooms may use of this one.
DOOR = {
    "backend_kind": "BackendKind Directories needed setting",
    "deadlines": "Deadline deadline_seconds GivenUp not_counted silence_seconds still_wanted",
    "journal_lines": "check_records compaction_mark Gathering KeepsLines lines_of seal",
    "locks": "describe from_json Lease lease_seconds LeaseLost member not_broken not_released now to_json",
    "memory": "MemoryBackend",
    "refusals": "check_deletable check_name DEFAULT LARGEST LARGEST_LOCK needing Reading too_large",
    "registry": "BACKENDS is_local",
    "state_files": "JournalFile",
}
