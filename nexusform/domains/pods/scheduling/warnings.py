"""What only somebody who knows pods, workers and servers can say: findings as data.

A prediction in, warnings out; nothing here changes where a pod goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.board import Board
from nexusform.domains.pods.scheduling.forecast import (
    PodOutcome,
    Prediction,
    WorkloadForecast,
)
from nexusform.domains.pods.scheduling.pending import lacking, message, missing
from nexusform.domains.pods.scheduling.rollouts import TEMPLATE_KEY, NextRollout
from nexusform.domains.pods.scheduling.run import Statics
from nexusform.domains.pods.scheduling.workloads import (
    HOSTNAME,
    Cluster,
    Node,
    PodSpec,
    PodTerm,
    StandingPod,
    Strategy,
    Workload,
)
from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.matching import LabelSelector, matches
from nexusform.words import first_of, form

SHARED_MACHINE: Final = "pods-share-a-machine"
SHARED_RACK: Final = "pods-share-a-rack"
UNLABELLED: Final = "workers-without-the-topology-label"
UNKNOWN_KEY: Final = "unknown-topology-key"
TOO_MANY: Final = "anti-affinity-of-pods-cannot-be-met"
DEADLOCK: Final = "rollout-will-hang"
STUCK: Final = "rollout-hangs"
PENDING: Final = "pods-stay-pending"
FAILED: Final = "pods-are-refused-by-kubelet"
GATED: Final = "pods-wait-for-scheduling-gates"
NOT_MADE: Final = "pods-are-not-made"
NOWHERE: Final = "daemonset-gets-no-pod"
VOLUMES: Final = "limits-of-volumes-are-not-known"
PREEMPTS: Final = "pods-are-evicted"

RISKS: Final = (
    SHARED_MACHINE,
    SHARED_RACK,
    UNLABELLED,
    UNKNOWN_KEY,
    TOO_MANY,
    DEADLOCK,
    STUCK,
    PENDING,
    FAILED,
    GATED,
    NOT_MADE,
    NOWHERE,
    VOLUMES,
    PREEMPTS,
)
# What Kubernetes takes for the limit of a node where its cloud provider names none.
# Source: pkg/scheduler/framework/plugins/nodevolumelimits (DefaultMaxAzureDiskVolumes, GCE's is the same).
_USUAL_LIMIT: Final = 16
# Of several labels that tell machines apart, the one to propose.
_KNOWN_HARDWARE_KEYS: Final = ("topology.kubernetes.io/baremetalmachine", "CIS-node", "kubernetes.io/zone")
_MOST_NAMES: Final = 5


class PodWarning(Struct, frozen=True):
    """One risk of one workload (key).

    `kind` is the constant of this file and the id of the diagnostic; `detail` is for people. `place` is the
    machine or rack that its pods share ("" = the risk is another one). `brief` says it in a line
    (`name: what`).
    """

    kind: str
    workload: str
    detail: str
    brief: str
    place: str = ""


class _Scene(Struct, frozen=True):
    # A workload among the nodes that would take its pods at all.
    cluster: Cluster
    board: Board
    nodes: tuple[Node, ...]
    by_name: dict[str, Node]
    workload: Workload
    forecast: WorkloadForecast
    outcomes: tuple[PodOutcome, ...]
    next_rollout: NextRollout
    running: tuple[PodOutcome, ...] = ()
    claims_by_node: Mapping[str, int] = {}

    def about_itself(self, terms: Iterable[PodTerm]) -> list[PodTerm]:
        """Those of the workload's terms that choose its own pods."""
        group = self.board.group(self.workload.pod)
        return [term for term in terms if self.board.chooses(term, group)]

    def warn(self, kind: str, detail: str, *, place: str = "", brief: str = "") -> PodWarning:
        """A risk of the workload; `brief` says it in a line where the detail is longer than that."""
        name = f"{self.workload.namespace}/{self.workload.name}"
        text = f"{self.workload.kind} {name}: {detail}"
        return PodWarning(kind, self.workload.key, text, f"{name}: {brief or detail}", place)


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
        scene = _Scene(
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


# --- hardware ----------------------------------------------------------------------------------


def _shared_hardware(scene: _Scene) -> Iterator[PodWarning]:
    """Pods that share machines; where none do, pods that all share one rack."""
    if scene.workload.kind == "DaemonSet" or len(scene.running) < 2:
        return
    shared = list(_shared_machines(scene))
    yield from shared
    if not shared:
        yield from _shared_rack(scene)


def _shared_machines(scene: _Scene) -> Iterator[PodWarning]:
    """One warning for each machine with two or more of the pods."""
    required, preferred = _keys(scene)
    proposed = proposed_key(scene.nodes, _machine, required + preferred)
    for machine, count in sorted(scene.forecast.per_machine.items()):
        if count < 2:
            continue
        on_machine = [pod for pod in scene.running if scene.by_name[pod.node].machine == machine]
        pods = [pod.name for pod in on_machine]
        nodes = sorted({pod.node for pod in on_machine})
        workers = f"{len(nodes)} {form(len(nodes), 'worker')} {_few(nodes)}"
        detail = (
            f"{count} of {len(scene.running)} pods ({_few(pods)}) would run on machine {machine} "
            f"({workers}) and be lost with it. {_why(scene, proposed, 'machines')}"
        )
        brief = f"{count} of {len(scene.running)} pods would be lost with machine {machine}"
        yield scene.warn(SHARED_MACHINE, detail, place=machine, brief=brief)


def _shared_rack(scene: _Scene) -> Iterator[PodWarning]:
    """All pods in one rack, though workers of another one could take some."""
    racks = {node.rack for node in scene.nodes if node.rack}
    racks_known = all(scene.by_name[outcome.node].rack for outcome in scene.running)
    if len(scene.forecast.per_rack) != 1 or len(racks) < 2 or not racks_known:
        return
    rack = next(iter(scene.forecast.per_rack))
    required, preferred = _keys(scene)
    proposed = proposed_key(scene.nodes, _rack, required + preferred)
    pods = tuple(outcome.name for outcome in scene.running)
    detail = (
        f"all {len(pods)} pods ({_few(pods)}) would run in rack {rack}, though workers of {len(racks)} racks "
        f"could take them. {_why(scene, proposed, 'racks')}"
    )
    brief = f"all {len(pods)} pods would be lost with rack {rack}, and {len(racks)} racks could take them"
    yield scene.warn(SHARED_RACK, detail, place=rack, brief=brief)


def _machine(node: Node) -> str:
    return node.machine


def _rack(node: Node) -> str:
    return node.rack


def proposed_key(nodes: Sequence[Node], place: Callable[[Node], str], used: Sequence[str] = ()) -> str:
    """A label key that the nodes have and whose values are exactly their places; "" when there is none.

    Of several, one that is `used` already comes first, then the well-known ones.
    """
    located = [node for node in nodes if place(node)]
    if not located:
        return ""
    keys = [key for key in sorted(located[0].labels) if key != HOSTNAME and _tells_apart(key, located, place)]
    preferred = [key for key in (*used, *_KNOWN_HARDWARE_KEYS) if key in keys]
    return next(iter(preferred + keys), "")


def _tells_apart(key: str, nodes: Sequence[Node], place: Callable[[Node], str]) -> bool:
    """Whether all nodes have the key, each value stands for one place, and each place for one value."""
    place_of: dict[str, str] = {}
    for node in nodes:
        value = node.labels.get(key)
        if value is None or place_of.setdefault(value, place(node)) != place(node):
            return False
    return len(place_of) == len(set(place_of.values()))


def _keys(scene: _Scene) -> tuple[list[str], list[str]]:
    """The keys over which a workload keeps its own pods apart: those that must hold, those that may not."""
    pod = scene.workload.pod
    labels = dict(pod.labels)
    required = [term.topology_key for term in scene.about_itself(pod.anti_affinity)]
    preferred = [term.topology_key for term in scene.about_itself(pod.preferred_anti_affinity)]
    for constraint in pod.spread:
        if constraint.selector is not None and matches(constraint.selector, labels):
            keys = required if constraint.hard else preferred
            keys.append(constraint.topology_key)
    return list(dict.fromkeys(required)), list(dict.fromkeys(preferred))


def _why(scene: _Scene, proposed: str, places: str) -> str:
    """Why its rules did not keep the pods apart, and what to do; `places` are machines or racks."""
    required, preferred = _keys(scene)
    # Nodes of which nobody knows where they stand may lack the key.
    domains = {node.labels[proposed] for node in scene.nodes if proposed in node.labels}
    if proposed and len(domains) < scene.workload.replicas:
        return _too_few(scene, proposed, f"{len(domains)} {places}", alone=len(domains) == 1)
    if proposed and proposed in required:
        return f"Its rule over {proposed} lets that happen; anti-affinity over it would keep them apart."
    if proposed and proposed in preferred:
        return f"Its rule over {proposed} is only preferred; make it required to forbid that."
    keys = required + preferred
    if keys:
        fail = "does not" if len(keys) == 1 else "do not"
        cause = f"Its rules use {' and '.join(keys)}, which {fail} tell {places} apart"
    else:
        cause = "It has no rule that keeps its pods apart"
    if not proposed:
        return f"{cause}, and no label of its workers tells {places} apart: label them with their hardware."
    return f"{cause}. Use topologyKey: {proposed}."


def _too_few(scene: _Scene, proposed: str, places: str, *, alone: bool) -> str:
    """What to do where a key that tells places apart has fewer values than pods; `alone`: only one."""
    # Required anti-affinity would leave pods Pending, so it is no advice.
    required, preferred = _keys(scene)
    if alone and proposed in preferred:
        return f"Its rule over {proposed} is only preferred, but all its workers are there: it needs others."
    if alone:
        key = "" if proposed in required else f", and then topologyKey: {proposed}"
        return f"All its workers are there, so that no rule keeps its pods apart: it needs others{key}."
    text = f"Its workers stand on {places}, fewer than its {scene.workload.replicas} pods"
    if proposed in required:
        return f"{text}: some have to share."
    wish = " required" if proposed in preferred else ""
    return f"{text}: a{wish} topologySpreadConstraint with topologyKey: {proposed} evens them out."


# --- topology keys ------------------------------------------------------------------------------


def _missing_labels(scene: _Scene) -> Iterator[PodWarning]:
    """Topology keys that the rules use, and that no worker has, or that some lack."""
    proposed = proposed_key(scene.nodes, _machine)
    for key, use in _uses_of_keys(scene.workload.pod):
        lacking = tuple(node.name for node in scene.nodes if key not in node.labels)
        if not lacking:
            continue
        if len(lacking) == len(scene.nodes):
            yield _unknown_key(scene, key, use, proposed)
        elif use == _ANTI_AFFINITY:
            yield _unlabelled(scene, key, lacking)


_ANTI_AFFINITY, _AFFINITY, _SPREAD, _WISH = "anti-affinity", "affinity", "spread", "wish"
_EFFECTS: Final = {
    _ANTI_AFFINITY: "the required anti-affinity over it refuses nothing, and pods are not kept apart",
    _AFFINITY: "the required affinity over it cannot hold, and the pods stay Pending",
    _SPREAD: "the spread constraint over it refuses every worker, and the pods stay Pending",
    _WISH: "the preference over it has no effect",
}
_RULES_OVER_KEYS: Final = {
    _ANTI_AFFINITY: "its required anti-affinity",
    _AFFINITY: "its required affinity",
    _SPREAD: "its spread constraint",
    _WISH: "its preference",
}


def _uses_of_keys(pod: PodSpec) -> Iterable[tuple[str, str]]:
    """Every topology key of a spec with what it is used for, each pair once."""
    wishes = (*pod.preferred_affinity, *pod.preferred_anti_affinity)
    uses = [(term.topology_key, _ANTI_AFFINITY) for term in pod.anti_affinity]
    uses += [(term.topology_key, _AFFINITY) for term in pod.affinity]
    uses += [(constraint.topology_key, _SPREAD if constraint.hard else _WISH) for constraint in pod.spread]
    uses += [(term.topology_key, _WISH) for term in wishes]
    return dict.fromkeys(uses)


def _unknown_key(scene: _Scene, key: str, use: str, proposed: str) -> PodWarning:
    hint = f" A key that they have is {proposed}." if proposed and proposed != key else ""
    detail = f"no worker that could take its pods has the label {key}: {_EFFECTS[use]}.{hint}"
    return scene.warn(
        UNKNOWN_KEY, detail, brief=f"{_RULES_OVER_KEYS[use]} goes by {key}, which no worker has"
    )


def _unlabelled(scene: _Scene, key: str, lacking: tuple[str, ...]) -> PodWarning:
    count = len(lacking)
    workers = f"{count} {form(count, 'worker')} {_few(lacking)} {form(count, 'lacks', 'lack')}"
    detail = (
        f"{workers} the label {key}, so the required anti-affinity over it never keeps pods off there. "
        "Label all workers."
    )
    lack = f"{count} {form(count, 'worker')} {form(count, 'lacks', 'lack')}"
    return scene.warn(UNLABELLED, detail, brief=f"{lack} the label {key}, by which its pods keep apart")


# --- rollouts and what cannot be met -------------------------------------------------------------


def _too_many(scene: _Scene) -> Iterator[PodWarning]:
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


def _deadlock(scene: _Scene) -> Iterator[PodWarning]:
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


def _no_surge(scene: _Scene) -> Iterator[PodWarning]:
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


def _domains(scene: _Scene, key: str) -> int | None:
    """How many values of the key there are; None when some worker lacks it, and so takes any number."""
    values = [node.labels.get(key) for node in scene.nodes]
    return None if None in values else len(set(values))


def _meets_old_pods(selector: LabelSelector | None, workload: Workload) -> bool:
    """Whether a term of a new pod would still choose pods of the template before it."""
    old = {**dict(workload.pod.labels), TEMPLATE_KEY: "another"}
    return selector is not None and matches(selector, old)


def _stuck(scene: _Scene) -> Iterator[PodWarning]:
    """A rolling update that hangs now."""
    if not scene.forecast.stuck:
        return
    waiting = [outcome for outcome in scene.outcomes if outcome.pending]
    if waiting:
        names = tuple(outcome.name for outcome in waiting)
        # A DaemonSet without maxSurge takes the old pod of a node away first.
        away = scene.workload.kind == "DaemonSet" and scene.workload.surge_written in ("0", "0%")
        how = (
            "cannot be placed, and the other old ones stay"
            if away
            else "cannot be placed beside the old ones"
        )
        detail = f"its new pods ({_few(names)}) {how}: {waiting[0].reason}"
        pods = f"{len(names)} new {form(len(names), 'pod')}"
        brief = f"{pods} {how}: {_decisive(scene, waiting[0])}"
        yield scene.warn(STUCK, detail, brief=brief)
    elif scene.forecast.not_made:
        count = scene.forecast.not_made
        pods = f"{count} new {form(count, 'pod')}"
        detail = f"{pods} would not be made beside the old ones: {scene.forecast.refused}."
        yield scene.warn(STUCK, detail)


def _pending(scene: _Scene) -> Iterator[PodWarning]:
    waiting = [outcome for outcome in scene.outcomes if outcome.pending]
    if not waiting or scene.forecast.stuck:
        return
    names = tuple(outcome.name for outcome in waiting)
    share = f"{len(names)} of {scene.forecast.replicas} pods"
    detail = f"{share} ({_few(names)}) would stay Pending: {waiting[0].reason}"
    brief = f"{len(names)} Pending: {_decisive(scene, waiting[0])}"
    yield scene.warn(PENDING, detail, brief=brief)


def _decisive(scene: _Scene, pod: PodOutcome) -> str:
    """What no node has, else what most nodes say."""
    lacks = lacking(scene.workload.pod, scene.cluster.nodes).strip()
    if lacks or not pod.refusals:
        return lacks or pod.reason
    tally = Counter(refusal.reason for refusal in pod.refusals)
    return "; ".join(f"{count} {reason}" for reason, count in tally.most_common())


def _failed(scene: _Scene) -> Iterator[PodWarning]:
    refused = [outcome for outcome in scene.outcomes if outcome.failed]
    if refused:
        names = tuple(outcome.name for outcome in refused)
        share = f"{len(names)} of {scene.forecast.replicas} pods"
        detail = f"{share} ({_few(names)}) would be Failed, as kubelet refuses them {refused[0].reason}"
        yield scene.warn(FAILED, detail, brief=f"{share} would be Failed {refused[0].reason}")


def _gated(scene: _Scene) -> Iterator[PodWarning]:
    waiting = [outcome for outcome in scene.outcomes if outcome.gated]
    if waiting:
        names = tuple(outcome.name for outcome in waiting)
        share = f"{len(names)} of {scene.forecast.replicas} pods"
        detail = f"{share} ({_few(names)}) would be SchedulingGated: {waiting[0].reason}"
        yield scene.warn(GATED, detail, brief=f"{share} would be SchedulingGated: {waiting[0].reason}")


def _not_made(scene: _Scene) -> Iterator[PodWarning]:
    count, replicas = scene.forecast.not_made, scene.forecast.replicas
    if count and not scene.forecast.stuck:
        expected = count + replicas if scene.workload.kind == "DaemonSet" else replicas
        detail = f"{count} of {expected} pods would not be made: {scene.forecast.refused}."
        yield scene.warn(NOT_MADE, detail)


def _nowhere(scene: _Scene) -> Iterator[PodWarning]:
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


def _volumes(scene: _Scene) -> Iterator[PodWarning]:
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


def _preempts(scene: _Scene) -> Iterator[PodWarning]:
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
        f"{form(len(victims), 'is', 'are')} evicted: {_few(takes)}. preemptionPolicy: Never would let its "
        "pods wait."
    )
    by_lot = any(not taker.certain for taker in takers)
    if by_lot:
        detail += " This is one possible outcome: equal victims or nodes are drawn by lot."
    brief = f"evicts {_few_pods(victims)}"
    yield scene.warn(PREEMPTS, detail, brief=brief)


def _few_pods(pods: Sequence[StandingPod]) -> str:
    return _few([pod.name for pod in pods])


def _few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:_MOST_NAMES])
    unnamed = len(names) - _MOST_NAMES
    return f"{shown} and {unnamed} more" if unnamed > 0 else shown


_RULES: Final = (
    _shared_hardware,
    _missing_labels,
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
)
