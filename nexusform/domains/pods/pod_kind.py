"""Pods on nodes, as a kind of placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.placement_kinds.kinds import MOST_NAMES, PlacementKind
from nexusform.placement_kinds.vm_kind import joined
from nexusform.ports import ResourceType
from nexusform.scheduling.decision import Place

POD: Final = "pod"
SCHEDULED: Final = "Scheduled"  # the state of a pod that has a node


class PodPlace(Place, frozen=True):
    """Where a pod is: the cluster's name and the node there, with the node's machine and zone. A pod that
    waits has none of these; `state` says then what it is ("" where nobody knows: it is Pending).
    """

    cluster: str
    node: str | None = None
    machine: str | None = None
    availability_zone: str | None = None
    state: str = ""

    @property
    def word(self) -> str:
        """Its node, or what it is without one."""
        return self.node or self.state or "Pending"


def _names(_type: ResourceType, attributes: Mapping[str, Any]) -> Iterator[str]:
    """`workload/pod`, whatever cluster they are on."""
    return _pods(attributes.get("workloads"), ())


def _pods(values: Any, path: tuple[str, ...]) -> Iterator[str]:
    """The pods among the `workloads` of an object."""
    if not isinstance(values, Mapping):
        return
    if "node" in values and "machine" in values:
        yield "/".join(path[-2:])
        return
    for name, inner_values in values.items():
        yield from _pods(inner_values, (*path, name))


def _text(place: PodPlace) -> str:
    zone = f"zone {place.availability_zone}" if place.availability_zone else ""
    return joined(place.word, place.machine, zone)


def _document(place: PodPlace) -> dict[str, Any]:
    return {
        "cluster": place.cluster,
        "node": place.node,
        "machine": place.machine,
        "availability_zone": place.availability_zone,
        "state": SCHEDULED if place.node else place.word,
    }


def _without_place(place: PodPlace) -> PodPlace:
    return PodPlace(place.cluster, state="" if place.node else place.state)


def _many(places: Sequence[PodPlace]) -> str:
    """`rack1-bm01: 2, rack1-bm02: 1, 3 Pending`."""
    counts: Counter[str] = Counter()
    without: Counter[str] = Counter()
    for place in places:
        if place.node:
            counts[place.machine or place.node] += 1
        else:
            without[place.word] += 1
    texts = [f"{machine}: {count:,}" for machine, count in sorted(counts.items())]
    if len(texts) > MOST_NAMES:
        low, high = min(counts.values()), max(counts.values())
        per_machine = f"{low}" if low == high else f"{low} to {high}"
        texts = [f"{per_machine} on each of {len(counts):,} machines"]
    texts += [f"{count:,} {state}" for state, count in sorted(without.items())]
    return ", ".join(texts)


KIND: Final = PlacementKind(
    name=POD,
    noun="pod",
    title="Pods",
    place=PodPlace,
    names=_names,
    called=lambda pool, name: f"{pool.partition('/')[2]}/{name}",
    spot=lambda place: (place.cluster, place.node, place.machine),
    text=_text,
    brief=lambda place: place.machine or place.word,
    document=_document,
    many=_many,
    link=lambda place: (place.cluster, place.node or "", place.machine or ""),
    runs=lambda place: place is not None and bool(place.node),
    waits_as=lambda place: place.word if place is not None else "Pending",
    without_place=_without_place,
    ground="node",
    on_vms=True,
    nested=True,
)
