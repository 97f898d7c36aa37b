"""Rows, page parts and answers of fleet."""

# What other rooms may use of this one.
DOOR = {
    "fleet_parts": "FleetMatrix grid one_by_one pods_of reasons Square WIDEST_GRID",
    "manifests": "hub_bodies",
}
