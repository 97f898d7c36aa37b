"""Plans and state as terminal text."""

# Public names of the package, by module.
PUBLIC = {
    "diagnostic_text": "render_diagnostics",
    "progress_text": (
        "format_apply_complete format_destroy_complete format_end_line format_more_refreshes "
        "format_nothing_sent render_step_outcomes format_progress_line format_refresh_line "
        "format_start_line"
    ),
    "state_text": "render_object render_outputs render_state",
    "plan_text": "PlanTextOptions render_plan render_around_errors",
    "report_text": "render_report_text",
}
