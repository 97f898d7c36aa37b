"""Pods as a plan shows them: where state had them, their rows, and what is remembered of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.domains.pods.pod_kind import POD, PodPlace
from nexusform.domains.pods.scheduling import forecast
from nexusform.domains.pods.scheduling.forecast import PodOutcome
from nexusform.domains.pods.scheduling.work import free_numbers
from nexusform.domains.pods.scheduling.workloads import Pairs, PodSpec, Workload
from nexusform.planning.phases import HostedWorkload
from nexusform.plans.plan import FORGOTTEN, PlacementAction, PlacementChange

# What a pod of state carries whose template is older than its workload's: the hash of it.
FORMER: Final = "former_template"
# The rest of what such a pod was made from, as JSON: it holds that, not what its workload asks for by now.
FORMER_POD: Final = "former_pod"
# The volumes that its claims have taken, by claim: they bind it to where these are.
VOLUMES: Final = "volumes"
REJECTED: Final = "rejected"
# The provenance of a pod that kubectl showed.
OBSERVED: Final = "observed"
_NAMELESS: Final = "overridden"
REASONS: Final[Mapping[str, str]] = {
    "new": "new",
    "scale_out": "the workload's replicas were raised",
    "scale_in": "the workload's replicas were lowered",
    "node_removed": "its node was removed or re-created",
    "template_changed": "the pod template changed",
    "override_changed": "an override changed the pod template",
    "workload_removed": "its workload is gone",
    "object_replaced": "its object is re-created",
    REJECTED: "kubelet or the API server rejects it",
    "preempted": "a pod of higher priority replaces it",
    "no_execute": "a NoExecute taint of its node evicts it",
    "binding_removed": "the cluster no longer holds the placement",
}
_MOST_NAMES: Final = 5
_ACTIONS: Final = {
    forecast.PLACE: PlacementAction.PLACE,
    forecast.MOVE: PlacementAction.MOVE,
    forecast.REMOVE: PlacementAction.REMOVE,
    forecast.KEEP: PlacementAction.KEEP,
}


class Refused(Struct, frozen=True):
    """How many pods of a workload the API server does not let be made, whoever asks, and why."""

    workload: Workload
    count: int
    reason: str


class PodNote(Struct, frozen=True):
    """What state remembers of a pod: its node ("" while it waits), and that node's machine and zone.

    `former` is the hash of the template that it was made from, where that is older than its workload's, and
    `former_pod` what it was made from, as JSON. `state` is "" where state does not tell it. `volumes`
    are those that its claims have, by claim.
    """

    node: str = ""
    machine: str | None = None
    availability_zone: str | None = None
    certain: bool = False
    provenance: str = "predicted"
    former: str = ""
    former_pod: str = ""
    state: str = ""
    reason: str | None = None
    volumes: Pairs = ()


def read_note(values: Mapping[str, Any]) -> PodNote:
    """The note of a pod, from the `workloads` of a prior object."""
    return PodNote(
        node=str(values.get("node") or ""),
        machine=values.get("machine"),
        availability_zone=values.get("availability_zone"),
        certain=bool(values.get("certain")),
        provenance=str(values.get("provenance") or "predicted"),
        former=str(values.get(FORMER) or ""),
        former_pod=str(values.get(FORMER_POD) or ""),
        state=str(values.get("state") or ""),
        reason=values.get("reason"),
        volumes=volumes_of(values),
    )


def volumes_of(values: Mapping[str, Any]) -> Pairs:
    """The claims of a pod of state that have a volume, each with its name."""
    volumes = values.get(VOLUMES)
    if not isinstance(volumes, Mapping):
        return ()
    return tuple(sorted((str(claim), str(volume)) for claim, volume in volumes.items()))


def pod_values(
    cluster: NodeCluster, workload: Workload, outcome: PodOutcome, note: PodNote | None
) -> dict[str, Any]:
    """A pod among the `workloads` of a planned object. One that stays keeps what is remembered of it."""
    node = cluster.node(outcome.node)
    stays = note if outcome.action == forecast.KEEP else None
    values: dict[str, Any] = {
        "node": node.name if node else None,
        "machine": node.machine if node else None,
        "availability_zone": node.zone if node else None,
        "certain": stays.certain if stays is not None else outcome.certain,
        "provenance": stays.provenance if stays is not None else "predicted",
    }
    values |= _condition(outcome, stays)
    volumes = outcome.volumes if stays is None else stays.volumes
    if volumes:
        values[VOLUMES] = dict(volumes)
    return values | _former(workload, outcome, stays)


def _condition(outcome: PodOutcome, stays: PodNote | None) -> dict[str, str | None]:
    """State and reason; those that state has for a pod to which nothing happens, none where it has none."""
    if stays is not None and bool(stays.node) == bool(outcome.node):
        if not stays.state:
            return {}
        if stays.state == outcome.state:
            return {"state": stays.state, "reason": stays.reason}
    return {"state": str(outcome.state), "reason": None if outcome.node else outcome.reason or None}


def _former(workload: Workload, outcome: PodOutcome, stays: PodNote | None) -> dict[str, str]:
    """What a pod was made from that an update has not reached: it hangs, or leaves the pod as it is."""
    spec = outcome.spec
    if spec is None or spec.template == workload.pod.template:
        return {}
    template = spec.template or _NAMELESS
    if stays is not None and stays.former == template:
        return {FORMER: template, FORMER_POD: stays.former_pod}
    return {FORMER: template, FORMER_POD: written_pod(spec)}


def written_pod(spec: PodSpec) -> str:
    """A spec as JSON, as far as it is not the default; `read_pod` reads it."""
    plain, defaults = msgspec.to_builtins(spec), msgspec.to_builtins(PodSpec())
    return json.dumps({key: value for key, value in plain.items() if value != defaults[key]}, sort_keys=True)


def read_pod(text: str) -> PodSpec | None:
    """What `written_pod` wrote; None where this version cannot read it."""
    try:
        return msgspec.json.decode(text, type=PodSpec)
    except msgspec.DecodeError:
        return None


def pod_row(
    address: Address,
    cluster_id: str,
    cluster: NodeCluster | None,
    outcome: PodOutcome,
    note: PodNote | None,
    *,
    runs_on: bool = False,
) -> PlacementChange:
    """The row of one pod. `cluster` is None when its cluster is gone. It `runs_on` where what brought it is
    forgotten.
    """
    name = cluster.name if cluster is not None else cluster_id.rpartition("/")[2]
    leaves, stays = outcome.action == forecast.REMOVE, outcome.action == forecast.KEEP
    was_there = outcome.previous or leaves or stays
    decided = outcome.feasible is not None
    row = PlacementChange(
        address=address,
        kind=POD,
        object=outcome.name,
        action=_ACTIONS[outcome.action],
        source=_former_place(cluster, name, outcome, note) if was_there else None,
        target=None if leaves else _place(cluster, name, outcome.node, str(outcome.state)),
        trigger=REJECTED if outcome.trigger and outcome.failed else outcome.trigger,
        cluster="",
        pool=f"{name}/{outcome.workload}",
        number=outcome.number,
        site_id=cluster.site_id if cluster is not None else "",
        reason=_reason(outcome),
        scores={"certain": outcome.certain, "feasible_nodes": outcome.feasible} if decided else {},
        rejected=outcome.refusals,
    )
    return replace(row, action=PlacementAction.FORGET, reason=FORGOTTEN) if runs_on else row


def refused_rows(
    address: Address, cluster: NodeCluster, refused: Refused, pods: Iterable[PodOutcome]
) -> Iterator[PlacementChange]:
    """A row for every pod that the API server refuses, beside those `pods` of its workload that there are."""
    workload = refused.workload
    for number in free_numbers([pod.number for pod in pods], workload.first, refused.count):
        yield PlacementChange(
            address=address,
            kind=POD,
            object=workload.pod_name(number),
            action=PlacementAction.KEEP,
            source=None,
            target=None,
            trigger=REJECTED,
            pool=f"{cluster.name}/{workload.key}",
            number=number,
            site_id=cluster.site_id,
            reason=refused.reason,
        )


def _reason(outcome: PodOutcome) -> str:
    """Why a pod has no node, else why it is evicted, else whom it evicts, else what its trigger says."""
    because = f"{outcome.preempted_by} takes its place" if outcome.preempted_by else ""
    if outcome.pending or outcome.failed or outcome.gated:
        return f"{because}; {outcome.reason}" if because else outcome.reason
    if outcome.victims:
        named = ", ".join(pod.name for pod in outcome.victims[:_MOST_NAMES])
        more = len(outcome.victims) - _MOST_NAMES
        because = f"takes the place of {named}{f' and {more} more' if more > 0 else ''}"
    return because or REASONS.get(outcome.trigger, "")


def _former_place(
    cluster: NodeCluster | None, name: str, outcome: PodOutcome, note: PodNote | None
) -> PodPlace:
    """Where a pod was: by state, as its node may stand on another machine by now, or not at all."""
    place = _place(cluster, name, outcome.previous, note.state if note is not None else "")
    if outcome.action == forecast.KEEP or note is None or note.node != outcome.previous:
        return place
    return replace(
        place,
        machine=note.machine or place.machine,
        availability_zone=note.availability_zone or place.availability_zone,
    )


def _place(cluster: NodeCluster | None, name: str, node_name: str, state: str = "") -> PodPlace:
    node = cluster.node(node_name) if cluster is not None and node_name else None
    if node is None:
        return PodPlace(name, node_name or None, state="" if node_name else state)
    return PodPlace(name, node_name, node.machine, node.zone)


def planned_pod(cluster_id: str, outcome: PodOutcome, spec: PodSpec) -> HostedWorkload:
    """A pod that has a node after the plan, as separation rules see it."""
    labels = dict(spec.labels)
    return HostedWorkload(cluster_id, outcome.node, spec.namespace, outcome.name, labels, outcome.trigger)
