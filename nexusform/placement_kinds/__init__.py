"""Kinds of placements: VMs, known to the engine, and those of domains."""

# Public names of the package, by module.
PUBLIC = {
    "placement_kind": "MAXIMUM_NAMES PlacementKind VM",
    "registry": (
        "KINDS MAPS build_location_document format_location_briefly format_location_text "
        "get_kind_noun get_kind_order get_kind_title get_location_classes"
    ),
    "vm_kind": "format_cells format_short_location join_location_parts",
}
