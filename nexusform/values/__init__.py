"""Values of the expression language, and their exact numbers."""

# Public names of the package, by module.
PUBLIC = {
    "typed_value": (
        "add_refinement build_boolean build_null build_number build_object build_prefix build_set "
        "build_string build_tuple build_unknown collect_marks combine_refinements "
        "compute_order_key compute_quotient compute_remainder compute_shortest_digits "
        "convert_decimal format_digits format_number MAX_DIGITS normalize_number parse_number "
        "DYNAMIC_UNKNOWN EMPTY_TUPLE EPHEMERAL FALSE get_refinement is_refinement_met "
        "is_within_bounds NO_MARKS NO_REFINEMENT NOT_NULL NULL Refinement remove_all_marks "
        "SENSITIVE TRUE UNKNOWN Unknown Value"
    )
}
