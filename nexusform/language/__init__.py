"""Text to tree to value. Knows nothing of resources, state or plans."""

# What other rooms may use of this one.
DOOR = {
    "bodies": "BodySchema content Content just_attributes",
    "conversion": "convert describe settled",
    "evaluator": "evaluate notes_on Scope Trace traced",
    "formatter": "format_text",
    "json_syntax": "parse_json_file",
    "parser": (
        "collector_off decode_tree encode_tree hcl2_complaint parse_expression parse_file SYNTAX_VERSION"
    ),
    "positions": "describe Positions",
    "references": "body_traversals traversals",
    "scanner": "CLOSE_HEREDOC DIRECTIVE END INTERPOLATION OPEN_HEREDOC QUOTED_NEWLINE scan SEQUENCE_END",
    "surroundings": "Clock FileProblem Files NoDirectory",
    "syntax": (
        "Attribute Block Body Call Expression ForObject ForTuple Index JsonBody JsonObject JsonProperty "
        "Label Literal ObjectCons Parentheses RelativeTraversal Splat SplatElement Step StringLiteral "
        "Template TemplateFor TemplateWrap Traversal TraverseAttribute TraverseIndex TupleCons Unary"
    ),
    "token_stream": "CURLY_QUOTES",
    "traced_part": "TracedPart",
    "type_expressions": "no_calls type_expression",
    "value_notes": "traversal_text",
}
