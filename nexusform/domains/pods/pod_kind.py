"""Placement kind of pods on nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.phrases import enclose
from nexusform.placement_kinds.placement_kind import MAXIMUM_NAMES, PlacementKind
from nexusform.placement_kinds.vm_kind import join_location_parts
from nexusform.scheduling.placement_decision import ObjectLocation

POD: Final = "pod"
# The state of a pod that has a node.
SCHEDULED: Final = "Scheduled"
# Assumption behind changes that a hub cannot observe.
UNREACHABLE_MEMBERS: Final = "members that are not reachable"
# Assumption behind pods beside others that no object of the state has any more.
LEFT_OBJECTS: Final = "objects left on the cluster"


class PodLocation(ObjectLocation, frozen=True):
    """Location of a pod: cluster and node, with the node's machine and zone.

    A waiting pod has only a cluster; `state` is its state ("" if unknown: Pending).
    """

    cluster: str
    node: str | None = None
    machine: str | None = None
    availability_zone: str | None = None
    state: str = ""

    @property
    def node_or_state(self) -> str:
        """Node of the pod, or its state without one."""
        return self.node or self.state or "Pending"


def _list_pods(values: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the pods in nested values as `workload/pod`.

    The outer keys are workloads, or for some kinds clusters.
    """
    if not isinstance(values, Mapping):
        # No pods are known.
        return
    # The record of a pod.
    if "node" in values and "machine" in values:
        yield "/".join(path[-2:])
        return
    for name, inner_values in values.items():
        yield from _list_pods(inner_values, (*path, name))


def _build_document(location: PodLocation) -> dict[str, Any]:
    """Return a location for JSON output.

    `state` is Scheduled for a pod with a node, else such as Pending or Failed.
    """
    return {
        "cluster": location.cluster,
        "node": location.node,
        "machine": location.machine,
        "availability_zone": location.availability_zone,
        "state": SCHEDULED if location.node else location.node_or_state,
    }


def _format_locations(locations: Sequence[PodLocation]) -> str:
    """Format the locations of several pods: `rack1-bm01: 2, rack1-bm02: 1, 3 Pending`."""
    machine_counts: Counter[str] = Counter()
    unplaced_counts: Counter[str] = Counter()
    for location in locations:
        if location.node:
            machine_counts[location.machine or location.node] += 1
        else:
            unplaced_counts[location.node_or_state] += 1
    texts = [f"{machine}: {count:,}" for machine, count in sorted(machine_counts.items())]
    # There are too many to list.
    if len(texts) > MAXIMUM_NAMES:
        low = min(machine_counts.values())
        high = max(machine_counts.values())
        per_machine = f"{low}" if low == high else f"{low} to {high}"
        texts = [f"{per_machine} on each of {len(machine_counts):,} machines"]
    texts += [f"{count:,} {state}" for state, count in sorted(unplaced_counts.items())]
    return ", ".join(texts)


KIND: Final = PlacementKind(
    name=POD,
    noun="pod",
    title="Pods",
    location_class=PodLocation,
    list_names=lambda _type, attributes: _list_pods(attributes.get("workloads")),
    format_name=lambda pool, name: f"{pool.partition('/')[2]}/{name}",
    get_identity=lambda place: (place.cluster, place.node, place.machine),
    format_text=lambda place: join_location_parts(
        place.node_or_state, place.machine, enclose("zone ", place.availability_zone)
    ),
    format_brief=lambda place: place.machine or place.node_or_state,
    build_document=_build_document,
    format_many=_format_locations,
    get_link=lambda place: (place.cluster, place.node or "", place.machine or ""),
    is_running=lambda place: place is not None and bool(place.node),
    format_waiting_state=lambda place: place.node_or_state if place is not None else "Pending",
    build_waiting=lambda place: PodLocation(place.cluster, state="" if place.node else place.state),
    host_noun="node",
    runs_on_vms=True,
    is_nested=True,
)
