"""Labels, selectors, taints and quantities of Kubernetes."""

# Public names of the package, by module.
PUBLIC = {
    "dump_script": "build_dump_script CLUSTER_KINDS COMMAND COMMAND_KINDS FLEET_KINDS FORBIDDEN "
    "NO_SUCH_KIND",
    "matching": (
        "validate_dns_label validate_dns_subdomain DOES_NOT_EXIST EQUAL EXISTS GREATER "
        "is_requirement_met IN is_tolerated build_label_selector validate_label_value "
        "LabelSelector LESS MAX_NAME_LENGTH is_selected NO_SCHEDULE NodeSelectorTerm NOT_IN "
        "validate_qualified_name Requirement validate_selector_requirement validate_selector Taint "
        "is_matching_toleration Toleration select_untolerated_taint select_weaker_taints"
    ),
    "quantity": (
        "IntegerOrPercent compute_amount_of_total build_cpu_quantity find_weaker_amount "
        "QuantityFormat MAX_INT32 MAX_INT64 build_quantity InvalidQuantity "
        "parse_int_or_percent parse_duration parse_quantity Quantity read_quantity "
        "read_quantity_or_zero"
    ),
}
