"""VMs on machines, as a kind of placement."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    enclose,
    group_by,
    select_word_form,
)
from nexusform.interfaces.plugins import ResourceType
from nexusform.placement_kinds.placement_kind import MAXIMUM_NAMES, VM, PlacementKind
from nexusform.scheduling.racks.vms import Placement

# Maximum number of racks listed separately.
MAXIMUM_RACKS: Final = 4


def list_vm_names(resource_type: ResourceType, attributes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the existing VMs of an object, then of its VMs without a machine."""
    family = resource_type.vms
    assert family is not None
    for vm in family.list_existing_vms(attributes):
        yield vm.name
    for record in family.list_unplaced_vms(attributes).values():
        yield str(record.get("name"))


def format_cells(placement: Placement) -> str:
    """Format `cell 1`, `cells 0+1`; "" if unknown."""
    return enclose(
        f"{select_word_form(len(placement.cells), 'cell')} ", "+".join(map(str, placement.cells))
    )


def join_location_parts(*parts: str | None) -> str:
    """Join the parts of a location, outermost first: `rack4 / rack4-bm07 / cell 1`."""
    return " / ".join(part for part in parts if part)


def format_short_location(placement: Placement) -> str:
    """Format `rack7-bm06 / cell 1`, with the rack first if the machine name does not contain it."""
    rack = "" if placement.machine.startswith(placement.rack) else placement.rack
    return join_location_parts(rack, placement.machine, format_cells(placement))


def _format_placement_briefly(placement: Placement) -> str:
    """Format the machine, with its rack unless its name contains it."""
    return (
        placement.machine
        if placement.rack in placement.machine
        else f"{placement.rack} / {placement.machine}"
    )


def _build_document(placement: Placement) -> dict[str, Any]:
    """Return a placement as JSON; cells are null if unknown."""
    return {
        "machine": placement.machine,
        "rack": placement.rack,
        "availability_zone": placement.availability_zone,
        "numa_cells": list(placement.cells) or None,
    }


def _format_many_locations(placements: Sequence[Placement]) -> str:
    """Format few machines by name, more by rack, and many racks by text.

    An example is `4 machines in each of 8 racks`.
    """
    machines = [placement.machine for placement in placements]
    if len(machines) <= MAXIMUM_NAMES:
        return ", ".join(machines)
    texts = _format_by_rack(placements)
    if len(texts) <= MAXIMUM_RACKS:
        return ", ".join(f"{rack}: {text}" for rack, text in texts.items())
    racks_by_text = group_by(texts, lambda rack: texts[rack])
    # All racks are alike.
    if len(racks_by_text) == 1:
        return f"{texts[placements[0].rack]} in each of {len(texts):,} racks"
    ordered = sorted(racks_by_text, key=compute_natural_sort_key)
    return "; ".join(f"{text} in {_format_racks(racks_by_text[text])}" for text in ordered)


def _format_by_rack(placements: Iterable[Placement]) -> dict[str, str]:
    """Format the number of VMs and machines of each rack, in rack order."""
    machines: dict[str, list[str]] = {}
    for placement in placements:
        machines.setdefault(placement.rack, []).append(placement.machine)
    return {
        rack: _format_machine_count(machines[rack])
        for rack in sorted(machines, key=compute_natural_sort_key)
    }


def _format_machine_count(machines: Sequence[str]) -> str:
    """Format `4 machines`, or `5 VMs on 4 machines`: `machines` has an entry per VM."""
    distinct_count = len(set(machines))
    text = f"{distinct_count} {select_word_form(distinct_count, 'machine')}"
    return text if len(machines) == distinct_count else f"{len(machines):,} VMs on {text}"


def _format_racks(racks: Sequence[str]) -> str:
    """Format `each of rack1, rack2`; many racks are counted."""
    if len(racks) > 2 * MAXIMUM_RACKS:
        return f"each of {len(racks):,} racks"
    names = ", ".join(racks)
    return f"each of {names}" if len(racks) > 1 else names


KIND: Final = PlacementKind(
    name=VM,
    noun="VM",
    title="VMs",
    location_class=Placement,
    list_names=list_vm_names,
    # A VM may move to another cell of its machine.
    get_identity=lambda place: (place.rack, place.machine),
    format_text=lambda place: join_location_parts(place.rack, place.machine, format_cells(place)),
    format_brief=_format_placement_briefly,
    build_document=_build_document,
    format_many=_format_many_locations,
    get_link=lambda place: ("", "", place.machine),
    host_noun="machine",
)
