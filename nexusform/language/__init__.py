"""Conversion of text to syntax trees and values. Independent of resources, state and plans."""

# Public names of the package, by module.
PUBLIC = {
    "bodies": "BodySchema decode_body BodyContent decode_attributes",
    "conversion": "convert_value describe_problem remove_optional",
    "evaluation_run": "Clock FileProblem Files MissingDirectory Scope",
    "evaluator": "evaluate_expression build_value_notes Scope EvaluationTrace trace_expression",
    "formatter": "format_text",
    "json_syntax": "parse_json_file",
    "parser": "pause_collector decode_tree encode_tree check_hcl2 parse_expression parse_file SYNTAX_VERSION",
    "references": "list_body_traversals list_traversals",
    "traced_part": "TracedPart",
    "type_expressions": "reject_function_calls parse_type",
    "value_notes": "format_traversal",
}
