"""Plans and state as text in a terminal."""

# What other rooms may use of this one.
DOOR = {
    "diagnostic_text": "render_diagnostics",
    "progress_text": (
        "apply_complete_line destroy_complete_line ended_line more_refreshed_line nothing_sent_line "
        "outcome_table progress_line refreshing_line started_line"
    ),
    "short_plan": "PlanTextOptions short_halves",
    "state_text": "render_object render_outputs render_state",
    "terminal": "render_plan",
}
