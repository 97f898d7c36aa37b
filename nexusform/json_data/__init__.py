"""Plain JSON data: conversion from and to values."""

# Public names of the package, by module.
PUBLIC = {
    "plain_data": (
        "ConversionProblem convert_number convert_to_plain convert_to_value escape_html "
        "format_path get_list get_mapping get_part get_text get_value_at_path has_unknown_part "
        "is_fraction list_mappings list_objects list_refinements list_texts list_unknown_paths "
        "Path PathStep Refinements replace_part_at_path replace_unknown unify_json_error"
    ),
    "secret_paths": (
        "add_secret_paths find_secret_fields find_secret_paths find_secret_texts redact_texts "
        "SECRET_FIELDS"
    ),
    "wrong_values": "describe_wrong_value",
}
