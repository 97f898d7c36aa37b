"""Conversion of text to syntax trees and values.

Independent of resources, state and plans.
"""

# Public names of the package, by module.
PUBLIC = {
    "body_decoding": (
        "BodySchema decode_body BodyContent decode_attributes get_first_character_span"
    ),
    "for_expressions": "list_key_value_pairs",
    "type_conversion": "convert_value describe_problem remove_optional_attributes",
    "evaluation_run": "Clock FileProblem Files MissingDirectory Scope TracedExpression",
    "evaluator": "evaluate_expression build_value_notes Scope EvaluationTrace trace_expression",
    "formatter": "format_text",
    "json_syntax": "parse_json_file",
    "parser": (
        "decode_tree encode_tree check_with_hcl2 parse_expression "
        "parse_file sort_by_position "
        "SYNTAX_VERSION"
    ),
    "references": (
        "GuardedTraversal list_body_traversals list_child_expressions list_traversals "
        "parse_traversal"
    ),
    "type_expressions": "check_function_calls parse_type",
    "value_descriptions": "format_traversal",
}
