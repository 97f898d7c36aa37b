"""Conversion of files to a checked Configuration. Only loader.py reads files."""

# Public names of the package, by module.
PUBLIC = {
    "body_evaluation": "prepare_body prepare_resource PreparedBody",
    "literal_edits": "apply_edits build_literal_edit TextEdit",
    "loader": (
        "check_constant_variables list_automatic_files find_hidden_characters JSON MAX_FILE_BYTES "
        "load_configuration NATIVE read_values read_variables"
    ),
    "module_blocks": "decode_provider is_local_source",
    "refactoring_blocks": "build_address_pattern",
    "prepared_body": "report_missing_argument PreparedBody EvaluationNotes",
    "reference_checks": "check_expression check_references Declaration build_dependencies check_provider_names",
    "settings_block": "decode_encryption UNENCRYPTED",
    "reference_graph": "find_dependent_outputs list_modules",
    "value_blocks": "decode_conditions",
    "variable_values": "Assignment Origin parse_variable_file",
    "static_arguments": (
        "describe_duplicate check_name evaluate_constant evaluate_flag evaluate_text is_constant EMPTY_SCOPE "
        "get_keyword list_expressions find_single_block parse_reference parse_references"
    ),
}
