"""Objects of a fleet's hub: placements, overrides, staged runs, members, and what a hub exports."""

# What other rooms may use of this one.
DOOR = {
    "fleet_documents": "read_fleet_document",
    "fleet_export": "conditions_of is_going manager_of OF_AZURE override_names read_placements",
    "fleet_members": "health_of",
    "fleet_model": "FleetEviction FleetMember FleetOverride FleetPlacement",
    "fleet_shapes": "API_KINDS",
    "hub_objects": "as_written",
}
