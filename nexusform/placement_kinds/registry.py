"""The table of kinds of placements, in the order in which reports show them: VMs, then those of domains.

An entry of a domain is imported when a row of its kind is met.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from nexusform.domain_table import Loaded, placement_maps_of_domains, targets_of_domains
from nexusform.placement_kinds.placement_kind import VM, PlacementKind
from nexusform.scheduling.decision import Place

KINDS: Final[Mapping[str, PlacementKind]] = Loaded(
    {VM: "nexusform.placement_kinds.vm_kind:KIND", **targets_of_domains("placement_kinds")}
)
# The computed maps in which resources hold what is placed, and its kind.
MAPS: Final[Mapping[str, str]] = {"nodes": VM, "vnfcs": VM, **placement_maps_of_domains()}
_ORDER: Final = {name: number for number, name in enumerate(KINDS)}


def kind_order(name: str) -> int:
    """Where a kind stands among all; after them one that nobody knows."""
    return _ORDER.get(name, len(_ORDER))


def titled(name: str) -> str:
    """What stands over the rows of a kind; one that nobody knows is called by its name."""
    return KINDS[name].title if name in KINDS else name


def noun_of(name: str) -> str:
    """What one of a kind is called."""
    return KINDS[name].noun if name in KINDS else name


@cache
def _kind_of_class(place: type[Place]) -> PlacementKind:
    for name in KINDS:
        if KINDS[name].place is place:
            return KINDS[name]
    raise TypeError(f"{place} is the place of no kind")


def kind_of_place(place: Place) -> PlacementKind:
    """The kind that has such places."""
    return _kind_of_class(type(place))


def place_classes() -> dict[str, type[Place]]:
    """The records of places by their names, as plan files call them. This imports every kind."""
    return {KINDS[name].place.__name__: KINDS[name].place for name in KINDS}


def place_text(place: Place) -> str:
    """One place: `rack4 / rack4-bm07 / cell 1`, `east (Bound)`, `node-1 / rack4-bm07 / zone 4`."""
    return kind_of_place(place).text(place)


def brief_place(place: Place) -> str:
    """A place in as few words as tell it: the machine, with its rack where its name does not say that."""
    return kind_of_place(place).brief(place)


def place_document(place: Place | None) -> dict[str, Any] | None:
    """A place as JSON shows it; None where there is none."""
    return None if place is None else kind_of_place(place).document(place)
