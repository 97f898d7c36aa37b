"""Resource types and data sources of fleet."""

# What other rooms may use of this one.
DOOR = {
    "fleet_hub_export": "FLEET_HUB_EXPORT hub_as_read standing_placement",
    "fleet_member_cluster": "MEMBER_LABEL",
    "kubernetes_manifests": "computed Reading",
}
