"""Kinds of placements in report order: VMs, then those of domains.

Rows of plans name their kind (`kind`). Code that processes them uses its entry, and knows no kind
by name except VMs. An entry is imported on first use.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from nexusform.domain_table import LazyTable, collect_loaders, collect_placement_maps
from nexusform.placement_kinds.placement_kind import VM, PlacementKind
from nexusform.scheduling.placement_decision import ObjectLocation


def _load_vm() -> PlacementKind:
    from nexusform.placement_kinds.vm_kind import KIND

    return KIND


KINDS: Final[Mapping[str, PlacementKind]] = LazyTable(
    {VM: _load_vm, **collect_loaders("placement_kinds")}
)
# Computed maps of placed objects in resources, with their kind.
MAPS: Final[Mapping[str, str]] = {"nodes": VM, "vnfcs": VM, **collect_placement_maps()}
_ORDER: Final = {name: number for number, name in enumerate(KINDS)}


def get_kind_order(name: str) -> int:
    """Return the position of a kind in report order; unknown kinds are last."""
    return _ORDER.get(name, len(_ORDER))


def get_kind_title(name: str) -> str:
    """Return the title above the rows of a kind; that of an unknown kind is its name."""
    return KINDS[name].title if name in KINDS else name


def get_kind_noun(name: str) -> str:
    """Return the noun for an object of a kind."""
    return KINDS[name].noun if name in KINDS else name


@cache
def _find_kind_of_location(location_class: type[ObjectLocation]) -> PlacementKind:
    """Return the kind with locations of this class.

    The result is cached, because the search imports kinds.
    """
    for name in KINDS:
        if KINDS[name].location_class is location_class:
            return KINDS[name]
    raise TypeError(f"{location_class} is the location of no placement kind")


def get_location_kind(location: ObjectLocation) -> PlacementKind:
    """Return the placement kind (VM, pod, binding) with locations of this class."""
    return _find_kind_of_location(type(location))


def get_location_classes() -> dict[str, type[ObjectLocation]]:
    """Return the classes of locations by their names in plan files.

    This imports every kind.
    """
    return {KINDS[name].location_class.__name__: KINDS[name].location_class for name in KINDS}


def format_location_text(location: ObjectLocation) -> str:
    """Format one location.

    Examples are `rack4 / rack4-bm07 / cell 1`, `east (Bound)`, and `node-1 / rack4-bm07 / zone 4`.
    """
    return get_location_kind(location).format_text(location)


def format_location_briefly(location: ObjectLocation) -> str:
    """Format a location in the shortest form.

    For a VM this is the machine, with its rack unless its name contains it.
    """
    return get_location_kind(location).format_brief(location)


def build_location_document(location: ObjectLocation | None) -> dict[str, Any] | None:
    """Return a location as JSON; None for none."""
    return None if location is None else get_location_kind(location).build_document(location)
