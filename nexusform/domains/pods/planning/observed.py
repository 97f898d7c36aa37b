"""Clusters as kubectl printed them, bound to the VMs of the plan: real nodes, and the pods that run there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import ResourceBlock
from nexusform.diagnostics import Diagnostic, did_you_mean, error, warning
from nexusform.documents.shapes import mapping_at
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.domains.pods.importers.kubernetes_nodes import Observation, ObservedNode, ObservedPod
from nexusform.domains.pods.planning.brought import PodKey, PriorPods
from nexusform.domains.pods.planning.nodes import NodeCluster, total_of
from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.rules import image_locality, taints
from nexusform.domains.pods.scheduling.workloads import ZONE, Node, PodSpec, StandingPod
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vms.vm_object import VmObject
from nexusform.ports import Kind
from nexusform.scheduling.kubelet import STORAGE, NodeSize, capacity
from nexusform.words import form

# Labels that say on which machine a node's VM stands.
_MACHINE_LABELS: Final = ("topology.kubernetes.io/baremetalmachine", "CIS-node")
_MOST_NAMES: Final = 5
_DAEMONS: Final = "DaemonSet"


class Seen(Struct, frozen=True):
    """A cluster as a data block has read it."""

    block: ResourceBlock
    observation: Observation


class Elsewhere(Struct):
    """What other states hold: clusters by id, and the pods that their own objects brought there; and the
    clusters that kubectl printed, by id.
    """

    clusters: dict[str, NodeCluster] = field(default_factory=dict)
    pods: list[PriorPods] = field(default_factory=list)
    observed: dict[str, Seen] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


class ObservedCluster(Struct, frozen=True):
    """A cluster with its real nodes, and what stands on them. `strangers` are nodes that no VM of the plan
    is, `left_out` how many pods run on nodes that this plan removes or makes anew. `objects` are those that
    decide about pods; `is_whole`: there are no others. `promised` are pods that wait for room on their node.
    `own` are what ran of workloads whose pods the plan has foretold since.
    """

    cluster: NodeCluster
    standing: tuple[StandingPod, ...] = ()
    objects: tuple[Manifest, ...] = ()
    promised: tuple[StandingPod, ...] = ()
    is_whole: bool = True
    strangers: tuple[str, ...] = ()
    left_out: int = 0
    own: tuple[StandingPod, ...] = ()


def bind(
    cluster_id: str, planned: NodeCluster | None, observation: Observation, leaving: AbstractSet[str]
) -> ObservedCluster:
    """Put what was observed in the place of what is derived. `leaving` are VMs that the plan removes; nodes
    that it makes anew are what they will be, not what they were.
    """
    cluster = planned if planned is not None else NodeCluster(cluster_id, cluster_id, "", ())
    names: dict[str, str] = {}
    nodes, sizes = dict(cluster.by_name), _sizes(cluster)
    strangers: list[str] = []
    for node in observation.nodes:
        name = _vm_of(node, cluster, leaving)
        if name in leaving or name in cluster.fresh:
            continue
        if name not in nodes:
            strangers.append(name)
        names[node.name] = name
        nodes[name] = _as_registered(name, nodes.get(name), node)
        sizes[name] = node.capacity
    running = [pod for pod in observation.pods if pod.node in names]
    disrupted = _disrupted(observation.objects)
    standing = _standing(running, names, disrupted)
    standing += _daemons(running, [node for name, node in nodes.items() if name not in names.values()])
    waiting = [pod for pod in observation.promised if pod.node in names]
    nodes = _with_images(
        nodes, {names[each.name]: each.images for each in observation.nodes if each.name in names}
    )
    bound = replace(
        cluster,
        nodes=tuple(nodes.values()),
        by_name=nodes,
        version=observation.version or cluster.version,
        total=total_of(sizes.values()),
        new=cluster.new.difference(names.values()),
    )
    return ObservedCluster(
        bound,
        tuple(standing),
        observation.objects,
        tuple(_standing(waiting, names)),
        observation.is_whole,
        tuple(strangers),
        len(observation.pods) - len(running),
    )


def _with_images(nodes: Mapping[str, Node], sizes: Mapping[str, Mapping[str, int] | None]) -> dict[str, Node]:
    """Nodes with what the images that they have are worth."""
    worth = image_locality.worth_of([sizes.get(name) for name in nodes])
    pairs = zip(nodes.items(), worth, strict=True)
    return {name: replace(node, images=images) for (name, node), images in pairs}


def _sizes(cluster: NodeCluster) -> dict[str, NodeSize]:
    pairs = zip(cluster.nodes, cluster.skus, strict=True)
    return {node.name: capacity(sku) for node, sku in pairs}


def _vm_of(node: ObservedNode, cluster: NodeCluster, leaving: AbstractSet[str]) -> str:
    """The name of the VM that a node is: by its name, else by its provider id; its own where it is none."""
    for name in (node.name, node.provider_id.rpartition("/")[2]):
        known = cluster.platform_names.get(name, name)
        if known in cluster.by_name or known in leaving:
            return known
    return node.name


def _as_registered(name: str, planned: Node | None, node: ObservedNode) -> Node:
    """A node as it registered itself; where it is only the plan knows, of its own VMs."""
    size = node.allocatable
    # A node that registered without says that it has none; of a derived one it is not known.
    others = {STORAGE: 0, **size.others}
    if planned is not None:
        return replace(
            planned,
            labels=node.labels,
            taints=node.taints,
            cpu=size.cpu,
            memory=size.memory,
            pods=node.pods,
            unschedulable=node.unschedulable,
            others=others,
        )
    machine = next((node.labels[key] for key in _MACHINE_LABELS if key in node.labels), "")
    return Node(
        name=name,
        labels=node.labels,
        taints=node.taints,
        cpu=size.cpu,
        memory=size.memory,
        pods=node.pods,
        unschedulable=node.unschedulable,
        machine=machine,
        zone=node.labels.get(ZONE, ""),
        others=others,
    )


def _disrupted(objects: Iterable[Manifest]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The budgets that have let a pod go which is still there, by its namespace and name."""
    by_pod: dict[tuple[str, str], tuple[str, ...]] = {}
    for each in objects:
        for name in mapping_at(each.body, "status", "disruptedPods"):
            by_pod[each.namespace, name] = (*by_pod.get((each.namespace, name), ()), each.name)
    return by_pod


def _standing(
    pods: Sequence[ObservedPod],
    names: Mapping[str, str],
    disrupted: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType({}),
) -> list[StandingPod]:
    """The pods as they stand, numbered per workload. `disrupted`: which budgets have let them go."""
    ages = _ages(pods)
    numbers: dict[str, int] = {}
    standing: list[StandingPod] = []
    for pod in pods:
        workload = pod.workload or f"{pod.namespace}/Terminating/{pod.name}"
        number = numbers.get(workload, 0)
        ordinal = pod.name.rpartition("-")[2]
        if "/StatefulSet/" in workload and ordinal.isdecimal():
            number = int(ordinal)
        numbers[workload] = number + 1
        standing.append(
            StandingPod(
                workload,
                number,
                names[pod.node],
                pod.spec,
                ages.get(pod.started, 0),
                seen=pod.seen,
                let_go=disrupted.get((pod.namespace, pod.name), ()),
            )
        )
    return standing


def _ages(pods: Iterable[ObservedPod]) -> dict[str, int]:
    """Ages by start time, all below 0: a pod that has not started, or of which nobody knows, is newer."""
    times = sorted({pod.started for pod in pods} - {""})
    return {started: at - len(times) for at, started in enumerate(times)}


def _daemons(pods: Sequence[ObservedPod], nodes: Sequence[Node]) -> list[StandingPod]:
    """The pods that DaemonSets will make on nodes that were not there yet."""
    by_workload: dict[str, list[ObservedPod]] = {}
    for pod in pods:
        if pod.workload.split("/")[1:2] == [_DAEMONS]:
            by_workload.setdefault(pod.workload, []).append(pod)
    standing: list[StandingPod] = []
    for workload, own_pods in by_workload.items():
        spec = own_pods[-1].spec
        open_nodes = [node for node in nodes if _takes(node, spec)]
        for number, node in enumerate(open_nodes, len(own_pods)):
            standing.append(StandingPod(workload, number, node.name, spec))
    return standing


def _takes(node: Node, spec: PodSpec) -> bool:
    """Whether no rule about nodes alone refuses a pod there."""
    return not any(rule.refuse(spec, node) for rule in profile.NODE_FILTERS)


def stand_where_seen(
    standing: dict[PodKey, StandingPod],
    pods: Iterable[StandingPod],
    nodes: Mapping[str, Node],
    is_past: Callable[[StandingPod], bool] = lambda _: False,
) -> dict[str, list[StandingPod]]:
    """Let pods of one cluster stand where they were seen; gives them by workload. Those that state foretells
    beyond them stand, too: they came after kubectl looked. So did those in whose place a NoExecute taint
    evicts what was seen, and those that have replaced what `is_past`.
    """
    pods = [pod for pod in pods if not is_past(pod)]
    foretold: dict[str, dict[int, str]] = {}
    for (workload, number), pod in standing.items():
        foretold.setdefault(workload, {})[number] = pod.node
    seen: dict[str, list[StandingPod]] = {}
    for pod in pods:
        evicted = (
            "/DaemonSet/" not in pod.workload and taints.stays_for(pod.spec, nodes[pod.node]) is not None
        )
        if not evicted or pod.workload not in foretold:
            seen.setdefault(pod.workload, []).append(pod)
    facts = {key: _as_foretold(own_pods, foretold.get(key, {})) for key, own_pods in seen.items()}
    for own_pods in facts.values():
        for pod in own_pods:
            standing[pod.workload, pod.number] = pod
    return facts


def _as_foretold(pods: Sequence[StandingPod], foretold: Mapping[int, str]) -> list[StandingPod]:
    """Pods of one workload with the numbers that state has for their nodes, as far as it does."""
    if "/StatefulSet/" in pods[0].workload:
        return list(pods)
    numbers_on: dict[str, list[int]] = {}
    for number, node in foretold.items():
        numbers_on.setdefault(node, []).append(number)
    numbers: list[int | None] = []
    for pod in pods:
        foretold_here = numbers_on.get(pod.node)
        numbers.append(foretold_here.pop(0) if foretold_here else None)
    taken = set(numbers)
    free = (number for number in count() if number not in taken)
    return [
        replace(pod, number=next(free) if number is None else number)
        for pod, number in zip(pods, numbers, strict=True)
    ]


# --- all of a plan -----------------------------------------------------------------------------


def observed_clusters(
    elsewhere: Elsewhere, clusters: Mapping[str, NodeCluster], objects: Iterable[VmObject]
) -> dict[str, ObservedCluster]:
    """The clusters that kubectl printed, bound to those of the plan, by id; what is odd becomes a warning."""
    leaving: set[str] = set()
    for vms in objects if elsewhere.observed else ():
        leaving |= set(vms.names_before()) - {vm.name for vm in vms.vms_after()}
    observed: dict[str, ObservedCluster] = {}
    for cluster_id, seen in elsewhere.observed.items():
        bound = observed[cluster_id] = bind(cluster_id, clusters.get(cluster_id), seen.observation, leaving)
        elsewhere.diagnostics += _oddities(seen.block, cluster_id, bound, known=cluster_id in clusters)
    return observed


def _oddities(
    block: ResourceBlock, cluster_id: str, bound: ObservedCluster, *, known: bool
) -> Iterator[Diagnostic]:
    if known and bound.strangers:
        count, named = len(bound.strangers), ", ".join(bound.strangers[:_MOST_NAMES])
        more = ", ..." if count > _MOST_NAMES else ""
        detail = (
            f'{count} {form(count, "node")} of the cluster "{cluster_id}" ({named}{more}) '
            f"{form(count, 'is', 'are')} no VM of this configuration, neither by name nor by provider id: "
            "pods may go there, and the machine is what the label says, if anything."
        )
        yield warning("node-without-a-vm", detail, block.header_span, block=block.header)
    if bound.left_out:
        count = bound.left_out
        detail = (
            f'{count} {form(count, "pod")} of "{cluster_id}" {form(count, "runs", "run")} on nodes '
            "that this plan removes or makes anew, or that the files lack. Where those of other "
            "workloads start again is not foretold."
        )
        yield warning("pods-of-lost-nodes-left-out", detail, block.header_span, block=block.header)


def unknown_observed(
    elsewhere: Elsewhere, clusters: Mapping[str, NodeCluster], instances: Iterable[Instance]
) -> Iterator[Diagnostic]:
    """Data blocks about clusters that nobody knows, neither as a cluster nor as a member."""
    members = [each.planned or {} for each in instances if each.type.kind is Kind.MEMBER]
    planned = [cluster_id for cluster_id, cluster in clusters.items() if cluster.site_id]
    known = {*planned, *(str(member.get("name")) for member in members)}
    for cluster_id, seen in elsewhere.observed.items():
        if cluster_id not in known:
            detail = (
                f'No nexus_kubernetes_cluster or tacker_vnf has the id "{cluster_id}", and no '
                f"fleet_member_cluster this name.{did_you_mean(cluster_id, sorted(known))}"
            )
            yield error("unknown-cluster", detail, seen.block.header_span, block=seen.block.header)
