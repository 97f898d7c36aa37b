"""Pure decisions: hosts, demands and what is already bound. Knows nothing of HCL, state or plans."""

# What other rooms may use of this one.
DOOR = {
    "catalogue": "by_size Catalogue catalogue CATALOGUES DEFAULT_MACHINE_SKU largest_sku NEWEST",
    "decision": "Certainty Place Refusal",
    "kubelet": (
        "allocatable capacity EDITION EVICTION_MEMORY extended GIB HUGEPAGES Kubelet MOST_CELLS "
        "NodeSize Platform REFUSING registered_labels Reserve reserved_cpus STORAGE TopologyPolicy"
    ),
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
    "world": "Inventory MachineClash MachineOffer Occupied RackOffer site_machines SiteOffer UpdateStrategy",
}
