"""Answers to questions (explain, simulate, advise, test): an outline, then text, Markdown or a page."""

# What other rooms may use of this one.
DOOR = {
    "advice_findings": "advice_outline render_advice",
    "answer_page": "answer_page",
    "console_text": "console_type console_value tree_document tree_text",
    "domain_answer": "DomainAnswer",
    "explanation_text": (
        "certainty_text elsewhere_document elsewhere_lines explanation_document explanation_outline "
        "LEAVING leaving_outline render_explanation"
    ),
    "graph_text": "dot_graph mermaid_graph",
    "outline": (
        "Outline outline_markdown outline_text REPLACEMENT Row Section short_place_text spans_text Table"
    ),
    "plans_outline": "plans_outline",
    "pool_outline": "pools_document pools_outline",
}
