"""Used and spare capacity of a site: machines for VMs, outages, addresses, networks and storage."""

# Public names of the package, by module.
PUBLIC = {
    "occupancy": (
        "list_changed_racks list_out_of_service OutOfService build_unmanaged_vms_note "
        "read_recorded_vms UnmanagedVm PoolVms RackVmCounts MachineVmCount SpareCapacity "
        "select_without_new_sharing SiteMachine SiteRack SiteSkuCapacity SiteVms add_recorded_vms "
        "add_unread_facts build_unread_note select_largest_sku_rows get_owner_kind "
        "group_outages_by_pool group_vms_down_by_cluster Outage PoolAvailability PoolOutages "
        "PoolOutcome VmOwnerKind"
    ),
    "site_resource_capacity": (
        "AttachableNetworks ClusterNetworks find_configured_node_network format_shortage "
        "format_spare_resources NetworkAddresses ClusterNodeCounts count_nodes "
        "build_site_resources_note read_recorded_site_resources compute_site_resource_capacity "
        "SiteResourceKind SiteResourceCapacity POD_BLOCK RuntimeUpgradeOffer RuntimeVersion "
        "ApplianceUsage SiteResources find_scarcest_resource LABELS SUPPLIES"
    ),
}
