"""Doubts about a cluster snapshot: missing facts, or later changes.

Each has a warning and makes pods uncertain.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.pods.importers.csi_objects import has_unknown_storage
from nexusform.domains.pods.importers.kubectl_snapshot import (
    RESTRICTING_ANNOTATIONS,
    SYSTEM_NAMESPACE,
    KubectlSnapshot,
)
from nexusform.domains.pods.importers.kubernetes_pod_spec import parse_selector
from nexusform.domains.pods.importers.manifest_parser import Fields, Manifest, select_manifests
from nexusform.domains.pods.importers.object_needs import NAMED_KINDS
from nexusform.domains.pods.planning.cluster_observation import ExternalClusters, ObservedCluster
from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.cluster_records import Node, PodKey, PodSpec, Workload
from nexusform.domains.pods.scheduling.pod_outcomes import SCALE_OUT, TEMPLATE_CHANGED, PodOutcome
from nexusform.domains.pods.scheduling.rules.taints import find_untolerated_taint
from nexusform.domains.pods.scheduling.template_rollout import TEMPLATE_KEY
from nexusform.doubts.doubt import Doubt
from nexusform.json_data.plain_data import (
    get_list,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
)
from nexusform.kubernetes.matching import Taint, is_selected

_HOUR: Final = 3600
_UNREADY: Final = "nodes that are not ready"
# Taints that controllers remove once a node is ready: the node lifecycle controller, the cloud
# provider, and agents of networks and storage. A cordon and `out-of-service` are set by operators.
_STATUS_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_OPERATOR_TAINTS: Final = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/out-of-service")
_AGENT_TAINT: Final = "agent-not-ready"
_SCALED: Final = ("nodes-are-scaled", "It may add nodes for Pending pods, and remove others.")
_DESCHEDULED: Final = ("pods-are-descheduled", "It may evict pods, which are then placed again.")
# Agents by a part of the names of their pods: the id and the text of a warning.
_NODE_AGENTS: Final = {
    "cluster-autoscaler": _SCALED,
    "karpenter": _SCALED,
    "descheduler": _DESCHEDULED,
}
WEBHOOKS: Final = "admission webhooks"
ORPHANS: Final = "pods without a controller"
AUTOSCALER: Final = "a HorizontalPodAutoscaler"
_CHOSEN_NODES: Final = "the nodes that Azure removes"
_NAMESPACES: Final = "node selectors and tolerations of namespaces"
_ROLLOUT_STEPS: Final = "the steps of a rollout beside terminating pods"
_HOOK_KINDS: Final = (
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "MutatingAdmissionPolicy"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
)
# A policy has its rules and selectors here, a webhook configuration has a list of webhooks.
_POLICY_HOOK: Final = ("spec", "matchConstraints")
# Groups of controllers, and the reference of an autoscaler to its controller.
_GROUPS: Final = {"Pod": "", "ReplicationController": "", "Job": "batch"}
_TARGETS: Final = {"ScaledObject": "scaleTargetRef", "VerticalPodAutoscaler": "targetRef"}
_ADMISSION_KINDS: Final = (*_HOOK_KINDS, "ResourceQuota", "LimitRange")
# Controllers of pods by the kind of their workload, and kinds that change these controllers.
_CONTROLLER_KINDS: Final = {"Pod": (), "Deployment": ("Deployment", "ReplicaSet")}
_SCALER_KINDS: Final = ("HorizontalPodAutoscaler", *_TARGETS)
_VOLUME: Final = "PersistentVolume"
_CLAIM_KINDS: Final = (
    *("PersistentVolumeClaim", _VOLUME, "StorageClass"),
    *("CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
)
_DEVICE_KINDS: Final = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")


# A doubt about a snapshot, and a function that selects the pods concerned.
SnapshotDoubt: TypeAlias = tuple[Doubt, Callable[[PodOutcome], bool]]


def _build_doubt(
    assumption: str,
    finding: str,
    detail: str,
    is_affected: Callable[[PodOutcome], bool] = lambda _: True,
) -> SnapshotDoubt:
    """Build a doubt about pods, with the id and text of its warning; by default all pods."""
    return Doubt("pods", reason=assumption, finding=finding, detail=detail), is_affected


def list_snapshot_doubts(snapshot: KubectlSnapshot, now: str) -> Iterator[SnapshotDoubt]:
    """Yield the reasons why a snapshot of kubectl may differ from the cluster.

    The time of planning is in ISO 8601.
    """
    if not snapshot.nodes:
        return  # no snapshot
    yield from _list_unlisted_pods(snapshot)
    yield from _list_wrong_times(snapshot, int(datetime.fromisoformat(now).timestamp()))
    yield from _list_silent_nodes(snapshot)
    if all(node.ready not in ("", "True") for node in snapshot.nodes):
        detail = "No node is ready. The nodes may return, or lose their pods."
        yield _build_doubt(_UNREADY, "nodes-not-ready", detail)
    if snapshot.unlisted:
        detail = (
            f"{snapshot.unlisted} is not an item of a list, so the files may be of several "
            "clusters, or lack objects. Create them with "
            "`nexusform inventory script -for=kubernetes`."
        )
        yield _build_doubt("objects that were not read", "kinds-not-read", detail)
    if snapshot.duplicates:
        names = format_first_items(snapshot.duplicates, 4)
        detail = (
            f"The files list {names} more than once, with different contents or uids. "
            "The last one is used."
        )
        yield _build_doubt("objects listed twice", "several-dumps", detail)
    if has_unknown_storage(snapshot.objects):
        detail = "A CSI driver checks free storage, but the files list no CSIStorageCapacity."
        is_affected = partial(_is_dependent, kinds=frozenset({"CSIStorageCapacity"}))
        yield _build_doubt("free storage", "storage-not-listed", detail, is_affected)
    yield from _list_unlisted_volumes(snapshot)
    # Pods that name an object of the other kinds have a doubt of their own.
    kinds = frozenset(snapshot.unread_kinds) - NAMED_KINDS
    if kinds:
        detail = (
            f"These kinds were not read: {', '.join(sorted(kinds))}. Pods that depend on them are "
            "not certain. "
        )
        detail += "List all kinds with `nexusform inventory script -for=kubernetes`."
        is_affected = partial(_is_dependent, kinds=kinds)
        yield _build_doubt("objects that were not read", "kinds-not-read", detail, is_affected)
    yield from _list_unread_fields(snapshot)
    # Autoscalers of nodes and the descheduler, found by the names of their pods.
    for agent, (warning_id, effect) in _NODE_AGENTS.items():
        if any(agent in pod.workload for pod in snapshot.pods):
            detail = f"{agent} runs on the cluster. {effect}"
            # An autoscaler adds nodes for Pending pods, so only pods without a node are in doubt.
            doubt, is_any = _build_doubt(agent, warning_id, detail)
            yield doubt, (_has_no_node if warning_id == _SCALED[0] else is_any)


def _list_wrong_times(snapshot: KubectlSnapshot, now: int) -> Iterator[SnapshotDoubt]:
    """Yield the doubt if the files are old, of several times, or of the future."""
    newest = snapshot.observation_time
    node = snapshot.oldest_ready_node
    # 0 if unknown.
    oldest = newest if node is None else node.heartbeat
    if not oldest:
        return
    if newest - now > _HOUR:
        detail = (
            f"The files show the cluster as of {_format_time(newest)}, after this plan. Check the "
            "clocks."
        )
        yield _build_doubt("files of the future", "old-cluster-files", detail)
    elif node is not None and newest - oldest > _HOUR:
        detail = (
            f"The files show node {node.name} as of {_format_time(oldest)}, and another one as of "
            f"{_format_time(newest)}. Create all files again, at one time."
        )
        yield _build_doubt("files of several times", "old-cluster-files", detail)
    elif now - oldest > _HOUR:
        detail = f"The files show the cluster as of {_format_time(newest)}. Create them again."
        yield _build_doubt("files older than an hour", "old-cluster-files", detail)


def _list_silent_nodes(snapshot: KubectlSnapshot) -> Iterator[SnapshotDoubt]:
    """Yield the doubt about nodes without a heartbeat: their time and state are unknown.

    A node that is not ready has a doubt of its own.
    """
    names = [
        node.name
        for node in snapshot.nodes
        if node.ready in ("", "True") and not (node.ready and node.heartbeat)
    ]
    if names:
        detail = (
            f"The files list no Ready condition with a heartbeat for {format_first_items(names, 4)}"
            ", so the state of the nodes, and the age of the files, are unknown. Create the files "
            "with `nexusform inventory script -for=kubernetes`."
        )
        yield _build_doubt("nodes without a heartbeat", "unknown-node-state", detail)


def _format_time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M on %Y-%m-%d} (UTC)"


def describe_unlisted_pods(snapshot: KubectlSnapshot) -> str:
    """Return a clause if the files list no pods, or only pods of some namespaces.

    The result is "" otherwise, or without files.
    """
    if not snapshot.has_pods:
        return "the files list no pods" if snapshot.nodes else ""
    if not snapshot.has_some_namespaces:
        return ""
    namespaces = {pod.namespace for pod in snapshot.pods}
    if len(namespaces) == 1:
        return f"the files list pods of the namespace {namespaces.pop()} alone"
    return f"the files list no pod of the namespace {SYSTEM_NAMESPACE}"


def _list_unlisted_pods(snapshot: KubectlSnapshot) -> Iterator[SnapshotDoubt]:
    """Yield the doubts if the files lack pods, namespaces, or nodes of some pods."""
    gap = describe_unlisted_pods(snapshot)
    if gap:
        detail = f"The {gap.removeprefix('the ')}, so the free capacity of the nodes is unknown."
        yield _build_doubt("pods that were not read", "pods-not-listed", detail)
    unlisted_nodes = {pod.node for pod in snapshot.pods}.difference(
        node.name for node in snapshot.nodes
    )
    if unlisted_nodes:
        detail = (
            f"The files list pods on {format_first_items(sorted(unlisted_nodes), 4)}, but no such "
            "node."
        )
        yield _build_doubt("nodes that were not read", "nodes-not-listed", detail)


def _list_unlisted_volumes(snapshot: KubectlSnapshot) -> Iterator[SnapshotDoubt]:
    """Yield the doubt if the files lack the volume of a claim.

    The phase of a claim is Lost if its volume is gone.
    """
    volumes = {item.name for item in select_manifests(snapshot.objects, "", _VOLUME)}
    claims = {
        get_text(item.body, "spec", "volumeName"): item.name
        for item in select_manifests(snapshot.objects, "", "PersistentVolumeClaim")
        if get_text(item.body, "status", "phase") != "Lost"
    }
    unlisted = {name: claims[name] for name in claims.keys() - {"", *volumes}}
    if unlisted and _VOLUME not in snapshot.unread_kinds:
        names = [f"{volume} of claim {claim}" for volume, claim in sorted(unlisted.items())]
        detail = f"The files lack the {_VOLUME} {format_first_items(names, 4)}."
        is_affected = partial(_is_dependent, kinds=frozenset({_VOLUME}))
        yield _build_doubt("volumes that were not read", "storage-not-listed", detail, is_affected)


def _list_unread_fields(snapshot: KubectlSnapshot) -> Iterator[SnapshotDoubt]:
    """Yield the doubts by unread fields: those of storage and devices concern pods with claims."""
    claim_fields = {
        field: frozenset({field.partition(" ")[0]})
        for field in snapshot.unread_fields
        if field.partition(" ")[0] in (*_CLAIM_KINDS, *_DEVICE_KINDS)
    }
    other_fields = [field for field in snapshot.unread_fields if field not in claim_fields]
    assumption, warning_id = "fields that were not read", "fields-not-read"
    if other_fields:
        names = format_first_items(other_fields, 4)
        detail = (
            f"nexusform does not read these fields, or their values: {names}. They "
            "may change every placement."
        )
        yield _build_doubt(assumption, warning_id, detail)
    if claim_fields:
        names = format_first_items(list(claim_fields), 4)
        detail = (
            f"nexusform does not read these fields, or their values: {names}. They "
            "may move pods with claims."
        )
        is_affected = partial(_is_dependent, kinds=frozenset().union(*claim_fields.values()))
        yield _build_doubt(assumption, warning_id, detail, is_affected)


def warn_snapshot_doubts(external: ExternalClusters, now: str) -> Iterator[Diagnostic]:
    """Yield a warning for each doubt about the snapshots, at their data blocks."""
    for item in external.snapshots.values():
        for doubt, _ in list_snapshot_doubts(item.snapshot, now):
            yield build_warning(
                doubt.finding, doubt.detail, item.block.header_span, block=item.block.header
            )


def _has_no_node(outcome: PodOutcome) -> bool:
    """Return whether a pod is Pending."""
    return not outcome.node


def _is_tolerating(outcome: PodOutcome, node: Node) -> bool:
    """Return whether a pod tolerates all taints of a node."""
    return find_untolerated_taint(outcome.spec, node) is None


def _is_removed_later(taint: Taint) -> bool:
    """Return whether a controller removes a taint once its node is ready."""
    is_status = taint.key.startswith(_STATUS_TAINTS) and taint.key not in _OPERATOR_TAINTS
    return is_status or taint.key.endswith(_AGENT_TAINT)


def _may_run_later(outcome: PodOutcome, ready_node: Node) -> bool:
    """Return whether a pod without a node may get this one, once it is ready."""
    return not outcome.node and profile.find_node_rejection(outcome.spec, ready_node) is None


def _is_dependent(outcome: PodOutcome, kinds: frozenset[str]) -> bool:
    """Return whether a pod may have another outcome by objects of unread kinds."""
    spec = outcome.spec
    # A key is namespace, kind and name.
    _, kind, _ = outcome.workload.split("/", 2)
    has_namespaces = any(term.namespace_selector for term in (*spec.affinity, *spec.anti_affinity))
    # Facts about the pod, each with the kinds that matter to such pods.
    dependencies: tuple[tuple[object, tuple[str, ...]], ...] = (
        # Kinds that affect every pod.
        (True, _ADMISSION_KINDS),
        (True, _CONTROLLER_KINDS.get(kind, (kind,))),
        (kind != "Pod", _SCALER_KINDS),
        # Services spread pods.
        (outcome.feasible_nodes != 1, ("Service",)),
        (spec.claim_count, _CLAIM_KINDS),
        (spec.device_claims, _DEVICE_KINDS),
        # A Pending pod may preempt others.
        (not outcome.node, ("PriorityClass",)),
        # Budgets protect the pods evicted for it.
        (outcome.victims, ("PodDisruptionBudget",)),
        (has_namespaces, ("Namespace",)),
    )
    return any(fact and kinds.intersection(relevant_kinds) for fact, relevant_kinds in dependencies)


def find_pods_in_doubt(
    outcomes: Iterable[PodOutcome],
    workloads: Mapping[str, Workload],
    observed: ObservedCluster,
    manifests: Sequence[Manifest],
    now: str,
    *,
    has_chosen_removals: bool,
) -> dict[PodKey, Doubt]:
    """Return the doubt about each pod, by workload and number; pods without doubt have no entry.

    The first of these applies: adopted pods, an autoscaler, a rollout beside terminating pods,
    nodes that the platform chooses to remove (`has_chosen_removals`), a gap in the snapshot, a
    plugin or webhook of the admission. `manifests` are the objects on the cluster, planned ones
    included; `now` is the time of planning (ISO 8601).
    """
    outcomes = list(outcomes)
    snapshot_doubts = tuple(_list_doubts(observed, now))
    all_hooks = _list_admission_hooks(manifests)
    observed_hooks = _list_admission_hooks(observed.objects)
    new_hooks = [item for item in all_hooks if item not in observed_hooks]
    scalers = {_get_scaled_workload(item): item.kind for item in manifests if item.kind in _TARGETS}
    namespaces = select_manifests(manifests, "", "Namespace")
    namespace_labels = {item.name: item.labels for item in namespaces}
    restrictions = dict(_list_restrictions(namespaces))
    observed_counts = Counter(pod.workload for pod in observed.existing_pods)
    controller_doubts = {
        key: _find_controller_doubt(workload, observed_counts[key], scalers.get(key, ""))
        for key, workload in workloads.items()
    }
    for key in _find_rollouts_beside_terminating_pods(outcomes, workloads, observed):
        controller_doubts[key] = controller_doubts[key] or _ROLLOUT_STEPS

    def find_assumption(outcome: PodOutcome) -> str:
        """Return the first assumption behind a pod, "" for none."""
        controller_doubt = controller_doubts.get(outcome.workload, "")
        # None: no decision of the scheduler.
        if controller_doubt or outcome.feasible_nodes is None:
            return controller_doubt
        if has_chosen_removals:
            return _CHOSEN_NODES
        for doubt, is_affected in snapshot_doubts:
            if is_affected(outcome):
                return doubt.reason
        workload = workloads.get(outcome.workload)
        # It is removed by this plan.
        if workload is None:
            return ""
        # If existing pods show the changes of the installed webhooks, only webhooks of this
        # plan are unknown.
        unknown_hooks = new_hooks if workload.is_admission_known else all_hooks
        namespace = outcome.spec.namespace
        restriction = "" if workload.is_admission_known else restrictions.get(namespace, "")
        return restriction or _find_webhook_doubt(
            workload, outcome.spec, unknown_hooks, namespace_labels
        )

    doubts: dict[PodKey, Doubt] = {}
    for outcome in outcomes:
        assumption = find_assumption(outcome)
        if assumption:
            doubts.setdefault(outcome.key, Doubt("pods", reason=assumption))
    return doubts


def _list_restrictions(namespaces: Iterable[Manifest]) -> Iterator[tuple[str, str]]:
    """Yield the namespaces with annotations that restrict their pods, with the assumption.

    Plugins of the admission apply them, if the API server runs these.
    """
    for item in namespaces:
        if get_mapping(item.body, "metadata", "annotations").keys() & RESTRICTING_ANNOTATIONS:
            yield item.name, _NAMESPACES


def _find_webhook_doubt(
    workload: Workload,
    spec: PodSpec,
    unknown_hooks: Iterable[Manifest],
    namespace_labels: Mapping[str, Mapping[str, str]],
) -> str:
    """Return the assumption that no webhook changes a pod, "" if none may.

    Existing pods of a rewritten workload differ from its manifest, as if changed by a webhook.
    """
    is_changed = workload.is_rewritten or _can_be_changed(
        unknown_hooks, spec, workload.kind, namespace_labels
    )
    return WEBHOOKS if is_changed else ""


def _list_doubts(observed: ObservedCluster, now: str) -> Iterator[SnapshotDoubt]:
    """Yield the doubts about a snapshot, and about its nodes beside the VMs of the plan."""
    yield from list_snapshot_doubts(observed.snapshot, now)
    if observed.unknown_nodes and observed.unmatched_vms:
        # A node may be listed under another name, and then counts twice.
        detail = "Nodes match no VM, and VMs match no node."
        yield _build_doubt("nodes that match no VM", "node-without-vm", detail)
    cluster = observed.cluster
    for node in cluster.nodes:
        lasting_taints = tuple(taint for taint in node.taints if not _is_removed_later(taint))
        if len(lasting_taints) < len(node.taints):
            ready_node = replace(node, taints=lasting_taints)
            detail = f"Node {node.name} is not ready. Pods without a node may run there later."
            is_affected = partial(_may_run_later, ready_node=ready_node)
            yield _build_doubt(_UNREADY, "nodes-not-ready", detail, is_affected)
    created_nodes = cluster.new_nodes | cluster.recreated_nodes
    for name in sorted(set(observed.unmatched_vms) - created_nodes):
        # Its pods, labels and capacity are unknown.
        node = cluster.node_by_name[name]
        yield _build_doubt(
            "nodes that were not read",
            "nodes-not-listed",
            f"The files list no node {name}.",
            partial(_is_tolerating, node=node),
        )


def _find_controller_doubt(workload: Workload, observed_count: int, scaler_kind: str) -> str:
    """Return why a workload may not have the configured pods; "" without a reason.

    `observed_count` is the number of its live pods.
    """
    # More adopted pods than replicas: some are deleted.
    if workload.has_orphans:
        return ORPHANS
    if scaler_kind:
        return f"a {scaler_kind}"
    # With an autoscaler, the configured replicas of the next apply differ from the live ones. None
    # means that there is no autoscaler.
    is_scaled = observed_count and workload.configured_replicas not in (None, observed_count)
    return AUTOSCALER if is_scaled else ""


def _find_rollouts_beside_terminating_pods(
    outcomes: Iterable[PodOutcome], workloads: Mapping[str, Workload], observed: ObservedCluster
) -> set[str]:
    """Return the keys of workloads with more replicas, a new template and terminating pods.

    The controller first adds a pod of the old template. It deletes this pod before all others,
    unless the pod is ready in time. So the steps of the rollout, and the capacity of terminating
    pods, depend on its readiness.
    """
    triggers: dict[str, set[str]] = {}  # by workload
    for outcome in outcomes:
        triggers.setdefault(outcome.workload, set()).add(outcome.trigger)
    terminating_specs = [pod.spec for pod in observed.existing_pods if pod.spec.is_terminating]
    keys: set[str] = set()
    for key, workload in workloads.items():
        is_scaled_rollout = {SCALE_OUT, TEMPLATE_CHANGED} <= triggers.get(key, set())
        if is_scaled_rollout and any(_has_labels(spec, workload) for spec in terminating_specs):
            keys.add(key)
    return keys


def _has_labels(spec: PodSpec, workload: Workload) -> bool:
    """Return whether a pod has the namespace and labels of a workload's pods.

    It may have any template.
    """
    labels = {(name, value) for name, value in workload.pod.labels if name != TEMPLATE_KEY}
    return spec.namespace == workload.namespace and labels <= set(spec.labels)


def _get_scaled_workload(scaler: Manifest) -> str:
    """Return the key of the workload changed by an autoscaler of KEDA or VPA.

    The result is "" if its updateMode is Off.
    """
    target = get_mapping(scaler.body, "spec", _TARGETS[scaler.kind])
    is_off = get_value_at_path(scaler.body, "spec", "updatePolicy", "updateMode") == "Off"
    return (
        ""
        if is_off
        else f"{scaler.namespace}/{target.get('kind') or 'Deployment'}/{target.get('name')}"
    )


def _list_admission_hooks(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the webhooks and admission policies.

    Validating policies without a binding to deny are left out.
    """
    hooks = [item for item in manifests if item.kind in _HOOK_KINDS]
    denying_policies = {
        get_value_at_path(item.body, "spec", "policyName")
        for item in hooks
        if item.kind == "ValidatingAdmissionPolicyBinding"
        and "Deny" in get_list(item.body, "spec", "validationActions")
    }
    return [
        item
        for item in hooks
        if item.kind != "ValidatingAdmissionPolicy" or item.name in denying_policies
    ]


def _can_be_changed(
    hooks: Iterable[Manifest], spec: PodSpec, kind: str, namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """Return whether a webhook or policy may change or reject a pod or controller.

    `kind` is the kind of controller.
    """
    namespace_labels = {
        "kubernetes.io/metadata.name": spec.namespace,
        **namespaces.get(spec.namespace, {}),
    }
    return any(
        _has_matching_rule(manifest, hook, spec, kind, namespace_labels)
        for manifest in hooks
        for hook in (
            get_mapping(manifest.body, *_POLICY_HOOK),
            *list_mappings(manifest.body, "webhooks"),
        )
    )


def _has_matching_rule(
    manifest: Manifest,
    hook: Mapping[str, Any],
    spec: PodSpec,
    kind: str,
    namespace_labels: Mapping[str, str],
) -> bool:
    """Return whether a webhook or policy selects a pod, or its controller.

    The labels of the controller are unknown.
    """
    fields = Fields(manifest, [], dict(hook))
    namespace_selector = parse_selector(fields, "namespaceSelector")
    selector = parse_selector(fields, "objectSelector")
    if namespace_selector is not None and not is_selected(namespace_selector, namespace_labels):
        return False
    # Group and plural of the resources that the rules may select: the controller (if any), and the
    # pod by its labels.
    resources = {(_GROUPS.get(kind, "apps"), f"{kind.lower()}s")} - {("", "pods")}
    if selector is None or is_selected(selector, dict(spec.labels)):
        resources.add(("", "pods"))
    rules = (*list_mappings(hook, "rules"), *list_mappings(hook, "resourceRules"))
    return any(_has_rule_for(rule, *resource) for rule in rules for resource in resources)


def _has_rule_for(rule: Mapping[str, Any], group: str, resource: str) -> bool:
    """Return whether a rule of a webhook or policy selects the creation of a resource.

    The resource has a plural name and an API group. Its resources, operations and API groups must
    each have a matching word, or "*" for all.
    """
    # Of each field: its key, the words that match, and the words of a rule without the field.
    fields = (
        ("resources", {"*", "*/*", resource}, ()),
        ("operations", {"*", "CREATE"}, ("*",)),
        ("apiGroups", {"*", group}, ("",)),
    )
    for key, matching_words, default_words in fields:
        words = get_list(rule, key) or default_words
        if matching_words.isdisjoint(map(str, words)):
            return False
    return True
