"""Resource types and data sources of the fleet domain."""

# Public names of the package, by module.
PUBLIC = {
    "fleet_hub_export": "FLEET_HUB_EXPORT build_hub_attributes build_placement_attributes",
    "fleet_member_cluster": "MEMBER_LABEL",
    "kubernetes_manifests": "make_computed ManifestReader",
}
