"""Placement decisions from hosts, demands and existing bindings.

The package is independent of HCL, state and plans.
"""

# Public names of the package, by module.
PUBLIC = {
    "sku_catalogue": ("compute_size_key CATALOGUES DEFAULT_MACHINE_SKU find_largest_sku NEWEST"),
    "placement_decision": "PlacementCertainty ObjectLocation Rejection",
    "kubelet": (
        "compute_allocatable compute_capacity EVICTION_MEMORY collect_extended_resources GIB "
        "HUGEPAGES KubeletConfiguration MAX_CELLS NodeSize Platform REJECTING_POLICIES "
        "list_registered_labels Reserve list_reserved_cpus STORAGE TopologyPolicy"
    ),
    "site_inventory": (
        "add_observed_facts OBSERVED_KEY PlanInventory MachineConflict InventoryMachine "
        "OccupiedCapacity InventoryRack merge_site_machines SiteSettings MachineUpgradeStrategy"
    ),
    "machine_actions": (
        "FAILED MACHINE_ACTION_TYPE ACTION_KINDS POWER_OFF MachineActionKind record_result "
        "ACTION_PENDING SUCCEEDED CORDONED_BY_ACTION merge_facts_after"
    ),
}
