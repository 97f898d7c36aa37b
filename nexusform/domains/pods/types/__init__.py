"""Resource types and data sources of pods."""

# Public names of the package, by module.
PUBLIC = {"fleet_object_type": "FleetObjectType"}
