"""Answers to questions (explain, simulate, advise, test): reports as text, Markdown or HTML."""

# Public names of the package, by module.
PUBLIC = {
    "advice_findings": "build_advice_report render_advice",
    "console_text": "render_type render_value build_trace_document render_trace",
    "explanation_text": (
        "format_vm_certainty build_alternative_document describe_alternatives "
        "build_explanation_document build_explanation_report build_removal_document "
        "build_removal_report DomainAnswer "
        "format_spans build_pools_document build_pools_report PoolPlacement VmCountByTrigger"
    ),
    "graph_text": "render_dot render_mermaid",
    "plan_set_report": "build_plan_set_document build_plan_set_report",
}
