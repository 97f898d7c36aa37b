"""Plans, state and events as JSON, in the shapes that tools for Terraform read."""

# What other rooms may use of this one.
DOOR = {
    "json_configuration": "providers_schema",
    "json_document": "json_bytes plan_document state_document write_json",
    "json_parts": "diagnostic_documents validate_document",
    "json_placements": "REFUSAL other_room_documents",
    "json_stream": (
        "apply_end_event apply_progress_event apply_start_event apply_summary_event diagnostic_event "
        "event Event finding_event log_event outputs_event plan_events refresh_start_event "
        "version_event"
    ),
    "placements_csv": "render_csv",
}
