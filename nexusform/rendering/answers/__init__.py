"""Answers to questions (explain, simulate, advise, test): reports as text, Markdown or HTML."""

# Public names of the package, by module.
PUBLIC = {
    "advice_findings": "build_advice_report",
    "console_text": "render_type render_value build_trace_document render_trace",
    "explanation_text": (
        "format_vm_certainty build_alternatives_section build_location_section "
        "build_explanation_report build_removal_report DomainAnswer "
        "format_spans build_pools_report PoolPlacement VmCountByTrigger"
    ),
    "graph_text": "render_dot render_mermaid",
    "plan_set_report": "build_plan_set_document build_plan_set_report",
}
