"""Rows of pods in a plan, their former locations, and their records in state."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import enclose, format_first_items, join_texts
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.pod_kind import POD, PodLocation
from nexusform.domains.pods.scheduling import pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import Pairs, PodSpec, Workload
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome, describe_condition
from nexusform.domains.pods.scheduling.workload_progress import find_unused_pod_numbers
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.plans.plan import FORGOTTEN_REASON, PlacementAction, PlacementChange
from nexusform.resources.address import Address

# Key of a pod in state with a former template: the hash of that template.
FORMER: Final = "former_template"
# Key of the former spec as JSON: the pod uses those resources, not the current ones
# of its workload.
FORMER_POD: Final = "former_pod"
# Key of the volumes bound to its claims, by claim: they restrict its nodes.
VOLUMES: Final = "volumes"
REJECTED: Final = "rejected"
# The provenance of an observed pod.
OBSERVED: Final = "observed"
_UNKNOWN_TEMPLATE: Final = "overridden"
REASONS: Final[Mapping[str, str]] = {
    "new": "new",
    "scale_out": "the workload's replicas were raised",
    "scale_in": "the workload's replicas were lowered",
    "node_removed": "its node was removed or re-created",
    "template_changed": "the pod template changed",
    "override_changed": "an override changed the pod template",
    "workload_removed": "its workload is deleted",
    "object_replaced": "its object is re-created",
    REJECTED: "kubelet or the API server rejects it",
    "preempted": "a pod of higher priority replaces it",
    "no_execute": "a NoExecute taint of its node evicts it",
    "binding_removed": "the placement is removed from the cluster",
}
_MAX_NAMES: Final = 5


class RejectedPods(Struct, frozen=True):
    """Number of pods of a workload rejected by the API server, and the reason."""

    workload: Workload
    count: int
    reason: str


class RecordedPod(Struct, frozen=True):
    """Record of a pod in state: its node ("" while it waits), and the machine and zone of the node.

    `former_template` is the hash of a template older than its workload's, and `former_pod` the
    former spec (as JSON, "" in states of earlier versions). `state` is "" in states of earlier
    versions, without reasons. `volumes` are bound to its claims, by claim.
    """

    node: str = ""
    machine: str | None = None
    availability_zone: str | None = None
    is_certain: bool = False
    provenance: str = "predicted"
    former_template: str = ""
    former_pod: str = ""
    state: str = ""
    reason: str | None = None
    volumes: Pairs = ()


def parse_pod_record(values: Mapping[str, Any]) -> RecordedPod:
    """Return a pod as recorded in state.

    `values` are in the `workloads` of a KubernetesObjects resource.
    """
    return RecordedPod(
        node=get_text(values, "node"),
        machine=values.get("machine"),
        availability_zone=values.get("availability_zone"),
        is_certain=bool(values.get("certain")),
        provenance=get_text(values, "provenance") or "predicted",
        former_template=get_text(values, FORMER),
        former_pod=get_text(values, FORMER_POD),
        state=get_text(values, "state"),
        reason=values.get("reason"),
        volumes=parse_volumes(values),
    )


def parse_volumes(values: Mapping[str, Any]) -> Pairs:
    """Return the bound claims of a pod in state, each with its volume's name."""
    return tuple(
        sorted((str(claim), str(volume)) for claim, volume in get_mapping(values, VOLUMES).items())
    )


def build_pod_values(
    cluster: NodeCluster, workload: Workload, outcome: PodOutcome, record: RecordedPod | None
) -> dict[str, Any]:
    """Return the attributes of a pod, for `workloads` of a planned object.

    A kept pod keeps its recorded values.
    """
    kept_pod = record if outcome.action == pod_outcomes.KEEP else None
    name, machine, zone = cluster.find_place(outcome.node)
    values: dict[str, Any] = {
        "node": name,
        "machine": machine,
        "availability_zone": zone,
        "certain": outcome.is_certain,
        "provenance": "predicted",
    }
    volumes = outcome.volumes
    if kept_pod is not None:
        values |= {"certain": kept_pod.is_certain, "provenance": kept_pod.provenance}
        volumes = kept_pod.volumes
    values |= _build_state_and_reason(outcome, kept_pod)
    if volumes:
        values[VOLUMES] = dict(volumes)
    return values | _build_values_before_plan(workload, outcome, kept_pod)


def _build_state_and_reason(
    outcome: PodOutcome, kept_pod: RecordedPod | None
) -> dict[str, str | None]:
    """Return lifecycle state and reason of a pod, reason None without one.

    A pod unchanged by the plan keeps those recorded in state (`kept_pod`); the result is {} if it
    has none there.
    """
    # Still with or without a node.
    if kept_pod is not None and bool(kept_pod.node) == bool(outcome.node):
        if not kept_pod.state:
            # An earlier version wrote it.
            return {}
        if kept_pod.state == outcome.state:
            return {"state": kept_pod.state, "reason": kept_pod.reason}
    reason = "" if outcome.node else outcome.reason
    return {"state": str(outcome.state), "reason": reason or None}


def _build_values_before_plan(
    workload: Workload, outcome: PodOutcome, kept_pod: RecordedPod | None
) -> dict[str, str]:
    """Return the former template and spec of a pod not yet updated, as recorded if known.

    The result is {} for a current pod.
    """
    spec = outcome.spec
    if spec.template == workload.pod.template:
        return {}
    template = spec.template or _UNKNOWN_TEMPLATE
    if kept_pod is not None and kept_pod.former_template == template:
        return {FORMER: template, FORMER_POD: kept_pod.former_pod}
    return {FORMER: template, FORMER_POD: format_pod_spec(spec)}


def format_pod_spec(spec: PodSpec) -> str:
    """Return a spec as JSON without defaults, for `parse_pod_spec`."""
    plain = msgspec.to_builtins(spec)
    defaults = msgspec.to_builtins(PodSpec())
    return json.dumps(
        {key: value for key, value in plain.items() if value != defaults[key]}, sort_keys=True
    )


def parse_pod_spec(text: str) -> PodSpec | None:
    """Parse the JSON of `format_pod_spec`; None if this version cannot read it."""
    try:
        return msgspec.json.decode(text, type=PodSpec)
    except msgspec.DecodeError:
        return None


def build_pod_row(
    address: Address,
    cluster_id: str,
    cluster: NodeCluster | None,
    outcome: PodOutcome,
    record: RecordedPod,
    *,
    keeps_running: bool = False,
) -> PlacementChange:
    """Return the row of one pod in a plan.

    `cluster` is None if it is removed; `record` has default values for a new pod. `keeps_running`
    means that the object of the pod is only forgotten (a `removed` block without destroy).
    """
    cluster_name = cluster_id.rpartition("/")[2]
    site_id = ""
    if cluster is not None:
        cluster_name = cluster.name
        site_id = cluster.site_id
    # A new pod has none.
    source: PodLocation | None = None
    if outcome.previous or outcome.action in (pod_outcomes.REMOVE, pod_outcomes.KEEP):
        source = _build_former_location(cluster, cluster_name, outcome, record)
    # A removed pod has none.
    target: PodLocation | None = None
    if not outcome.is_removed:
        target = _build_location(cluster, cluster_name, outcome.node, str(outcome.state))
    scores: dict[str, Any] = {}
    # The scheduler decided it, or it is in doubt.
    if outcome.feasible_nodes is not None or outcome.doubt:
        scores = {"certain": outcome.is_certain, "feasible_nodes": outcome.feasible_nodes}
        if outcome.doubt and not outcome.is_certain:
            scores |= {"depends_on": outcome.doubt, "otherwise": outcome.alternative or None}
    # A pod rejected by kubelet in this plan. One Failed before has no trigger ("").
    trigger = REJECTED if outcome.trigger and outcome.is_failed else outcome.trigger
    row = PlacementChange(
        address=address,
        kind=POD,
        object=outcome.name,
        action=PlacementAction(outcome.action),
        source=source,
        target=target,
        trigger=trigger,
        cluster="",
        pool=f"{cluster_name}/{outcome.workload}",
        number=outcome.number,
        site_id=site_id,
        reason=_build_pod_reason(outcome),
        scores=scores,
        rejections=outcome.rejections,
    )
    if keeps_running:
        return replace(row, action=PlacementAction.FORGET, reason=FORGOTTEN_REASON)
    return row


def build_rejected_rows(
    address: Address, cluster: NodeCluster, rejected: RejectedPods, pods: Iterable[PodOutcome]
) -> Iterator[PlacementChange]:
    """Yield a row for every pod of a workload that the API server rejects.

    Their numbers are those not used by its `pods`.
    """
    workload = rejected.workload
    for number in find_unused_pod_numbers(
        [pod.number for pod in pods], workload.first_ordinal, rejected.count
    ):
        yield PlacementChange(
            address=address,
            kind=POD,
            object=workload.format_pod_name(number),
            # The pod exists neither before nor after the plan.
            action=PlacementAction.KEEP,
            source=None,
            target=None,
            trigger=REJECTED,
            pool=f"{cluster.name}/{workload.key}",
            number=number,
            site_id=cluster.site_id,
            reason=rejected.reason,
        )


def _build_pod_reason(outcome: PodOutcome) -> str:
    """Return the reason shown with a pod, "" without one.

    For a pod without a node it is why it waits. For others it is the first of its victims, the
    cause of its eviction, its trigger, or why it is unready.
    """
    reason = enclose("preempted by ", outcome.preempted_by)
    if not outcome.node and not outcome.is_removed:
        return join_texts((reason, outcome.reason), "; ")
    # More important than its own eviction.
    if outcome.victims:
        reason = f"preempts {format_first_items([pod.name for pod in outcome.victims], _MAX_NAMES)}"
    return reason or REASONS.get(outcome.trigger, "") or describe_condition(outcome.condition)


def _build_former_location(
    cluster: NodeCluster | None, name: str, outcome: PodOutcome, record: RecordedPod
) -> PodLocation:
    """Return the location of a pod before the plan.

    The machine and zone in state count, as its node may have moved.
    """
    location = _build_location(cluster, name, outcome.previous, record.state)
    if outcome.action == pod_outcomes.KEEP or record.node != outcome.previous:
        # The pod stays, or the record is about another node.
        return location
    machine = record.machine or location.machine
    zone = record.availability_zone or location.availability_zone
    return replace(location, machine=machine, availability_zone=zone)


def _build_location(
    cluster: NodeCluster | None, name: str, node_name: str, state: str = ""
) -> PodLocation:
    """Return the location of a pod on a node of a cluster.

    `name` is the node. Without one (""), the location has its `state`.
    """
    node = cluster.node_by_name.get(node_name) if cluster is not None else None
    if node is None:
        return PodLocation(name, node_name or None, state="" if node_name else state)
    return PodLocation(name, node_name, node.machine, node.zone)
