"""Plans, state and events as JSON, compatible with Terraform tools."""

# Public names of the package, by module.
PUBLIC = {
    "json_configuration": "build_configuration_document build_providers_schema",
    "json_document": (
        "encode_document build_object_documents build_plan_document build_state_document write_json"
    ),
    "json_diagnostics": (
        "TERRAFORM_VERSION build_address_keys build_answer_document build_validation_document"
    ),
    "json_placements": ("build_listed_site_document build_summed_decision_document"),
    "json_stream": (
        "create_apply_end_event create_apply_progress_event create_apply_start_event "
        "create_apply_summary_event create_diagnostic_event create_event Event "
        "create_finding_event create_hypothesis_event create_log_event create_outputs_event "
        "create_plan_events create_refresh_start_event create_version_event"
    ),
    "placements_csv": "render_csv",
    "report_document": "build_report_document",
}
