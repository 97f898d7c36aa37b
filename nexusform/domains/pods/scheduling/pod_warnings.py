"""Warnings about a prediction that combine facts about pods, workers and machines.

They are about waiting and failed pods, blocked rollouts, pods on shared machines or racks, and
topology keys missing on workers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from operator import attrgetter
from typing import Final

from nexusform.diagnostics.phrases import format_list, group_by, select_word_form
from nexusform.domains.pods.scheduling import profile, workload_warnings
from nexusform.domains.pods.scheduling.cluster_records import (
    HOSTNAME,
    Cluster,
    ExistingPod,
    Node,
    PodState,
)
from nexusform.domains.pods.scheduling.pending_reasons import (
    describe_missing,
    describe_unmet,
    format_pending_message,
)
from nexusform.domains.pods.scheduling.pod_outcomes import (
    NO_EXECUTE,
    PodOutcome,
    PodsPrediction,
    describe_condition,
)
from nexusform.domains.pods.scheduling.pod_spec_scheduler import FeasibleNodesCache
from nexusform.domains.pods.scheduling.rules import taints
from nexusform.domains.pods.scheduling.scheduler_cache import SchedulerCache
from nexusform.domains.pods.scheduling.template_rollout import TEMPLATE_KEY, SurgeCapacityCheck
from nexusform.domains.pods.scheduling.workload_warnings import (
    WorkloadContext,
    WorkloadWarning,
    format_names,
)
from nexusform.kubernetes.matching import is_selected

# Default volume limit of a node in Kubernetes. Source:
# pkg/scheduler/framework/plugins/nodevolumelimits (DefaultMaxAzureDiskVolumes, GCE's is the same).
_DEFAULT_VOLUME_LIMIT: Final = 16


def collect_pod_warnings(
    cluster: Cluster, prediction: PodsPrediction
) -> tuple[WorkloadWarning, ...]:
    """Return every warning about a prediction, workload by workload."""
    cache = SchedulerCache(cluster)
    feasibility_cache = FeasibleNodesCache(cluster.nodes)
    node_by_name = cluster.node_by_name
    outcomes_by_workload = group_by(prediction.outcomes, lambda outcome: outcome.workload)
    existing_pods = prediction.list_existing_pods()
    next_rollout = SurgeCapacityCheck(cluster, existing_pods)
    # Number of volume claims.
    claims_by_node: Counter[str] = Counter()
    for pod in existing_pods:
        claims_by_node[pod.node] += pod.spec.claim_count
    warnings: list[WorkloadWarning] = []
    for key, forecast in prediction.forecasts.items():
        # By index of the node.
        feasible_indices = feasibility_cache.get_feasible_nodes(forecast.workload.pod).points
        outcomes = tuple(outcomes_by_workload.get(key, ()))
        context = WorkloadContext(
            cluster=cluster,
            cache=cache,
            nodes=tuple(cluster.nodes[index] for index in feasible_indices),
            node_by_name=node_by_name,
            workload=forecast.workload,
            forecast=forecast,
            outcomes=outcomes,
            next_rollout=next_rollout,
            running_outcomes=tuple(outcome for outcome in outcomes if outcome.node),
            claims_by_node=claims_by_node,
        )
        warnings += chain.from_iterable(rule(context) for rule in _RULES)
    return tuple(warnings)


def _warn_too_many_replicas(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for more replicas than a required anti-affinity among them allows."""
    replicas = context.workload.replicas
    if context.workload.kind == "DaemonSet":
        # It has no replicas, but one pod per node.
        return
    for term in context.select_own_terms(context.workload.pod.anti_affinity):
        domain_count = _count_topology_domains(context, term.topology_key)
        # 0: there is no feasible worker.
        if replicas > domain_count > 0:
            detail = (
                f"{replicas} replicas must not share a {term.topology_key}, but its workers have "
                f"only {domain_count}: at most {domain_count} can run. Use fewer replicas, add "
                "nodes, or make the rule preferred."
            )
            summary = (
                f"{replicas} replicas must not share a {term.topology_key}; its workers have "
                f"{domain_count}"
            )
            yield context.build_warning(workload_warnings.TOO_MANY, detail, summary=summary)
            # One term explains it.
            return


def _warn_rollout_deadlock(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning if the next rolling update would be blocked.

    Anti-affinity or missing capacity for surge would block it.
    """
    workload = context.workload
    if not workload.has_rolling_update or workload.max_unavailable or not workload.replicas:
        # No rollout by steps, or an old pod may stop first, or there are no pods.
        return
    # Labels of the pods of the previous template: only the hash of the template is another one.
    old_labels = {**dict(workload.pod.labels), TEMPLATE_KEY: "another"}
    for term in context.select_own_terms(workload.pod.anti_affinity):
        domain_count = _count_topology_domains(context, term.topology_key)
        if workload.replicas < domain_count or not is_selected(term.selector, old_labels):
            # A value of the key is free for a new pod, or may be shared with an old one.
            continue
        detail = (
            f"the next change of its template will hang. Its {workload.replicas} replicas use "
            f"every value of {term.topology_key} ({domain_count}), and a new pod must not share "
            f"one with an old pod. maxUnavailable ({workload.max_unavailable_text} of "
            f"{workload.replicas}) rounds down to 0, so no pod may stop first. Set maxUnavailable: "
            f"1, or add matchLabelKeys: [{TEMPLATE_KEY}] to the term."
        )
        summary = (
            f"its next change hangs: its {workload.replicas} replicas use every "
            f"{term.topology_key}, and none may stop first; set maxUnavailable: 1"
        )
        yield context.build_warning(workload_warnings.DEADLOCK, detail, summary=summary)
        # One term explains it.
        return
    yield from _warn_no_surge_capacity(context)


def _warn_no_surge_capacity(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning if there is no capacity for one more pod, and max unavailable is 0.

    The caller checks both conditions.
    """
    workload = context.workload
    if len(context.running_outcomes) < workload.replicas or context.forecast.is_blocked:
        # Other warnings cover missing pods and a rollout in this plan.
        return
    obstacle = context.next_rollout.find_obstacle(workload)
    if obstacle:
        detail = (
            "the next change of its template will hang. A new pod must run before an old one may "
            f"stop: maxUnavailable ({workload.max_unavailable_text} of {workload.replicas}) rounds "
            f"down to 0. There is no capacity for one more pod: {obstacle}. Set maxUnavailable: 1, "
            "or add capacity."
        )
        summary = (
            "its next change hangs: no capacity for one more pod, and none may stop first; set "
            "maxUnavailable: 1"
        )
        yield context.build_warning(workload_warnings.DEADLOCK, detail, summary=summary)


def _count_topology_domains(context: WorkloadContext, key: str) -> float:
    """Return the number of values of the key.

    Infinity if a worker lacks it and so takes any number of pods.
    """
    values = {node.labels.get(key) for node in context.nodes}
    return inf if None in values else len(values)


def _warn_blocked_rollout(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for a blocked rollout, by its cause.

    The cause is new pods that are without a node, uncreated or not ready.
    """
    if not context.forecast.is_blocked:
        return
    waiting_pods = context.pending_pods
    if waiting_pods:
        former_pods = _select_former_pods(context, waiting_pods)
        # All are former.
        new_pods = [
            outcome for outcome in waiting_pods if outcome not in former_pods
        ] or waiting_pods
        effect = "cannot be placed while the old pods run"
        if context.workload.kind == "DaemonSet" and not context.workload.allows_daemon_surge:
            # The old pod of its node is deleted first.
            effect = "cannot be placed, so the other old pods stay"
        detail = (
            f"its new pods ({_format_names(new_pods)}) {effect}: "
            f"{new_pods[0].reason}{_describe_former_pods(context, former_pods)}"
        )
        pods = f"{len(new_pods):,} new {select_word_form(len(new_pods), 'pod')}"
        summary = f"{pods} {effect}: {_find_main_reason(context, new_pods[0])}"
        yield context.build_warning(workload_warnings.STUCK, detail, summary=summary)
    elif context.forecast.uncreated:
        count = context.forecast.uncreated
        pods = f"{count:,} new {select_word_form(count, 'pod')}"
        detail = (
            f"{pods} would not be created while the old pods run: {context.forecast.rejection}."
        )
        yield context.build_warning(workload_warnings.STUCK, detail)
    else:
        detail = "its rollout hangs: its new pods do not become ready, so the other old pods stay."
        yield context.build_warning(workload_warnings.STUCK, detail)


def _select_former_pods(context: WorkloadContext, pods: Iterable[PodOutcome]) -> list[PodOutcome]:
    """Return the pods of a former template of their workload."""
    return [pod for pod in pods if not context.workload.is_current(pod.spec)]


def _describe_former_pods(context: WorkloadContext, pods: Sequence[PodOutcome]) -> str:
    """Return the outcome of Pending pods of a former template, and the required action.

    The result is "" without such pods.
    """
    if not pods:
        return ""
    count = len(pods)
    if context.workload.kind == "Deployment":
        subject = (
            f"{count:,} {select_word_form(count, 'pod')} of the old template "
            f"({_format_names(pods)})"
        )
        verb = select_word_form(count, "waits", "wait")
        return f" {subject} {verb} on: the Deployment deletes none of them before a new pod runs."
    return (
        f" {pods[0].name} has the old template. An ordered StatefulSet replaces no pod before it "
        f"runs; delete it (kubectl delete pod -n {context.workload.namespace} {pods[0].name})."
    )


def _warn_stuck_pods(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for observed pods stuck before readiness."""
    workload = context.workload
    stuck_pods = [
        outcome
        for outcome in context.outcomes
        if outcome.node and describe_condition(outcome.condition)
    ]
    if not stuck_pods:
        # All are ready or starting.
        return
    texts = [describe_condition(outcome.condition) for outcome in stuck_pods]
    detail = (
        f"{len(texts)} of its pods {select_word_form(len(texts), 'is', 'are')} not ready: "
        f"{format_names(texts)}."
    )
    former_pods = _select_former_pods(context, stuck_pods)
    if workload.is_ordered and former_pods:
        name = former_pods[0].condition.name or former_pods[0].name
        detail += (
            " Its controller waits for this pod and never gives it the new template "
            "(OrderedReady). Delete it "
            f"after the apply: kubectl delete pod {name} -n {workload.namespace}"
        )
    yield context.build_warning(workload_warnings.STUCK_PODS, detail, summary=format_names(texts))


def _warn_pending_pods(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for Pending pods; the warning about a blocked rollout covers its own."""
    waiting_pods = context.pending_pods
    if not waiting_pods or context.forecast.is_blocked:
        # None, or reported with the rollout.
        return
    share = f"{len(waiting_pods):,} of {context.forecast.replicas:,} pods"
    detail = f"{share} ({_format_names(waiting_pods)}) would stay Pending: {waiting_pods[0].reason}"
    summary = f"{len(waiting_pods):,} Pending: {_find_main_reason(context, waiting_pods[0])}"
    yield context.build_warning(workload_warnings.PENDING, detail, summary=summary)


def _format_names(pods: Iterable[PodOutcome | ExistingPod]) -> str:
    return format_names([pod.name for pod in pods])


def _find_main_reason(context: WorkloadContext, pod: PodOutcome) -> str:
    """Return the requirements unmet on every node, else other reasons.

    The other reasons are one about the pod alone, else those of nodes.
    """
    unmet = describe_unmet(context.workload.pod, context.cluster.nodes).strip()
    if unmet:
        return unmet
    for rejection in pod.rejections:
        if profile.is_pod_rejection(rejection):
            return rejection.reason
    node_counts = Counter(rejection.reason for rejection in pod.rejections)
    return (
        "; ".join(f"{count:,} {reason}" for reason, count in node_counts.most_common())
        or pod.reason
    )


def _warn_failed_and_gated_pods(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield warnings for pods rejected by kubelet or with scheduling gates.

    Each has the first reason.
    """
    for state, kind, detail_text, summary_text in (
        (PodState.FAILED, workload_warnings.FAILED, "Failed, rejected by kubelet", "Failed"),
        (PodState.GATED, workload_warnings.GATED, "SchedulingGated:", "SchedulingGated:"),
    ):
        pods = [outcome for outcome in context.outcomes if outcome.state is state]
        if pods:
            share = f"{len(pods):,} of {context.forecast.replicas:,} pods"
            reason = pods[0].reason
            detail = f"{share} ({_format_names(pods)}) would be {detail_text} {reason}"
            yield context.build_warning(
                kind, detail, summary=f"{share} would be {summary_text} {reason}"
            )


def _warn_uncreated_pods(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for uncreated pods.

    There is none if the warning about a blocked rollout covers them.
    """
    count = context.forecast.uncreated
    replicas = context.forecast.replicas
    # An ordered StatefulSet creates no pod after a Pending one. The warning about its rollout
    # covers the Pending one.
    is_ordered_wait = context.workload.is_ordered and bool(context.pending_pods)
    if count and (is_ordered_wait or not context.forecast.is_blocked):
        # The replicas of a DaemonSet are its pods, uncreated ones excluded.
        expected_count = count + replicas if context.workload.kind == "DaemonSet" else replicas
        detail = (
            f"{count:,} of {expected_count:,} pods would not be created: "
            f"{context.forecast.rejection}."
        )
        yield context.build_warning(workload_warnings.NOT_MADE, detail)


def _warn_daemon_without_node(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for a DaemonSet permitted on no node."""
    if (
        context.workload.kind != "DaemonSet"
        or context.forecast.replicas
        or context.forecast.uncreated
    ):
        # Some nodes are permitted, or a quota or admission rejects the pods.
        return
    nodes = context.cluster.nodes
    pod = context.workload.pod
    rejections = filter(None, [profile.find_node_rejection(pod, node) for node in nodes])
    reason = format_pending_message(rejections, len(nodes))
    detail = f"it would get no pod: {reason}{describe_missing(pod, nodes)}"
    yield context.build_warning(workload_warnings.NOWHERE, detail)


def _warn_unknown_volume_limits(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for nodes with many volumes: the limits of CSI drivers are unknown."""
    if not context.workload.pod.claim_count or context.cluster.attach_limits.maximums:
        # It has no volumes, or the limits are known (CSINode).
        return
    counts = {
        outcome.node: context.claims_by_node[outcome.node] for outcome in context.running_outcomes
    }
    crowded_nodes = sorted(node for node, count in counts.items() if count > _DEFAULT_VOLUME_LIMIT)
    if not crowded_nodes:
        return
    maximum = max(counts[node] for node in crowded_nodes)
    detail = (
        f"{maximum} claims have their volumes on one node ({format_names(crowded_nodes)}). The "
        "limit of its CSI driver is unknown; beyond it, pods stay Pending. Show the limit: kubectl "
        "get csinode -o yaml"
    )
    summary = f"{maximum} volumes on one node; the limit of its CSI driver is unknown"
    yield context.build_warning(workload_warnings.VOLUMES, detail, summary=summary)


def _warn_volume_on_several_nodes(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for pods on several nodes with one ReadWriteOnce volume.

    kube-scheduler does not check this.
    """
    claims = context.workload.pod.single_node_claims
    nodes = sorted({outcome.node for outcome in context.running_outcomes})
    if not claims or len(nodes) < 2:
        return
    detail = (
        f"its pods on {len(nodes)} nodes ({format_names(nodes)}) mount the ReadWriteOnce claim "
        f"{format_list(claims)}. Its volume is attached to one of them, so the other pods stay in "
        "ContainerCreating, unless its CSI driver has attachRequired: false. Use ReadWriteMany, "
        "one replica, or a StatefulSet with volumeClaimTemplates."
    )
    summary = f"pods on {len(nodes)} nodes mount the ReadWriteOnce claim {format_list(claims)}"
    yield context.build_warning(workload_warnings.VOLUME_ON_NODES, detail, summary=summary)


def _warn_preemption(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for pods of lower priority evicted for pods of the workload."""
    preemptors = [outcome for outcome in context.outcomes if outcome.victims]
    if not preemptors:
        return
    victims = list(chain.from_iterable(preemptor.victims for preemptor in preemptors))
    texts = [f"{preemptor.name} ({_format_names(preemptor.victims)})" for preemptor in preemptors]
    priority = context.workload.pod.priority
    count = f"{len(victims)} {select_word_form(len(victims), 'pod')}"
    detail = (
        f"its pods (priority {priority}) fit on no node, so {count} of lower priority "
        f"{select_word_form(len(victims), 'is', 'are')} evicted: {format_names(texts)}. With "
        "preemptionPolicy: Never its pods would wait."
    )
    if any(not preemptor.is_certain for preemptor in preemptors):
        detail += " This is one possible outcome: Kubernetes breaks ties at random."
    summary = f"evicts {_format_names(victims)}"
    yield context.build_warning(workload_warnings.PREEMPTS, detail, summary=summary)


def _warn_no_execute_evictions(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning for pods of the workload evicted by NoExecute taints."""
    evicted_pods = [outcome for outcome in context.outcomes if outcome.trigger == NO_EXECUTE]
    if evicted_pods:
        count = (
            f"{len(evicted_pods):,} of its pods {select_word_form(len(evicted_pods), 'is', 'are')}"
        )
        summary = (
            f"{count} evicted by NoExecute taints: "
            f"{_format_evictions(evicted_pods, context.node_by_name)}"
        )
        detail = (
            f"{summary}. Replacement pods are scheduled again. Add a toleration of the taint to "
            "keep them."
        )
        yield context.build_warning(workload_warnings.NO_EXECUTE_EVICTS, detail, summary=summary)


def list_displaced_warnings(
    cluster: Cluster, displaced_outcomes: Iterable[PodOutcome]
) -> Iterator[WorkloadWarning]:
    """Yield warnings for unmanaged pods evicted by a NoExecute taint, workload by workload."""
    node_by_name = cluster.node_by_name
    evicted_outcomes = [outcome for outcome in displaced_outcomes if outcome.trigger == NO_EXECUTE]
    for workload, evicted_pods in group_by(
        evicted_outcomes, lambda outcome: outcome.workload
    ).items():
        namespace, kind, name = workload.split("/", 2)
        count = len(evicted_pods)
        subject = (
            f"{count:,} {select_word_form(count, 'pod')} {select_word_form(count, 'is', 'are')}"
        )
        summary = (
            f"{subject} evicted by NoExecute taints: "
            f"{_format_evictions(evicted_pods, node_by_name)}"
        )
        targets = format_names([evicted_pod.node or "nowhere" for evicted_pod in evicted_pods])
        detail = (
            f"{kind} {namespace}/{name} (not managed by this plan): {summary}. Replacement pods: "
            f"{targets}."
        )
        yield WorkloadWarning(
            workload_warnings.NO_EXECUTE_EVICTS, workload, detail, f"{namespace}/{name}: {summary}"
        )


def _format_evictions(evicted_pods: Iterable[PodOutcome], nodes: Mapping[str, Node]) -> str:
    """Format pods, the taints that evict them, and the delay.

    The format is `web-0 from n1 (maintenance:NoExecute, after 60 s)`.
    """
    texts = []
    for outcome in evicted_pods:
        text = f"{outcome.name} from {outcome.previous}"
        node = nodes.get(outcome.previous)
        if node is not None:
            causes = list(map(taints.format_taint, taints.list_evicting_taints(outcome.spec, node)))
            seconds = taints.compute_toleration_seconds(outcome.spec, node)
            # With 0 seconds it is at once.
            if seconds:
                causes.append(f"after {seconds} s")
            text += f" ({', '.join(causes)})"
        texts.append(text)
    return format_names(texts)


# Label of Tacker's workers with their machine.
_TACKER_KEY: Final = "CIS-node"
# Preferred label keys to identify machines.
_KNOWN_HARDWARE_KEYS: Final = (
    "topology.kubernetes.io/baremetalmachine",
    _TACKER_KEY,
    "kubernetes.io/zone",
)


def find_shared_hardware(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield warnings about pods on one machine; if there are none, about all pods in one rack."""
    if context.workload.kind == "DaemonSet" or len(context.running_outcomes) < 2:
        # Its pods follow the nodes, or it has no second pod to protect.
        return
    machine_warnings = list(_warn_shared_machines(context))
    yield from machine_warnings
    if not machine_warnings:
        rack_warnings = list(_warn_shared_rack(context))
        yield from rack_warnings or _warn_missing_anti_affinity(context)


def _warn_shared_machines(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield one warning for each machine with two or more of the pods."""
    required_keys, preferred_keys = _list_own_topology_keys(context)
    machine_label = find_location_label_key(
        context.nodes, attrgetter("machine"), required_keys + preferred_keys
    )
    for machine, count in sorted(context.forecast.per_machine.items()):
        if count < 2:
            continue
        machine_pods = [
            pod
            for pod in context.running_outcomes
            if context.node_by_name[pod.node].machine == machine
        ]
        nodes = sorted({pod.node for pod in machine_pods})
        workers = f"{len(nodes):,} {select_word_form(len(nodes), 'worker')} {format_names(nodes)}"
        detail = (
            f"{count:,} of {len(context.running_outcomes):,} pods ({_format_names(machine_pods)}) "
            "would run on "
            f"machine {machine} ({workers}). Losing the machine stops them. "
            f"{_explain_shared_hardware(context, machine_label, 'machines')}"
        )
        summary = (
            f"{count:,} of {len(context.running_outcomes):,} pods would be lost with machine "
            f"{machine}"
        )
        yield context.build_warning(
            workload_warnings.SHARED_MACHINE, detail, location=machine, summary=summary
        )


def _warn_shared_rack(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning if all pods are in one rack, although another could take some.

    Workers of the other rack have capacity.
    """
    racks = {node.rack for node in context.nodes if node.rack}
    racks_known = all(
        context.node_by_name[outcome.node].rack for outcome in context.running_outcomes
    )
    if len(context.forecast.per_rack) != 1 or len(racks) < 2 or not racks_known:
        # The pods are in several or unknown racks, or there is no other rack to use.
        return
    (rack,) = context.forecast.per_rack
    required_keys, preferred_keys = _list_own_topology_keys(context)
    rack_label = find_location_label_key(
        context.nodes, attrgetter("rack"), required_keys + preferred_keys
    )
    count = len(context.running_outcomes)
    detail = (
        f"all {count:,} pods ({_format_names(context.running_outcomes)}) would run in rack "
        f"{rack}, but workers of "
        f"{len(racks)} racks have capacity. "
        f"{_explain_shared_hardware(context, rack_label, 'racks')}"
    )
    summary = f"all {count:,} pods would be lost with rack {rack}; {len(racks)} racks have capacity"
    yield context.build_warning(
        workload_warnings.SHARED_RACK, detail, location=rack, summary=summary
    )


def _warn_missing_anti_affinity(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning if nothing separates the pods on workers of Tacker.

    Tacker's hardware-aware affinity needs a rule in the object file.
    """
    has_label = any(_TACKER_KEY in dict(node.labels) for node in context.nodes)
    if not has_label or any(_list_own_topology_keys(context)):
        return
    count = len(context.running_outcomes)
    detail = (
        f"nothing in the object file separates its {count:,} pods. They run on several machines, "
        "but a later pod may join another one. Tacker's hardware-aware affinity needs a "
        f"podAntiAffinity with topologyKey: {_TACKER_KEY}."
    )
    summary = f"no anti-affinity over {_TACKER_KEY}"
    yield context.build_warning(workload_warnings.NO_ANTI_AFFINITY, detail, summary=summary)


def find_location_label_key(
    nodes: Sequence[Node], get_location: Callable[[Node], str], used_keys: Sequence[str] = ()
) -> str:
    """Return a label key of the nodes with one value per location, and one location per value.

    The result is "" for none.
    """
    # Nodes with a known location.
    located_nodes = [node for node in nodes if get_location(node)]
    if not located_nodes:
        return ""
    locations = list(map(get_location, located_nodes))
    candidate_keys = set.intersection(*(set(node.labels) for node in located_nodes)) - {HOSTNAME}
    # With one value per location, and one location per value.
    keys = []
    for key in sorted(candidate_keys):
        values = [node.labels[key] for node in located_nodes]
        if len(set(zip(values, locations, strict=True))) == len(set(values)) == len(set(locations)):
            keys.append(key)
    preferred_keys = [key for key in (*used_keys, *_KNOWN_HARDWARE_KEYS) if key in keys]
    # The first one.
    return next(iter(preferred_keys + keys), "")


def _list_own_topology_keys(context: WorkloadContext) -> tuple[list[str], list[str]]:
    """Return the topology keys by which a workload separates its own pods.

    Required and preferred rules both count.
    """
    pod = context.workload.pod
    labels = dict(pod.labels)
    required_keys = [term.topology_key for term in context.select_own_terms(pod.anti_affinity)]
    preferred_keys = [
        term.topology_key for term in context.select_own_terms(pod.preferred_anti_affinity)
    ]
    for constraint in pod.spread:
        if is_selected(constraint.selector, labels):
            keys = required_keys if constraint.is_hard else preferred_keys
            keys.append(constraint.topology_key)
    return list(dict.fromkeys(required_keys)), list(dict.fromkeys(preferred_keys))


def _explain_shared_hardware(
    context: WorkloadContext, proposed_label: str, location_noun: str
) -> str:
    """Return why the rules of a workload do not separate its pods and how to fix it.

    `location_noun` is machines or racks. `proposed_label` is a label of nodes with one value per
    location, "" if there is none.
    """
    required_keys, preferred_keys = _list_own_topology_keys(context)
    # Nodes may lack the key.
    domains = {node.labels.get(proposed_label) for node in context.nodes} - {None}
    if proposed_label and len(domains) < context.workload.replicas:
        locations = f"{len(domains)} {location_noun}"
        return _explain_too_few(context, proposed_label, locations, has_one_value=len(domains) == 1)
    if proposed_label in required_keys:
        return (
            f"Its rule over {proposed_label} allows that. Use anti-affinity over it to separate "
            "them."
        )
    if proposed_label in preferred_keys:
        return f"Its rule over {proposed_label} is only preferred. Make it required."
    keys = required_keys + preferred_keys
    if keys:
        negation = select_word_form(len(keys), "does not", "do not")
        cause = f"Its rules use {' and '.join(keys)}, which {negation} distinguish {location_noun}"
    else:
        cause = "It has no rule that separates its pods"
    if proposed_label:
        return f"{cause}. Use topologyKey: {proposed_label}."
    return (
        f"{cause}, and no label of its workers distinguishes {location_noun}. Add hardware labels "
        "to the workers."
    )


def _explain_too_few(
    context: WorkloadContext, proposed_label: str, counted_locations: str, *, has_one_value: bool
) -> str:
    """Return the advice for a label with fewer values than pods.

    `counted_locations` are its values ("2 racks"). `has_one_value` means that all workers have the
    same value. Anti-affinity is never advised: it would leave pods Pending.
    """
    required_keys, preferred_keys = _list_own_topology_keys(context)
    if has_one_value and proposed_label in preferred_keys:
        return (
            f"Its rule over {proposed_label} is only preferred, but all its workers are there. "
            "Add workers elsewhere."
        )
    if has_one_value:
        rule_text = (
            ""
            if proposed_label in required_keys
            else f" and a rule with topologyKey: {proposed_label}"
        )
        return (
            "All its workers are there, so no rule can separate its pods. Add workers "
            f"elsewhere{rule_text}."
        )
    text = (
        f"Its workers run on {counted_locations}, fewer than its {context.workload.replicas:,} pods"
    )
    if proposed_label in required_keys:
        return f"{text}: some must share."
    requirement = " required" if proposed_label in preferred_keys else ""
    return (
        f"{text}. Add a{requirement} topologySpreadConstraint with topologyKey: {proposed_label}."
    )


def find_missing_topology_labels(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield warnings about topology keys of rules missing on feasible workers.

    The keys are missing on all of them, or for anti-affinity on some.
    """
    # A label of the workers with one value per physical machine, "" without one.
    proposed_label = find_location_label_key(context.nodes, attrgetter("machine"))
    # Every topology key of a spec with its use, each pair once.
    pod = context.workload.pod
    preferred_terms = (*pod.preferred_affinity, *pod.preferred_anti_affinity)
    uses = [(term.topology_key, _ANTI_AFFINITY) for term in pod.anti_affinity]
    uses += [(term.topology_key, _AFFINITY) for term in pod.affinity]
    uses += [
        (constraint.topology_key, _SPREAD if constraint.is_hard else _PREFERENCE)
        for constraint in pod.spread
    ]
    uses += [(term.topology_key, _PREFERENCE) for term in preferred_terms]
    for key, use in dict.fromkeys(uses):
        unlabelled_nodes = tuple(node.name for node in context.nodes if key not in node.labels)
        if not unlabelled_nodes:
            # All workers have the label.
            continue
        if len(unlabelled_nodes) == len(context.nodes):
            hint = (
                "" if proposed_label in ("", key) else f" Workers have the label {proposed_label}."
            )
            detail = f"no feasible worker has the label {key}: {_EFFECTS[use]}.{hint}"
            summary = f"{_RULES_OVER_KEYS[use]} uses {key}, which no worker has"
            yield context.build_warning(workload_warnings.UNKNOWN_KEY, detail, summary=summary)
        elif use == _ANTI_AFFINITY:
            count = len(unlabelled_nodes)
            workers = select_word_form(count, "worker")
            verb = select_word_form(count, "lacks", "lack")
            detail = (
                f"{count:,} {workers} {format_names(unlabelled_nodes)} {verb} the label {key}, so "
                "the required anti-affinity over it has no effect there. Label all workers."
            )
            summary = f"{count:,} {workers} {verb} the label {key} of its anti-affinity"
            yield context.build_warning(workload_warnings.UNLABELLED, detail, summary=summary)


_ANTI_AFFINITY = "anti-affinity"
_AFFINITY = "affinity"
_SPREAD = "spread"
_PREFERENCE = "wish"
_EFFECTS: Final = {
    _ANTI_AFFINITY: "the required anti-affinity over it rejects no node, so pods are not separated",
    _AFFINITY: "the required affinity over it cannot hold, and the pods stay Pending",
    _SPREAD: "the spread constraint over it rejects every worker, and the pods stay Pending",
    _PREFERENCE: "the preference over it has no effect",
}
_RULES_OVER_KEYS: Final = {
    _ANTI_AFFINITY: "its required anti-affinity",
    _AFFINITY: "its required affinity",
    _SPREAD: "its spread constraint",
    _PREFERENCE: "its preference",
}


_RULES: Final = (
    find_shared_hardware,
    find_missing_topology_labels,
    _warn_too_many_replicas,
    _warn_rollout_deadlock,
    _warn_blocked_rollout,
    _warn_stuck_pods,
    _warn_pending_pods,
    _warn_failed_and_gated_pods,
    _warn_uncreated_pods,
    _warn_daemon_without_node,
    _warn_unknown_volume_limits,
    _warn_volume_on_several_nodes,
    _warn_preemption,
    _warn_no_execute_evictions,
)
