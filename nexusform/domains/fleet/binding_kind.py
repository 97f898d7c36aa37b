"""Bindings of fleet placements to clusters, as a kind of placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState
from nexusform.placement_kinds.kinds import PlacementKind
from nexusform.ports import ResourceType

BINDING: Final = "binding"


def _names(_type: ResourceType, attributes: Mapping[str, Any]) -> Iterable[str]:
    held = attributes.get("bindings")
    return held.keys() if isinstance(held, Mapping) else ()


def _text(place: Binding) -> str:
    return f"{place.cluster} ({place.state})"


def _beside(place: Binding, name: str) -> str:
    """A binding is called by its cluster: only its state is worth saying beside it."""
    return str(place.state) if name == place.cluster else ""


def _many(places: Sequence[Binding]) -> str:
    return ", ".join(place.cluster for place in places)


KIND: Final = PlacementKind(
    name=BINDING,
    noun="fleet binding",
    short_noun="binding",
    title="Fleet bindings",
    place=Binding,
    names=_names,
    spot=lambda place: (place.cluster,),
    text=_text,
    brief=_text,
    beside=_beside,
    document=lambda place: {"cluster": place.cluster, "state": str(place.state)},
    many=_many,
    link=lambda place: (place.cluster, "", ""),
    state=lambda place: str(place.state),
    # One that is given up waits until it can be removed.
    runs=lambda place: place is None or place.state is not BindingState.UNSCHEDULED,
    waits_as=lambda place: str(place.state),
    ground="member",
    by_resource=True,
    takes="picks",
    drops="drops",
    run_noun="cluster",
    shown=True,
)
