"""Plan files: plans as bytes and back."""

# Public names of the package, by module.
PUBLIC = {
    "plan_comparison": "list_different_parts list_visible_differences",
    "plan_file": (
        "compute_digest iterate_members pack_archive stream_archive MULTI_SITE_PLAN read_plan_file "
        "SavedPlan read_signature build_signature_member CorruptArchiveError unpack_archive "
        "sign_archive sign_members write_plan_file MANIFEST read_member_at"
    ),
    "record_codec": "write_record",
    "tied_machines": "TiedMachineReader",
}
