"""Files and log: regular files only, durable writes."""

# Public names of the package, by module.
PUBLIC = {
    "external_files": "explain_untrusted_file find_untrusted_files is_untrusted list_program_files",
    "native_output": "discard_native_output",
    "log": "log_duration log_event start_log",
    "regular_files": (
        "Confinement create_file NotRegularFile open_regular open_to_read OutsideConfinement PRIVATE "
        "read_regular sync_directory FileTooLarge list_directory UNCONFINED write_all write_file"
    ),
    "accesses": "list_accesses record_file_access record_server_access start_access_record read_variable",
}
