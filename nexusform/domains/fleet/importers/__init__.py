"""Readers of fleet hub objects: placements, overrides, staged runs, members, and hub exports."""

# public names of the package, by module.
PUBLIC = {
    "fleet_documents": "read_fleet_document",
    "fleet_export": (
        "build_manifests list_conditions is_deleting find_external_manager AZURE_MANAGER "
        "list_override_names "
        "read_placements read_snapshot_objects ObservedPlacement"
    ),
    "fleet_records": "FleetOverride FleetPlacement",
    "fleet_shapes": "API_KINDS",
    "hub_objects": "remove_server_fields",
    "hub_records": "read_runs read_member_health find_newest_heartbeat",
}
