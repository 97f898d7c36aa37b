"""The kinds of what is placed: VMs, which the engine knows itself, and those that domains bring."""

# What other rooms may use of this one.
DOOR = {
    "placement_kind": "MOST_NAMES PlacementKind VM",
    "registry": "brief_place kind_order KINDS MAPS noun_of place_classes place_document place_text titled",
    "vm_kind": "cells_text joined",
}
