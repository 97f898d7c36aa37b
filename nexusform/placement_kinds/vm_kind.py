"""VMs on machines, as a kind of placement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.placement_kinds.kinds import MOST_NAMES, VM, PlacementKind
from nexusform.ports import ResourceType
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import form, natural

MOST_RACKS: Final = 4  # racks of many places that are told apart


def vm_names(resource_type: ResourceType, attributes: Mapping[str, Any]) -> Iterator[str]:
    """The VMs of an object that stand, and those that wait for a place."""
    family = resource_type.vms
    assert family is not None
    for vm in family.standing(attributes):
        yield vm.name
    for record in family.unplaced(attributes).values():
        yield str(record.get("name"))


def cells_text(place: Placement) -> str:
    """`cell 1`, `cells 0+1`; "" where nobody told them."""
    numbers = "+".join(str(cell) for cell in place.cells)
    return f"{form(len(place.cells), 'cell')} {numbers}" if numbers else ""


def joined(*parts: str | None) -> str:
    """What there is of a place, from the outside in: `rack4 / rack4-bm07 / cell 1`."""
    return " / ".join(part for part in parts if part)


def _text(place: Placement) -> str:
    return joined(place.rack, place.machine, cells_text(place))


def _brief(place: Placement) -> str:
    """The machine, with its rack where its name does not say that."""
    return place.machine if place.rack in place.machine else f"{place.rack} / {place.machine}"


def _document(place: Placement) -> dict[str, Any]:
    return {
        "machine": place.machine,
        "rack": place.rack,
        "availability_zone": place.availability_zone,
        "numa_cells": list(place.cells) or None,
    }


# --- many places -------------------------------------------------------------------------------


def _many(places: Sequence[Placement]) -> str:
    """Few machines by name, more by rack, many racks by what they have in common."""
    machines = [place.machine for place in places]
    if len(machines) <= MOST_NAMES:
        return ", ".join(machines)
    texts = _texts_by_rack(places)
    if len(texts) <= MOST_RACKS:
        return ", ".join(f"{rack}: {text}" for rack, text in texts.items())
    racks_by_text: dict[str, list[str]] = {}
    for rack, text in texts.items():
        racks_by_text.setdefault(text, []).append(rack)
    if len(racks_by_text) == 1:
        return f"{next(iter(racks_by_text))} in each of {len(texts):,} racks"
    ordered = sorted(racks_by_text, key=natural)
    return "; ".join(f"{text} in {_rack_names(racks_by_text[text])}" for text in ordered)


def _texts_by_rack(places: Iterable[Placement]) -> dict[str, str]:
    """How many VMs on how many machines, for each rack; racks in order."""
    machines: dict[str, list[str]] = {}
    for place in places:
        machines.setdefault(place.rack, []).append(place.machine)
    return {rack: _on_machines(machines[rack]) for rack in sorted(machines, key=natural)}


def _on_machines(machines: Sequence[str]) -> str:
    """`4 machines`, or `5 VMs on 4 machines`: `machines` has an entry per VM."""
    different = len(set(machines))
    text = f"{different} {form(different, 'machine')}"
    return text if len(machines) == different else f"{len(machines):,} VMs on {text}"


def _rack_names(racks: Sequence[str]) -> str:
    """`each of rack1, rack2`; many racks are counted."""
    if len(racks) > 2 * MOST_RACKS:
        return f"each of {len(racks):,} racks"
    names = ", ".join(racks)
    return f"each of {names}" if len(racks) > 1 else names


KIND: Final = PlacementKind(
    name=VM,
    noun="VM",
    title="VMs",
    place=Placement,
    names=vm_names,
    # A VM may come to another cell of its machine.
    spot=lambda place: (place.rack, place.machine),
    text=_text,
    brief=_brief,
    document=_document,
    many=_many,
    link=lambda place: ("", "", place.machine),
    ground="machine",
)
