"""Kinds of placements: VMs, known to the engine, and those of domains."""

# Public names of the package, by module.
PUBLIC = {
    "placement_kind": (
        "format_location_briefly get_kind_order KINDS MAPS MAXIMUM_NAMES get_kind_noun "
        "get_location_classes build_location_document format_location_text PlacementKind "
        "get_kind_title VM"
    ),
    "vm_kind": "format_cells join_location_parts",
}
