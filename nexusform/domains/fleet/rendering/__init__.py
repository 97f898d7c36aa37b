"""Rows, page parts and answer reports of the fleet domain."""

# public names of the package, by module.
PUBLIC = {"manifest_export": "build_hub_bodies render_fleet_manifests"}
