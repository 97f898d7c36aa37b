"""Text to tree to value. Knows nothing of resources, state or plans."""

# What other rooms may use of this one.
DOOR = {
    "bodies": "BodySchema content Content just_attributes",
    "conversion": "convert describe settled",
    "evaluation": "Clock FileProblem Files NoDirectory",
    "evaluator": "evaluate notes_on Scope Trace traced",
    "formatter": "format_text",
    "json_syntax": "parse_json_file",
    "parser": (
        "collector_off decode_tree encode_tree hcl2_complaint parse_expression parse_file SYNTAX_VERSION"
    ),
    "references": "body_traversals traversals",
    "traced_part": "TracedPart",
    "type_expressions": "no_calls type_expression",
    "value_notes": "traversal_text",
}
