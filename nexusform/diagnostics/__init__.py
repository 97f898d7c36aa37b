"""Diagnostics: errors, warnings and notes with source positions, ids and levels."""

# Public names of the package, by module.
PUBLIC = {
    "diagnostic": (
        "build_diagnostic build_error build_warning convert_problem build_development_file_error "
        "Diagnostic DiagnosticsError extract_suggested_name find_nearest_name find_nearest_names "
        "get_text_line has_errors locate_line_in_text Position Problem select_errors Severity "
        "SourceFile Span suggest_name ValueNote"
    ),
    "levels": (
        "get_diagnostic_level get_warning_level PlacementImpact Level MISSING_VALUE "
        "VMS_WITHOUT_MACHINE"
    ),
    "missing_packages": "describe_missing_package find_extra format_installation",
    "name_ranges": (
        "MAX_LISTED_NUMBERS build_name_runs format_names format_part_names format_range"
    ),
    "names": "escape_name escape_control_characters format_code_point INVISIBLE_PATTERN",
    "phrases": (
        "compute_natural_sort_key enclose format_count format_counts format_duration "
        "format_first_items format_list format_ranges group_by join_texts "
        "select_word_form"
    ),
    "summaries": "get_summary",
}
