"""Rows, page parts and answer reports of the fleet domain."""

# public names of the package, by module.
PUBLIC = {
    "fleet_parts": (
        "FleetMatrix render_placement_grid render_binding_list render_pods render_reasons "
        "MatrixCell MAX_GRID_COLUMNS"
    ),
    "manifest_export": "build_hub_bodies convert_to_camel_case render_fleet_manifests",
}
