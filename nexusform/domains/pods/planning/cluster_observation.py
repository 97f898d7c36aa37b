"""Clusters listed by kubectl, matched to the VMs of the plan.

They have registered nodes, running pods, and the status of budgets.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import ResourceBlock
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning, suggest_name
from nexusform.diagnostics.phrases import group_by, select_word_form
from nexusform.documents.scalars import parse_integer
from nexusform.domains.pods.importers.kubectl_snapshot import (
    KubectlSnapshot,
    ObservedNode,
    ObservedPod,
)
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    format_scalar,
    get_integer,
    select_manifests,
)
from nexusform.domains.pods.importers.pod_admission import collect_resource_quotas
from nexusform.domains.pods.planning.node_clusters import NodeCluster, sum_node_sizes
from nexusform.domains.pods.planning.object_pods import PriorPods
from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.cluster_records import (
    ZONE,
    ExistingPod,
    Node,
    PodDisruptionBudget,
    PodKey,
    ResourceQuota,
)
from nexusform.domains.pods.scheduling.pending_reasons import join_first_texts
from nexusform.domains.pods.scheduling.preemption import compute_allowed_disruptions, is_pod_covered
from nexusform.domains.pods.scheduling.resource_quotas import QuotaUsage
from nexusform.domains.pods.scheduling.rules import image_locality, taints
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.scheduling.kubelet import STORAGE, compute_capacity

# Labels with the machine of a node's VM.
_MACHINE_LABELS: Final = ("topology.kubernetes.io/baremetalmachine", "CIS-node")
_UNREADY_TAINTS: Final = frozenset(
    {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
)


# Amounts used under quotas, by namespace and name of the quota.
_UsageByQuota: TypeAlias = Mapping[tuple[str, str], tuple[tuple[str, int], ...]]


class ClusterSnapshotBlock(Struct, frozen=True):
    """Cluster snapshot read by a data block, and the attributes of the block."""

    block: ResourceBlock
    snapshot: KubectlSnapshot
    attributes: Mapping[str, Any] = {}


class ExternalClusters(Struct):
    """Clusters and pods of other states, and cluster snapshots from kubectl, by cluster id."""

    clusters: dict[str, NodeCluster] = field(default_factory=dict)
    pods: list[PriorPods] = field(default_factory=list)
    snapshots: dict[str, ClusterSnapshotBlock] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


class ObservedCluster(Struct, frozen=True):
    """Cluster with its registered nodes and running pods.

    `unknown_nodes` match no VM of the plan; `lost_pod_count` counts pods on nodes removed or
    re-created in this plan. `objects` affect pods; `is_complete` means that there are no others.
    `nominated_pods` wait for capacity on their node. `replaced_pods` ran before pods the plan has
    predicted since. `waiting_pods` have no node. `unlisted_usage` is the usage of quotas by pods
    missing in the snapshot. `unmatched_vms` have no listed node. `plan_names` are those of the
    nodes by their names in the snapshot, `attributes` those of the data block that read it.
    """

    cluster: NodeCluster
    existing_pods: tuple[ExistingPod, ...] = ()
    objects: tuple[Manifest, ...] = ()
    nominated_pods: tuple[ExistingPod, ...] = ()
    is_complete: bool = True
    unknown_nodes: tuple[str, ...] = ()
    lost_pod_count: int = 0
    replaced_pods: tuple[ExistingPod, ...] = ()
    waiting_pods: tuple[ExistingPod, ...] = ()
    snapshot: KubectlSnapshot = KubectlSnapshot()
    unready_nodes: frozenset[str] = frozenset()
    unmatched_vms: tuple[str, ...] = ()
    extreme_image_values: tuple[Mapping[str, int], ...] = ()
    unlisted_usage: _UsageByQuota = MappingProxyType({})
    plan_names: Mapping[str, str] = MappingProxyType({})
    attributes: Mapping[str, Any] = MappingProxyType({})

    @property
    def has_all_classes(self) -> bool:
        """Whether no StorageClasses exist but those listed by kubectl.

        Without any, they may not have been listed.
        """
        return self.is_complete and any(
            select_manifests(self.objects, "storage.k8s.io", "StorageClass")
        )


def match_cluster_snapshot(
    cluster_id: str,
    planned_cluster: NodeCluster | None,
    snapshot: KubectlSnapshot,
    removed_vms: AbstractSet[str],
) -> ObservedCluster:
    """Return the cluster with the nodes and pods listed by kubectl (`snapshot`).

    A listed node replaces the one derived from its VM, under the VM's name. Nodes removed
    (`removed_vms`: names) or re-created in this plan are left out, and their pods are lost. A
    cluster outside of the plan (`planned_cluster` None) has the listed nodes only.
    """
    cluster = (
        planned_cluster
        if planned_cluster is not None
        else NodeCluster(cluster_id, cluster_id, "", ())
    )
    names_and_nodes = [
        (_resolve_vm_name(node, cluster, removed_vms), node) for node in snapshot.nodes
    ]
    # The remaining listed nodes, each with its name in the plan.
    registered = [
        (name, node)
        for name, node in names_and_nodes
        if name not in removed_vms | cluster.recreated_nodes
    ]
    # By listed name.
    plan_names = {node.name: name for name, node in registered}
    registered_names = set(plan_names.values())
    sizes = {
        node.name: compute_capacity(sku)
        for node, sku in zip(cluster.nodes, cluster.skus, strict=True)
    }
    sizes |= {name: node.capacity for name, node in registered}
    # By name in the plan.
    nodes = dict(cluster.node_by_name)
    for name, node in registered:
        nodes[name] = _build_registered_node(name, nodes.get(name), node)
    running_pods = [pod for pod in snapshot.pods if pod.node in plan_names]
    existing_pods = _build_existing_pods(
        running_pods, plan_names, _collect_charged_budgets(snapshot.objects)
    )
    # VMs without a node yet.
    unmatched_nodes = [node for name, node in nodes.items() if name not in registered_names]
    existing_pods += _build_new_daemons(running_pods, unmatched_nodes)
    nominated_pods = [pod for pod in snapshot.nominated_pods if pod.node in plan_names]
    # Sizes by image.
    images_by_node = {name: node.images for name, node in registered}
    # None for a node not listed.
    image_sizes = list(map(images_by_node.get, nodes))
    nodes = _set_image_values(nodes, image_sizes)
    registered_cluster = replace(
        cluster,
        nodes=tuple(nodes.values()),
        node_by_name=nodes,
        version=snapshot.version or cluster.version,
        total_size=sum_node_sizes(sizes.values()),
        new_nodes=cluster.new_nodes - registered_names,
        live_workloads=snapshot.workloads,
    )
    return ObservedCluster(
        registered_cluster,
        existing_pods=tuple(existing_pods),
        objects=tuple(
            _rename_node_of_object(manifest, plan_names) for manifest in snapshot.objects
        ),
        nominated_pods=tuple(_build_existing_pods(nominated_pods, plan_names)),
        is_complete=snapshot.is_complete,
        unknown_nodes=tuple(
            dict.fromkeys(name for name, _ in registered if name not in cluster.node_by_name)
        ),
        lost_pod_count=len(snapshot.pods) - len(running_pods),
        # "": they have no node.
        waiting_pods=tuple(_build_existing_pods(snapshot.waiting_pods, {"": ""})),
        snapshot=snapshot,
        unready_nodes=frozenset(name for name, node in registered if _has_coming_taint(node)),
        extreme_image_values=image_locality.compute_extreme_image_values(image_sizes),
        unlisted_usage=_find_unlisted_usage(snapshot),
        unmatched_vms=tuple(name for name in cluster.node_by_name if name not in registered_names),
        plan_names=plan_names,
    )


def _set_image_values(
    nodes: Mapping[str, Node], image_sizes: Sequence[Mapping[str, int] | None]
) -> dict[str, Node]:
    """Return the nodes with the scheduler's values of their images.

    They are computed from the sizes on all nodes.
    """
    image_values = image_locality.compute_image_values(image_sizes)
    return {
        name: replace(node, images=values)
        for (name, node), values in zip(nodes.items(), image_values, strict=True)
    }


def _rename_node_of_object(manifest: Manifest, names: Mapping[str, str]) -> Manifest:
    """Return an object about a node with the node's name in the plan.

    A CSINode is an example. `names` are by kubectl's names.
    """
    if manifest.kind == "CSINode" and manifest.name in names:
        return replace(manifest, name=names[manifest.name])
    spec = get_mapping(manifest.body, "spec")
    if manifest.kind in ("VolumeAttachment", "ResourceSlice") and spec.get("nodeName") in names:
        spec = {**spec, "nodeName": names[spec["nodeName"]]}
        return replace(manifest, body={**manifest.body, "spec": spec})
    return manifest


def _has_coming_taint(node: ObservedNode) -> bool:
    """Return whether a node is being deleted, or lacks a taint that its conditions lead to."""
    taint_keys = {taint.key for taint in node.taints}
    # "": it has no Ready condition.
    is_unready = node.ready not in ("", "True")
    return (
        node.is_terminating
        or (is_unready and _UNREADY_TAINTS.isdisjoint(taint_keys))
        or not taint_keys.issuperset(node.coming_taints)
    )


def _resolve_vm_name(
    node: ObservedNode, cluster: NodeCluster, removed_vms: AbstractSet[str]
) -> str:
    """Return the name of a node's VM, known by the node's name or provider id.

    Without a VM, the result is the name of the node.
    """
    for name in (node.name, node.provider_id.rpartition("/")[2]):
        vm_name = cluster.platform_names.get(name, name)
        if vm_name in cluster.node_by_name or vm_name in removed_vms:
            return vm_name
    return node.name


def _build_registered_node(name: str, planned_node: Node | None, node: ObservedNode) -> Node:
    """Return a node as registered.

    Without a VM of the plan (`planned_node`), its labels name its machine and zone.
    """
    if planned_node is None:
        machine = next((node.labels[key] for key in _MACHINE_LABELS if key in node.labels), "")
        planned_node = Node(name, machine=machine, zone=node.labels.get(ZONE, ""))
    size = node.allocatable
    return replace(
        planned_node,
        labels=node.labels,
        taints=node.taints,
        cpu=size.cpu,
        memory=size.memory,
        pods=node.pods,
        unschedulable=node.unschedulable,
        # A registered node without an amount of ephemeral storage has none, rather than
        # an unknown amount.
        other_resources={STORAGE: 0, **size.extended},
        declared_features=node.declared_features,
    )


def _collect_charged_budgets(objects: Iterable[Manifest]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the budgets already charged for the eviction of a pod.

    They are by the pod's namespace and name, and have the pod in `disruptedPods`.
    """
    budgets_by_pod: dict[tuple[str, str], tuple[str, ...]] = {}
    for manifest in objects:
        for name in get_mapping(manifest.body, "status", "disruptedPods"):
            key = (manifest.namespace, name)
            budgets_by_pod[key] = (*budgets_by_pod.get(key, ()), manifest.name)
    return budgets_by_pod


def _build_existing_pods(
    pods: Sequence[ObservedPod],
    names: Mapping[str, str],
    charged_budgets: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType({}),
) -> list[ExistingPod]:
    """Return the existing pods, numbered per workload (StatefulSets by ordinal).

    `names` maps observed names of nodes to names in the plan. `charged_budgets` are the budgets
    already charged for the eviction of a pod, by its name.
    """
    # Ages by start time: -1 for the last start, -2 for the one before it, and so on.
    times = sorted({pod.start_time for pod in pods} - {""})
    ages = {start_time: index - len(times) for index, start_time in enumerate(times)}
    next_numbers: dict[str, int] = {}  # by workload
    existing_pods: list[ExistingPod] = []
    for pod in pods:
        # "": it is terminating.
        workload = pod.workload or f"{pod.namespace}/Terminating/{pod.name}"
        number = next_numbers.get(workload, 0)
        ordinal = parse_integer(pod.name.rpartition("-")[2])
        if "/StatefulSet/" in workload and ordinal is not None:
            number = ordinal
        next_numbers[workload] = number + 1
        existing_pods.append(
            ExistingPod(
                workload=workload,
                number=number,
                node=names[pod.node],
                spec=pod.spec,
                # Without a start time: newest of all.
                age=ages.get(pod.start_time, 0),
                observed_template=pod.template,
                charged_budgets=charged_budgets.get((pod.namespace, pod.name), ()),
                condition=pod.condition,
                devices=pod.devices,
            )
        )
    return existing_pods


def _build_new_daemons(pods: Sequence[ObservedPod], nodes: Sequence[Node]) -> list[ExistingPod]:
    """Return the pods of observed DaemonSets on `nodes`, too new to be listed by kubectl.

    `pods` are the listed pods.
    """
    existing_pods: list[ExistingPod] = []
    daemons = [pod for pod in pods if "/DaemonSet/" in pod.workload]
    for workload, own_pods in group_by(daemons, lambda pod: pod.workload).items():
        # Any of them.
        spec = own_pods[-1].spec
        usable_nodes = [node for node in nodes if profile.find_node_rejection(spec, node) is None]
        # Numbers after those of `own_pods`.
        for number, node in enumerate(usable_nodes, len(own_pods)):
            existing_pods.append(ExistingPod(workload, number, node.name, spec))
    return existing_pods


def merge_observed_pods(
    existing_pods: dict[PodKey, ExistingPod],
    pods: Iterable[ExistingPod],
    nodes: Mapping[str, Node],
    is_replaced: Callable[[ExistingPod], bool] = lambda _: False,
) -> dict[str, list[ExistingPod]]:
    """Replace the pods of one cluster (`existing_pods`, from state) by the observed ones.

    Return these by workload. Further pods in state are kept: they were predicted after the
    observation. An observed pod is left out if `is_replaced` matches it. So is one evicted by a
    NoExecute taint, if state has pods of its workload.
    """
    # By workload: the node of each number.
    predicted_nodes: dict[str, dict[int, str]] = {}
    for (workload, number), pod in existing_pods.items():
        predicted_nodes.setdefault(workload, {})[number] = pod.node
    observed_pods: dict[str, list[ExistingPod]] = {}
    for pod in pods:
        if is_replaced(pod):
            continue
        seconds = taints.compute_toleration_seconds(pod.spec, nodes[pod.node])
        # Now, or after these seconds.
        is_evicted = seconds is not None and "/DaemonSet/" not in pod.workload
        if is_evicted and pod.workload in predicted_nodes:
            # State has the predicted replacement.
            continue
        observed_pods.setdefault(pod.workload, []).append(pod)
    numbered_pods: dict[str, list[ExistingPod]] = {}
    for workload, own_pods in observed_pods.items():
        numbered_pods[workload] = _assign_predicted_numbers(
            own_pods, predicted_nodes.get(workload, {})
        )
        existing_pods.update({pod.key: pod for pod in numbered_pods[workload]})
    return numbered_pods


def _assign_predicted_numbers(
    pods: Sequence[ExistingPod], predicted_nodes: Mapping[int, str]
) -> list[ExistingPod]:
    """Return the observed pods of one workload with the numbers of its pods in state.

    `predicted_nodes` are their nodes by number. A pod gets the number of a pod predicted for its
    node, another pod the lowest free number.
    """
    if "/StatefulSet/" in pods[0].workload:
        # Ordinals number these pods.
        return list(pods)
    numbers_by_node = group_by(predicted_nodes, lambda number: predicted_nodes[number])
    # None: a free number.
    numbers: list[int | None] = []
    for pod in pods:
        node_numbers = numbers_by_node.get(pod.node)
        numbers.append(node_numbers.pop(0) if node_numbers else None)
    used_numbers = set(numbers)
    free_numbers = (number for number in count() if number not in used_numbers)
    return [
        replace(pod, number=next(free_numbers) if number is None else number)
        for pod, number in zip(pods, numbers, strict=True)
    ]


def match_observed_clusters(
    external: ExternalClusters, clusters: Mapping[str, NodeCluster], objects: Iterable[VmObject]
) -> dict[str, ObservedCluster]:
    """Return the clusters listed by kubectl by id, matched to the plan.

    Mismatches become warnings.
    """
    # The plan removes the nodes of these VMs, too.
    removed_vms: set[str] = set()
    # Without snapshots there are no nodes to match.
    for vm_object in objects if external.snapshots else ():
        removed_vms |= set(vm_object.list_prior_names()) - {vm.name for vm in vm_object.list_vms()}
    result: dict[str, ObservedCluster] = {}
    for cluster_id, snapshot_block in external.snapshots.items():
        observed = match_cluster_snapshot(
            cluster_id, clusters.get(cluster_id), snapshot_block.snapshot, removed_vms
        )
        result[cluster_id] = replace(observed, attributes=snapshot_block.attributes)
        # So each node should match a VM.
        has_vms = cluster_id in clusters
        external.diagnostics += _warn_mismatches(
            snapshot_block.block, cluster_id, observed, has_vms=has_vms
        )
    return result


def _warn_mismatches(
    block: ResourceBlock, cluster_id: str, observed_cluster: ObservedCluster, *, has_vms: bool
) -> Iterator[Diagnostic]:
    """Yield warnings about nodes without a VM, and about pods on lost nodes.

    `has_vms` is True if the VMs of the cluster are known.
    """
    if has_vms and observed_cluster.unknown_nodes:
        count = len(observed_cluster.unknown_nodes)
        node_names = join_first_texts(observed_cluster.unknown_nodes)
        detail = (
            f'{count} {select_word_form(count, "node")} of the cluster "{cluster_id}" '
            f"({node_names}) {select_word_form(count, 'matches', 'match')} no VM of this "
            "configuration by name or provider id. Pods may run there; only a label can name the "
            "machine."
        )
        if not observed_cluster.plan_names.keys() - set(observed_cluster.unknown_nodes):
            detail += " No node matches: the files may show another cluster."
        yield build_warning("node-without-vm", detail, block.header_span, block=block.header)
    if observed_cluster.lost_pod_count:
        count = observed_cluster.lost_pod_count
        detail = (
            f'{count} {select_word_form(count, "pod")} of "{cluster_id}" '
            f"{select_word_form(count, 'runs', 'run')} on "
            "nodes that this plan removes or re-creates, or that are missing in the files. Pods of "
            "unmanaged workloads are not predicted."
        )
        yield build_warning("pods-on-lost-nodes", detail, block.header_span, block=block.header)


def check_unknown_clusters(
    external: ExternalClusters, clusters: Mapping[str, NodeCluster], instances: Iterable[Instance]
) -> Iterator[Diagnostic]:
    """Yield errors for data blocks with kubectl files of unknown clusters or fleet members."""
    members = [
        get_text(item.planned, "name")
        for item in instances
        if item.type.kind is PlanningKind.MEMBER
    ]
    # Clusters without a site are known from these data blocks only.
    known_ids = {
        *members,
        *(cluster_id for cluster_id, cluster in clusters.items() if cluster.site_id),
    }
    for cluster_id, snapshot_block in external.snapshots.items():
        if cluster_id not in known_ids:
            detail = (
                f'No nexus_kubernetes_cluster or tacker_vnf has the id "{cluster_id}", and no '
                f"fleet_member_cluster this name.{suggest_name(cluster_id, sorted(known_ids))}"
            )
            block = snapshot_block.block
            yield build_error("unknown-cluster", detail, block.header_span, block=block.header)


def _find_unlisted_usage(snapshot: KubectlSnapshot) -> _UsageByQuota:
    """Return the observed usage of quotas without that of the pods in the snapshot.

    {} if it lists no pods.
    """
    if not snapshot.has_pods:
        return {}
    usage = QuotaUsage(collect_resource_quotas(snapshot.objects))
    for pod in (*snapshot.pods, *snapshot.nominated_pods, *snapshot.waiting_pods):
        usage.remove(pod.spec)
    return {
        (quota.namespace, quota.name): tuple(
            (name, amount) for name, amount in quota.used if amount > 0
        )
        for quota in usage.list_quotas()
    }


def apply_observed_usage(
    quotas: Iterable[ResourceQuota], observed: ObservedCluster, managed_keys: AbstractSet[str]
) -> tuple[ResourceQuota, ...]:
    """Return quotas with their usage by pods that are not planned.

    These are pods not listed by kubectl, and listed pods without a node that belong to other
    workloads than `managed_keys`. The caller adds all other pods.
    """
    unlisted = observed.unlisted_usage
    usage = QuotaUsage(
        replace(quota, used=unlisted.get((quota.namespace, quota.name), ())) for quota in quotas
    )
    for pod in (*observed.nominated_pods, *observed.waiting_pods):
        if pod.workload not in managed_keys:
            usage.add(pod.spec)
    return usage.list_quotas()


def apply_observed_budget_status(
    budgets: Iterable[PodDisruptionBudget], observed_cluster: ObservedCluster
) -> tuple[PodDisruptionBudget, ...]:
    """Return budgets with the status observed by kubectl (readiness, scale).

    Unchanged if no status is observed.
    """
    statuses = {
        (manifest.namespace, manifest.name): manifest.body
        for manifest in select_manifests(observed_cluster.objects, "policy", "PodDisruptionBudget")
    }
    # All pods that ran at the observation, those replaced since included.
    existing_pods = (*observed_cluster.existing_pods, *observed_cluster.replaced_pods)
    return tuple(
        _apply_budget_status(
            budget, statuses.get((budget.namespace, budget.name), {}), existing_pods
        )
        for budget in budgets
    )


def _apply_budget_status(
    budget: PodDisruptionBudget,
    observed_body: Mapping[str, Any],
    existing_pods: Sequence[ExistingPod],
) -> PodDisruptionBudget:
    """Return one budget with its observed status.

    Whether enough pods are healthy, and how many fewer disruptions are allowed than computed here.
    The budget is unchanged if the plan changes its amounts.
    """
    status = get_mapping(observed_body, "status")
    spec = get_mapping(observed_body, "spec")
    amounts = [format_scalar(spec.get(name)) for name in ("minAvailable", "maxUnavailable")]
    allowed_count = status.get("disruptionsAllowed")
    if not isinstance(allowed_count, int) or amounts != [
        budget.min_available,
        budget.max_unavailable,
    ]:
        # Without a status for these amounts.
        return budget
    healthy_count = sum(
        is_pod_covered(budget, pod.spec) and not pod.spec.is_terminating for pod in existing_pods
    )
    expected_count = get_integer(status, "expectedPods", healthy_count)
    allowed_by_amounts = max(0, compute_allowed_disruptions(budget, expected_count, healthy_count))
    current = get_integer(status, "currentHealthy", 0)
    desired = get_integer(status, "desiredHealthy", 0)
    return replace(
        budget,
        withheld_disruptions=allowed_by_amounts - allowed_count,
        is_met=current >= desired > 0,
    )
