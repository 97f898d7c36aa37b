"""Locations and numbers in reports of answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nexusform.diagnostics.phrases import group_ranges
from nexusform.json_data.record_forms import RecordForm
from nexusform.placement_kinds.placement_kind import build_location_document
from nexusform.placement_kinds.vm_kind import format_cells
from nexusform.scheduling.racks.vms import Placement
from nexusform.snapshots.availability import VmReplacement


def format_spans(numbers: Iterable[int]) -> str:
    """Format ascending numbers as `1-3, 5`."""
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in group_ranges(numbers))


def format_short_location(placement: Placement) -> str:
    """Format `rack7-bm06 / cell 1`, with the rack first if the machine name does not contain it."""
    prefix = "" if placement.machine.startswith(placement.rack) else f"{placement.rack} / "
    cells = format_cells(placement)
    return f"{prefix}{placement.machine} / {cells}" if cells else f"{prefix}{placement.machine}"


# A re-created node as data: old and new location, null without capacity.
REPLACEMENT_FORM: Final = RecordForm(
    VmReplacement,
    "node=vm.name from=vm.placement to=placement",
    {"from": build_location_document, "to": build_location_document},
)
