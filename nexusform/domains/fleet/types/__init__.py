"""Resource types and data sources of the fleet domain."""

# public names of the package, by module.
PUBLIC = {
    "block_bodies": "convert_to_camel_case",
    "fleet_hub_export": (
        "FLEET_HUB_EXPORT build_hub_attributes build_placement_attributes is_complete"
    ),
    "fleet_member_cluster": "MEMBER_LABEL",
    "fleet_schemas": "make_computed",
    "kubernetes_manifests": "ManifestReader",
}
