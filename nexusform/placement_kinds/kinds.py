"""What a kind of placement is: how it is called, when one of it runs, how its place is said and written; and
the table of them, in the order in which reports show them: VMs, then those of domains.

Rows of plans name their kind (`kind`); whoever treats them asks its entry, and knows no kind by name but VMs.
An entry of a domain is imported when a row of its kind is met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from msgspec import Struct

from nexusform.domain_table import Loaded, placement_maps_of_domains, targets_of_domains
from nexusform.ports import ResourceType
from nexusform.scheduling.decision import Place

VM: Final = "vm"  # the one kind of the engine's own
MOST_NAMES: Final = 5  # machines of many places that are named one by one


def _always(_place: Any) -> bool:
    return True


def _nothing(_place: Any) -> str:
    return ""


class PlacementKind(Struct, frozen=True, kw_only=True):
    """One kind. The functions take a place of it, a record of class `place`.

    `name`: what rows and JSON call it. `noun`: `2 fleet bindings`; `short_noun` where its map stands beside
    it. `title`: over its rows. `names(type, attributes)`: its objects in what state holds of a resource, each
    name as often as it is there, as `called(pool, object)` makes it of a row's fields.

    Of a place: `spot` is what is equal where something stands as it stood; `text` says it whole, `brief` in
    as few words as tell it, `beside(place, object)` next to the object's name where that says a part of it;
    `document` is its JSON; `link` its cluster, node and machine; `state` the state that rows tell when it
    changes. `many` says the places of several. `runs` is whether one without a place (None) or at this one
    runs, `waits_as` what it is when it does not, `without_place` the place of the same that waits.

    `ground`: what one that loses its place has lost. `by_resource`: its rows stand under their resource's
    address, not under cluster and pool, and comments say that it `takes` and `drops` them. `on_vms`: they
    run on VMs, as replicas of a workload. `nested`: its map holds maps, by cluster and workload. `run_noun`:
    what rows that do the same are counted as, where their names are no series. `shown`: data sources may show
    what stands, whatever state holds.
    """

    name: str
    noun: str
    title: str
    place: type[Place]
    names: Callable[[ResourceType, Mapping[str, Any]], Iterable[str]]
    spot: Callable[[Any], tuple[str | None, ...]]
    text: Callable[[Any], str]
    brief: Callable[[Any], str]
    document: Callable[[Any], dict[str, Any]]
    many: Callable[[Sequence[Any]], str]
    link: Callable[[Any], tuple[str, str, str]]
    short_noun: str = ""
    called: Callable[[str, str], str] = lambda _pool, name: name
    beside: Callable[[Any, str], str] = lambda _place, _object: ""
    state: Callable[[Any], str] = _nothing
    runs: Callable[[Any], bool] = _always
    waits_as: Callable[[Any], str] = _nothing
    without_place: Callable[[Any], Place] | None = None
    ground: str = "place"
    by_resource: bool = False
    takes: str = "places"
    drops: str = "removes"
    on_vms: bool = False
    nested: bool = False
    run_noun: str = ""
    shown: bool = False


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
