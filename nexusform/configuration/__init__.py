"""Conversion of files to a checked Configuration.

Only loader.py reads files.
"""

# Public names of the package, by module.
PUBLIC = {
    "body_preparation": "build_prepared_body build_prepared_resource PreparedBody",
    "literal_edits": "apply_literal_edits build_literal_edit TextEdit",
    "loader": (
        "check_constant_variables list_automatic_variable_files check_hidden_characters JSON "
        "MAX_FILE_BYTES list_ignore_comments load_configuration NATIVE read_given_variables "
        "read_root_variables"
    ),
    "module_blocks": "decode_module_source decode_provider_block",
    "refactoring_blocks": "build_address_pattern",
    "prepared_body": "build_missing_argument_error PreparedBody EvaluationResult",
    "reference_checks": (
        "check_expression check_references Declaration build_dependencies check_provider_names "
        "format_wrong_type"
    ),
    "settings_block": "decode_encryption_block UNENCRYPTED",
    "version_constraints": "sort_versions",
    "reference_graph": "find_dependent_outputs list_modules",
    "value_blocks": "decode_condition_blocks decode_variable_block",
    "variable_values": "Assignment VariableValueSource parse_variable_file",
    "static_arguments": (
        "describe_duplicate check_name evaluate_constant evaluate_bool evaluate_string "
        "is_constant_value EMPTY_SCOPE get_bare_keyword list_static_items find_single_block "
        "parse_reference parse_references"
    ),
}
