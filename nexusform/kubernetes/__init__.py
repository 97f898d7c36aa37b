"""What Kubernetes says of labels, selectors, taints and quantities, whoever uses them."""

# What other rooms may use of this one.
DOOR = {
    "matching": (
        "dns_label_problems dns_subdomain_problems DOES_NOT_EXIST EQUAL EXISTS GREATER holds IN "
        "is_tolerated label_selector label_value_problems LabelSelector LESS LONGEST_NAME matches "
        "NO_SCHEDULE NOT_IN qualified_name_problems Requirement requirement_problems selector_problems "
        "Taint tolerates Toleration untolerated"
    ),
    "quantity": (
        "Amount amount_of cpu_quantity Form LARGEST_INT32 LARGEST_INT64 make_quantity Malformed "
        "parse_amount parse_duration parse_quantity Quantity"
    ),
}
