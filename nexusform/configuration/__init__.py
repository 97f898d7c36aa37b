"""Files to a checked Configuration. Only loader.py reads files."""

# What other rooms may use of this one.
DOOR = {
    "body_evaluation": "prepare_body prepare_resource PreparedBody",
    "literal_edits": "edited literal_edit TextEdit",
    "loader": "automatic_files hidden_characters JSON LARGEST_FILE load NATIVE read_variables",
    "module_blocks": "decode_provider is_local",
    "moving_blocks": "pattern_of",
    "overlooked": "listed",
    "prepared_body": "missing_argument PreparedBody Remarks",
    "reference_checks": "check_expression check_references Declaration dependencies unknown_providers",
    "settings_block": "decode_encryption UNENCRYPTED",
    "uses": "outputs_that_need",
    "value_blocks": "decode_conditions",
    "variable_values": "Assignment from_file",
    "written": "already check_name keyword listed_expressions only_block reference references",
}
