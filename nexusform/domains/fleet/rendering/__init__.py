"""Rows, page parts and answer reports of the fleet domain."""

# public names of the package, by module.
PUBLIC = {"manifest_export": "build_hub_bodies convert_to_camel_case render_fleet_manifests"}
