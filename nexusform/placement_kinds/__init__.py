"""The kinds of what is placed: VMs, which the engine knows itself, and those that domains bring."""

# What other rooms may use of this one.
DOOR = {
    "kinds": (
        "brief_place kind_order KINDS MAPS MOST_NAMES noun_of place_classes place_document place_text "
        "PlacementKind titled VM"
    ),
    "vm_kind": "cells_text joined",
}
