"""What only somebody who knows pods, workers and servers can say: findings as data.

A prediction in, warnings out; nothing here changes where a pod goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.board import Board
from nexusform.domains.pods.scheduling.forecast import NO_EXECUTE, PodOutcome, Prediction
from nexusform.domains.pods.scheduling.hardware_risks import missing_labels, shared_hardware
from nexusform.domains.pods.scheduling.pending import lacking, message, missing
from nexusform.domains.pods.scheduling.risks import (
    DEADLOCK,
    FAILED,
    GATED,
    NO_EXECUTE_EVICTS,
    NOT_MADE,
    NOWHERE,
    PENDING,
    PREEMPTS,
    STUCK,
    TOO_MANY,
    VOLUMES,
    PodWarning,
    Scene,
    few,
)
from nexusform.domains.pods.scheduling.rollouts import TEMPLATE_KEY, NextRollout
from nexusform.domains.pods.scheduling.rules import taints
from nexusform.domains.pods.scheduling.run import Statics
from nexusform.domains.pods.scheduling.workloads import (
    Cluster,
    Node,
    PodSpec,
    StandingPod,
    Strategy,
    Workload,
)
from nexusform.kubernetes.matching import LabelSelector, matches
from nexusform.scheduling.decision import Refusal
from nexusform.words import first_of, form

# What Kubernetes takes for the limit of a node where its cloud provider names none.
# Source: pkg/scheduler/framework/plugins/nodevolumelimits (DefaultMaxAzureDiskVolumes, GCE's is the same).
_USUAL_LIMIT: Final = 16
_MOST_NAMES: Final = 5


def warnings_of(cluster: Cluster, prediction: Prediction) -> tuple[PodWarning, ...]:
    """Every warning about a prediction, workload by workload in its order."""
    board, statics = Board(cluster), Statics(cluster.nodes)
    by_name = {node.name: node for node in cluster.nodes}
    by_workload: dict[str, list[PodOutcome]] = {}
    for outcome in prediction.outcomes:
        by_workload.setdefault(outcome.workload, []).append(outcome)
    standing = prediction.standing()
    next_rollout = NextRollout(cluster, standing)
    claims_by_node: Counter[str] = Counter()
    for pod in standing:
        claims_by_node[pod.node] += pod.spec.claimed
    warnings: list[PodWarning] = []
    for key, forecast in prediction.forecasts.items():
        nodes = tuple(cluster.nodes[at] for at in statics.of(forecast.workload.pod).points)
        outcomes = tuple(by_workload.get(key, ()))
        running = tuple(outcome for outcome in outcomes if outcome.node)
        scene = Scene(
            cluster,
            board,
            nodes,
            by_name,
            forecast.workload,
            forecast,
            outcomes,
            next_rollout,
            running,
            claims_by_node,
        )
        for rule in _RULES:
            warnings += rule(scene)
    return tuple(warnings)


# --- rollouts and what cannot be met -------------------------------------------------------------


def _too_many(scene: Scene) -> Iterator[PodWarning]:
    """More replicas than a required anti-affinity lets run."""
    replicas = scene.workload.replicas
    if scene.workload.kind == "DaemonSet":
        return
    for term in scene.about_itself(scene.workload.pod.anti_affinity):
        domains = _domains(scene, term.topology_key)
        if domains is not None and replicas > domains > 0:
            detail = (
                f"{replicas} replicas must not share a {term.topology_key}, and its workers have {domains}: "
                f"at most {domains} can run. Use fewer replicas, add hardware, or make the rule preferred."
            )
            brief = f"{replicas} replicas must not share a {term.topology_key}; its workers have {domains}"
            yield scene.warn(TOO_MANY, detail, brief=brief)
            return


def _deadlock(scene: Scene) -> Iterator[PodWarning]:
    """A rolling update that cannot go on, as new pods may not join old ones, or find no room beside them."""
    workload = scene.workload
    if workload.kind != "Deployment" or workload.strategy is not Strategy.ROLLING:
        return
    if workload.max_unavailable or not workload.replicas:
        return
    for term in scene.about_itself(workload.pod.anti_affinity):
        domains = _domains(scene, term.topology_key)
        every_domain_taken = domains is not None and workload.replicas >= domains
        if not every_domain_taken or not _meets_old_pods(term.selector, workload):
            continue
        detail = (
            f"the next change of its template will hang: its {workload.replicas} replicas take every value "
            f"of {term.topology_key} ({domains}), a new pod must not join an old one, and maxUnavailable "
            f"({workload.unavailable_written} of {workload.replicas}) rounds down to 0, so none may stop "
            f"first. Set maxUnavailable: 1, or add matchLabelKeys: [{TEMPLATE_KEY}] to the term."
        )
        brief = (
            f"its next change hangs: its {workload.replicas} replicas take every {term.topology_key}, and "
            "none may stop first; set maxUnavailable: 1"
        )
        yield scene.warn(DEADLOCK, detail, brief=brief)
        return
    yield from _no_surge(scene)


def _no_surge(scene: Scene) -> Iterator[PodWarning]:
    """A rolling update for which there is no room for one pod more."""
    workload = scene.workload
    if len(scene.running) < workload.replicas or scene.forecast.stuck:
        return
    why = scene.next_rollout.hindrance(workload)
    if why:
        detail = (
            f"the next change of its template will hang: a new pod must run before an old one may stop, as "
            f"maxUnavailable ({workload.unavailable_written} of {workload.replicas}) rounds down to 0, and "
            f"there is no room for one more: {why}. Set maxUnavailable: 1, or make room."
        )
        brief = (
            "its next change hangs: there is no room for one more pod, and none may stop first; set "
            "maxUnavailable: 1"
        )
        yield scene.warn(DEADLOCK, detail, brief=brief)


def _domains(scene: Scene, key: str) -> int | None:
    """How many values of the key there are; None when some worker lacks it, and so takes any number."""
    values = [node.labels.get(key) for node in scene.nodes]
    return None if None in values else len(set(values))


def _meets_old_pods(selector: LabelSelector | None, workload: Workload) -> bool:
    """Whether a term of a new pod would still choose pods of the template before it."""
    old = {**dict(workload.pod.labels), TEMPLATE_KEY: "another"}
    return selector is not None and matches(selector, old)


def _stuck(scene: Scene) -> Iterator[PodWarning]:
    """A rolling update that hangs now."""
    if not scene.forecast.stuck:
        return
    waiting = [outcome for outcome in scene.outcomes if outcome.pending]
    if waiting:
        former = tuple(outcome for outcome in waiting if _is_former(scene, outcome))
        new = [outcome for outcome in waiting if outcome not in former] or waiting
        names = tuple(outcome.name for outcome in new)
        # A DaemonSet without maxSurge takes the old pod of a node away first.
        away = scene.workload.kind == "DaemonSet" and scene.workload.surge_written in ("0", "0%")
        how = (
            "cannot be placed, and the other old ones stay"
            if away
            else "cannot be placed beside the old ones"
        )
        detail = f"its new pods ({few(names)}) {how}: {new[0].reason}{_of_former(scene, former)}"
        pods = f"{len(names):,} new {form(len(names), 'pod')}"
        brief = f"{pods} {how}: {_decisive(scene, new[0])}"
        yield scene.warn(STUCK, detail, brief=brief)
    elif scene.forecast.not_made:
        count = scene.forecast.not_made
        pods = f"{count:,} new {form(count, 'pod')}"
        detail = f"{pods} would not be made beside the old ones: {scene.forecast.refused}."
        yield scene.warn(STUCK, detail)


def _is_former(scene: Scene, pod: PodOutcome) -> bool:
    return pod.spec is not None and pod.spec.template != scene.workload.pod.template


def _of_former(scene: Scene, pods: Sequence[PodOutcome]) -> str:
    """What becomes of Pending pods that stay of a former template, and what it takes."""
    if not pods:
        return ""
    names = tuple(pod.name for pod in pods)
    if scene.workload.kind == "Deployment":
        left = f"{len(names):,} {form(len(names), 'pod')} of a former template ({few(names)})"
        waits = form(len(names), "waits", "wait")
        return f" {left} {waits} on: the Deployment takes none of them away before a new one runs."
    return (
        f" {names[0]} is of the former template, and an ordered StatefulSet replaces no pod before it runs: "
        f"delete it (kubectl delete pod -n {scene.workload.namespace} {names[0]})."
    )


def _pending(scene: Scene) -> Iterator[PodWarning]:
    waiting = [outcome for outcome in scene.outcomes if outcome.pending]
    if not waiting or scene.forecast.stuck:
        return
    names = tuple(outcome.name for outcome in waiting)
    share = f"{len(names):,} of {scene.forecast.replicas:,} pods"
    detail = f"{share} ({few(names)}) would stay Pending: {waiting[0].reason}"
    brief = f"{len(names):,} Pending: {_decisive(scene, waiting[0])}"
    yield scene.warn(PENDING, detail, brief=brief)


def _decisive(scene: Scene, pod: PodOutcome) -> str:
    """What no node has, else what most nodes say."""
    lacks = lacking(scene.workload.pod, scene.cluster.nodes).strip()
    if lacks or not pod.refusals:
        return lacks or pod.reason
    of_the_pod = next((each.reason for each in pod.refusals if profile.is_of_the_pod(each)), "")
    if of_the_pod:
        return of_the_pod
    tally = Counter(refusal.reason for refusal in pod.refusals)
    return "; ".join(f"{count:,} {reason}" for reason, count in tally.most_common())


def _failed(scene: Scene) -> Iterator[PodWarning]:
    refused = [outcome for outcome in scene.outcomes if outcome.failed]
    if refused:
        names = tuple(outcome.name for outcome in refused)
        share = f"{len(names):,} of {scene.forecast.replicas:,} pods"
        detail = f"{share} ({few(names)}) would be Failed, as kubelet refuses them {refused[0].reason}"
        yield scene.warn(FAILED, detail, brief=f"{share} would be Failed {refused[0].reason}")


def _gated(scene: Scene) -> Iterator[PodWarning]:
    waiting = [outcome for outcome in scene.outcomes if outcome.gated]
    if waiting:
        names = tuple(outcome.name for outcome in waiting)
        share = f"{len(names):,} of {scene.forecast.replicas:,} pods"
        detail = f"{share} ({few(names)}) would be SchedulingGated: {waiting[0].reason}"
        yield scene.warn(GATED, detail, brief=f"{share} would be SchedulingGated: {waiting[0].reason}")


def _not_made(scene: Scene) -> Iterator[PodWarning]:
    count, replicas = scene.forecast.not_made, scene.forecast.replicas
    held = scene.workload.ordered and any(outcome.pending for outcome in scene.outcomes)
    if count and (held or not scene.forecast.stuck):
        expected = count + replicas if scene.workload.kind == "DaemonSet" else replicas
        detail = f"{count:,} of {expected:,} pods would not be made: {scene.forecast.refused}."
        yield scene.warn(NOT_MADE, detail)


def _nowhere(scene: Scene) -> Iterator[PodWarning]:
    """A DaemonSet that no node permits."""
    if scene.workload.kind != "DaemonSet" or scene.forecast.replicas or scene.forecast.not_made:
        return
    nodes = scene.cluster.nodes
    pod = scene.workload.pod
    answers = [_first_refusal(pod, node) for node in nodes]
    reason = message([refusal for refusal in answers if refusal is not None], len(nodes))
    yield scene.warn(NOWHERE, f"it would get no pod at all: {reason}{missing(pod, nodes)}")


def _first_refusal(pod: PodSpec, node: Node) -> Refusal | None:
    """The first reason why a node does not permit a pod, whatever else runs there; None when it does."""
    for rule in profile.NODE_FILTERS:
        reason = rule.refuse(pod, node)
        if reason:
            return Refusal(node.name, rule.name, reason)
    return None


def _volumes(scene: Scene) -> Iterator[PodWarning]:
    """Nodes with more volumes than is usual: what their CSI drivers allow stands in no plan."""
    if not scene.workload.pod.claimed:
        return
    counts = {outcome.node: scene.claims_by_node[outcome.node] for outcome in scene.running}
    crowded = sorted(node for node, count in counts.items() if count > _USUAL_LIMIT)
    if not crowded:
        return
    most = max(counts[node] for node in crowded)
    nodes = first_of(crowded, _MOST_NAMES)
    detail = (
        f"{most} claims have their volumes on one node ({nodes}). How many a node may have its CSI driver "
        "says (kubectl get csinode -o yaml), which a plan does not know: beyond that pods stay Pending."
    )
    yield scene.warn(
        VOLUMES, detail, brief=f"{most} volumes on one node; what its CSI driver allows is not known"
    )


def _preempts(scene: Scene) -> Iterator[PodWarning]:
    """Pods that get their nodes only as others are evicted."""
    takers = [outcome for outcome in scene.outcomes if outcome.victims]
    if not takers:
        return
    victims = list(chain.from_iterable(taker.victims for taker in takers))
    takes = [f"{taker.name} ({_few_pods(taker.victims)})" for taker in takers]
    priority = scene.workload.pod.priority
    count = f"{len(victims)} {form(len(victims), 'pod')}"
    detail = (
        f"its pods (priority {priority}) find no node, so {count} of lower priority "
        f"{form(len(victims), 'is', 'are')} evicted: {few(takes)}. preemptionPolicy: Never would let its "
        "pods wait."
    )
    by_lot = any(not taker.certain for taker in takers)
    if by_lot:
        detail += " This is one possible outcome: equal victims or nodes are drawn by lot."
    brief = f"evicts {_few_pods(victims)}"
    yield scene.warn(PREEMPTS, detail, brief=brief)


def _few_pods(pods: Sequence[StandingPod]) -> str:
    return few([pod.name for pod in pods])


def _no_execute(scene: Scene) -> Iterator[PodWarning]:
    """Pods that a NoExecute taint drives off their nodes."""
    evicted = [outcome for outcome in scene.outcomes if outcome.trigger == NO_EXECUTE]
    if evicted:
        count = f"{len(evicted):,} of its pods {form(len(evicted), 'is', 'are')}"
        brief = f"{count} evicted by NoExecute taints: {_whence(evicted, scene.by_name)}"
        detail = (
            f"{brief}. The pods that come in their place are placed anew. A toleration of the taint would "
            "let them run on."
        )
        yield scene.warn(NO_EXECUTE_EVICTS, detail, brief=brief)


def evicted_strangers(cluster: Cluster, displaced: Iterable[PodOutcome]) -> Iterator[PodWarning]:
    """Pods of nobody here that a NoExecute taint drives off their nodes, workload by workload."""
    by_name = {node.name: node for node in cluster.nodes}
    by_workload: dict[str, list[PodOutcome]] = {}
    for outcome in displaced:
        if outcome.trigger == NO_EXECUTE:
            by_workload.setdefault(outcome.workload, []).append(outcome)
    for workload, evicted in by_workload.items():
        namespace, kind, name = workload.split("/", 2)
        are = f"{len(evicted):,} {form(len(evicted), 'pod')} {form(len(evicted), 'is', 'are')}"
        what = f"{are} evicted by NoExecute taints: {_whence(evicted, by_name)}"
        goes = first_of([each.node or "nowhere" for each in evicted], _MOST_NAMES)
        detail = f"{kind} {namespace}/{name}, which this plan does not bring: {what}. Then there: {goes}."
        yield PodWarning(NO_EXECUTE_EVICTS, workload, detail, f"{namespace}/{name}: {what}")


def _whence(evicted: Iterable[PodOutcome], nodes: Mapping[str, Node]) -> str:
    """Where evicted pods were, with the taints of these nodes."""
    return few([f"{each.name} from {each.previous}{_taint_of(nodes, each)}" for each in evicted])


def _taint_of(nodes: Mapping[str, Node], outcome: PodOutcome) -> str:
    """The taints that evict a pod, and when: ` (maintenance:NoExecute, after 60 s)`."""
    node = nodes.get(outcome.previous)
    if node is None or outcome.spec is None:
        return ""
    hard = taints.all_evicting(outcome.spec, node)
    keys = [f"{taint.key}{'=' * bool(taint.value)}{taint.value}:{taint.effect}" for taint in hard]
    seconds = taints.stays_for(outcome.spec, node)
    return f" ({', '.join([*keys, f'after {seconds} s'] if seconds else keys)})"


_RULES: Final = (
    shared_hardware,
    missing_labels,
    _too_many,
    _deadlock,
    _stuck,
    _pending,
    _failed,
    _gated,
    _not_made,
    _nowhere,
    _volumes,
    _preempts,
    _no_execute,
)
