"""What is taken of a site and what is left: machines for VMs, and addresses, networks and storage."""

# What other rooms may use of this one.
DOOR = {
    "occupancy": (
        "changed_racks MachineCount note_of noted OutsideVm PoolVms RackCounts Room sharing_as_before "
        "SiteMachine SiteRack SiteRoom SiteVms take_note"
    ),
    "other_room": (
        "ClusterNetworks declared_network lacking_text left_text NetworkSupply Nodes nodes_of "
        "note_of_supplies noted_supplies other_room OtherKind OtherRoom POD_BLOCK RuntimeUpgradeOffer "
        "RuntimeVersion StorageSupply Supplies tightest WORDS"
    ),
}
