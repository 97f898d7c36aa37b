"""Pure decisions: hosts, demands and what is already bound. Knows nothing of HCL, state or plans."""

# What other rooms may use of this one.
DOOR = {
    "catalogue": "by_size Catalogue catalogue CATALOGUES DEFAULT_MACHINE_SKU largest_sku NEWEST",
    "decision": "Certainty Place Refusal",
    "kubelet": (
        "allocatable capacity EVICTION_MEMORY extended GIB HUGEPAGES Kubelet MOST_CELLS NodeSize "
        "Platform REFUSING registered_labels Reserve reserved_cpus STORAGE TopologyPolicy"
    ),
    "world": "Inventory MachineClash MachineOffer Occupied RackOffer site_machines SiteOffer UpdateStrategy",
}
