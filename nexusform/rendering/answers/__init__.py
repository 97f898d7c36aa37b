"""Answers to questions (explain, simulate, advise, test): a report as text, Markdown or HTML page."""

# Public names of the package, by module.
PUBLIC = {
    "advice_findings": "build_advice_report render_advice",
    "answer_page": "render_answer_page",
    "console_text": "render_type render_value build_tree_document render_tree",
    "domain_answer": "DomainAnswer",
    "explanation_text": (
        "format_vm_certainty build_alternatives_document describe_alternatives build_explanation_document "
        "build_explanation_report "
        "REMOVAL_FORM build_removal_report render_explanation"
    ),
    "graph_text": "render_dot render_mermaid",
    "answer_report": (
        "AnswerReport render_report_markdown render_report_text REPLACEMENT_FORM Row Section "
        "format_short_location format_spans Table"
    ),
    "plan_set_report": "build_plan_set_report",
    "pool_report": "build_pools_document build_pools_report",
}
