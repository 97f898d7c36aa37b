"""Foreign documents as text with positions, for all readers of such documents."""

# Public names of the package, by module.
PUBLIC = {
    "field_lists": "FieldList build_field_list",
    "field_validation": (
        "validate_value FieldKind RuleViolation Rule FieldShape validate_value_size"
    ),
    "field_tables": "FieldTables",
    "json_positions": "find_json_lines",
    "object_schemas": (
        "ALWAYS_WRITTEN CONTAINERS SCALARS FieldTable FIELD_NOT_IN_VERSION LocatedDoubt "
        "locate_doubt ObjectSchema build_unread_fact parse_field_table"
    ),
    "scalars": "escape_names list_scalars OMITTED parse_integer replace_scalars",
    "times": "CLOCK_TOLERANCE format_time is_in_future parse_duration parse_time",
    "yaml_documents": (
        "ELISION INVALID_JSON Node DocumentFindings build_problem load_yaml parse_yaml "
        "parse_whole_number ScalarRules TextPosition YamlDocument describe_kind"
    ),
}
