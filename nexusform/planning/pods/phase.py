"""Pods in a plan: what stands on every cluster, what objects and placements bring, and where it goes.

Pods that stand stay. Those whose node is gone or made anew are placed again; those of workloads that are
gone leave first. What is called for later sees what was placed earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import parse_address
from nexusform.configuration.configuration import ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem
from nexusform.importers.kubernetes_admission import read_quotas
from nexusform.importers.kubernetes_manifests import Manifest, unwrapped
from nexusform.importers.kubernetes_nodes import Observation
from nexusform.importers.kubernetes_workloads import workloads_of
from nexusform.planning.plan import PlacementChange
from nexusform.planning.pods.rows import PodNote, pod_row, pod_values, read_note
from nexusform.planning.vms.nodes import NodeCluster
from nexusform.scheduling.pods import forecast
from nexusform.scheduling.pods.forecast import PodOutcome
from nexusform.scheduling.pods.scheduler import predict
from nexusform.scheduling.pods.warnings import PodWarning, warnings_of
from nexusform.scheduling.pods.workloads import Cluster, PodSpec, PodState, StandingPod, Workload

OVERRIDE_CHANGED: Final = "override_changed"
BINDING_REMOVED: Final = "binding_removed"

PodMap = dict[str, dict[str, Any]]
# Who brings pods (the address of a hub manifest or a placement, as text) and to which cluster (its id).
Key = tuple[str, str]
PodKey = tuple[str, int]


class PlannedPod(Struct, frozen=True):
    """A planned pod: whose it is and the VM (cluster id and node name) that it runs on."""

    cluster_id: str
    node: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    trigger: str = ""


class PriorPods(Struct, frozen=True):
    """What state holds of the pods that one object brought to one cluster. `manifests` are what they
    were made from, as far as state tells.
    """

    address: str
    cluster_id: str
    workloads: Mapping[str, Mapping[str, Mapping[str, Any]]]
    manifests: tuple[Manifest, ...] = ()


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


class Scene(Struct, frozen=True):
    """What a prediction started from, so that it can be replayed for an explanation."""

    model: Cluster
    standing: tuple[StandingPod, ...]
    workloads: tuple[Workload, ...]
    seed: int
    recreated: frozenset[str]


class PodDecision(Struct, frozen=True):
    """A pod of the plan, the scene in which it was first looked at, and what stands beside it afterwards."""

    cluster: NodeCluster
    outcome: PodOutcome
    scene: Scene
    others: tuple[StandingPod, ...]


class _Brought(Struct):
    # The pods of one object on one cluster. `before` are those of state, by workload and name, `notes` what
    # state remembers of each; `prior_templates` are the hashes by workload of what they were made
    # from. `workloads` and `manifests` are those of the last call, `shown` is the value that
    # was given out, `outcomes` what became of each pod (by workload and number).
    before: dict[str, dict[str, StandingPod]] = field(default_factory=dict)
    notes: dict[tuple[str, str], PodNote] = field(default_factory=dict)
    prior_templates: dict[str, str] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    outcomes: dict[str, dict[int, PodOutcome]] = field(default_factory=dict)
    removed: list[PodOutcome] = field(default_factory=list)
    shown: PodMap = field(default_factory=dict)
    warnings: tuple[PodWarning, ...] = ()
    overridden: bool = False
    scene: Scene | None = None

    def of(self, workload: str) -> list[PodOutcome]:
        """What became of the pods of a workload, by number."""
        by_number = self.outcomes.get(workload, {})
        return [by_number[number] for number in sorted(by_number)]

    def everything(self) -> Iterator[PodOutcome]:
        """What became of all its pods."""
        for by_number in self.outcomes.values():
            yield from by_number.values()

    def keys(self) -> set[str]:
        """The keys of its workloads."""
        return {workload.key for workload in self.workloads}

    def note(self, outcome: PodOutcome) -> PodNote | None:
        """What state remembers of a pod."""
        return self.notes.get((outcome.workload, outcome.name))

    def as_made(self, spec: PodSpec, workload: str, pod: str) -> PodSpec:
        """The spec of a pod of state: that of its workload, of an older template where state says so."""
        note = self.notes.get((workload, pod))
        return replace(spec, template=note.former) if note is not None and note.former else spec


class PodPhase:
    """Places the pods of one plan. Call `place` for whatever brings objects to a cluster, in order;
    `leave` for what no longer does. A name is a cluster's id or, through `members`, a member's name.
    """

    def __init__(
        self,
        clusters: Mapping[str, NodeCluster],
        prior: Iterable[PriorPods] = (),
        members: Mapping[str, str] | None = None,
        others: Iterable[PriorPods] = (),
        facts: Mapping[str, Sequence[StandingPod]] | None = None,
    ) -> None:
        self.clusters = clusters
        self.members: Mapping[str, str] = members if members is not None else {}
        self.findings: list[tuple[str, Problem]] = []
        self._brought: dict[Key, _Brought] = {}
        self._standing: dict[str, dict[PodKey, StandingPod]] = {}
        for prior_pods in prior:
            self._stand(prior_pods)
        self._stand_beside(others)
        # Pods that run for certain, by cluster id and workload; state is told what becomes of them.
        self._facts = {
            cluster_id: self._stand_there(cluster_id, pods) for cluster_id, pods in (facts or {}).items()
        }

    def _stand(self, prior: PriorPods) -> None:
        specs = {workload.key: workload.pod for workload in workloads_of(prior.manifests).workloads}
        brought = self._brought.setdefault((prior.address, prior.cluster_id), _Brought())
        brought.prior_templates = {key: spec.template for key, spec in specs.items()}
        standing = self._standing.setdefault(prior.cluster_id, {})
        for key, pods in prior.workloads.items():
            spec = specs.get(key, PodSpec(namespace=key.partition("/")[0]))
            for name, values in pods.items():
                note = brought.notes[key, name] = read_note(values)
                pod = StandingPod(key, _number(key, name), note.node, brought.as_made(spec, key, name))
                brought.before.setdefault(key, {})[name] = pod
                standing[key, pod.number] = pod

    def _stand_beside(self, others: Iterable[PriorPods]) -> None:
        """Let pods of other states stand: they take room, and nothing here moves them."""
        for each in others:
            specs = {workload.key: workload.pod for workload in workloads_of(each.manifests).workloads}
            standing = self._standing.setdefault(each.cluster_id, {})
            for key, pods in each.workloads.items():
                spec = specs.get(key, PodSpec(namespace=key.partition("/")[0]))
                for name, values in pods.items():
                    pod = StandingPod(key, _number(key, name), read_note(values).node, spec)
                    standing.setdefault((key, pod.number), pod)

    def _stand_there(self, cluster_id: str, pods: Sequence[StandingPod]) -> dict[str, list[StandingPod]]:
        """Let pods stand where they were seen. Those that state foretells beyond them stand, too: they came
        after kubectl looked.
        """
        standing = self._standing.setdefault(cluster_id, {})
        foretold: dict[str, dict[int, str]] = {}
        for (workload, number), pod in standing.items():
            foretold.setdefault(workload, {})[number] = pod.node
        seen: dict[str, list[StandingPod]] = {}
        for pod in pods:
            seen.setdefault(pod.workload, []).append(pod)
        facts = {key: _as_foretold(of_key, foretold.get(key, {})) for key, of_key in seen.items()}
        for of_key in facts.values():
            standing |= {(pod.workload, pod.number): pod for pod in of_key}
        return facts

    def _adopt(self, brought: _Brought, cluster: NodeCluster) -> None:
        """The pods of an object's workloads that were seen are its own."""
        facts = self._facts.get(cluster.id)
        if not facts:
            return
        for workload in brought.workloads:
            pods = facts.pop(workload.key, ())
            # What stood of an object that is made anew has left; what was seen is there all the same.
            self._standing[cluster.id] |= {(pod.workload, pod.number): pod for pod in pods}
            for pod in pods:
                brought.before.setdefault(workload.key, {})[workload.pod_name(pod.number)] = pod
                node = cluster.node(pod.node)
                brought.notes[workload.key, workload.pod_name(pod.number)] = PodNote(
                    pod.node,
                    node.machine if node is not None else None,
                    node.zone if node is not None else None,
                    certain=True,
                    provenance="observed",
                    state=str(PodState.SCHEDULED),
                )

    # --- what the planner calls ---

    def place(
        self,
        placement_address: str,
        cluster_name: str,
        manifests: tuple[Manifest, ...],
        prior_workloads: Mapping[str, Any],
        *,
        others: tuple[Manifest, ...] = (),
        before: tuple[Manifest, ...] = (),
        overridden: bool = False,
    ) -> PodMap:
        """Place the pods of what an object brings to a cluster: workload -> pod -> where it stands.

        `prior_workloads` is what state holds of them; without any, what stood of that object leaves first
        (it is made anew). `before` is what they were made from (default: as state tells); `overridden`:
        a template that changed did so by overrides alone.
        """
        cluster_id = self.members.get(cluster_name, cluster_name)
        cluster = self.clusters.get(cluster_id)
        if cluster is None:
            return {}
        key = (placement_address, cluster_id)
        if prior_workloads and key not in self._brought:
            made_from = unwrapped(before or manifests).manifests
            self._stand(PriorPods(placement_address, cluster_id, prior_workloads, made_from))
        brought = self._brought.setdefault(key, _Brought())
        if brought.before and not prior_workloads and not brought.outcomes:
            self.leave(placement_address, cluster_id)
        brought.manifests = unwrapped(manifests).manifests
        brought.overridden = overridden
        everywhere = self._manifests_on(cluster_id)
        reading = workloads_of(brought.manifests, (*everywhere, *others))
        self.findings += [(placement_address, finding) for finding in reading.findings]
        brought.workloads = reading.workloads
        self._adopt(brought, cluster)
        if not brought.outcomes:
            self._made_from(brought, cluster_id, unwrapped(before).manifests)
            self._know_templates(brought, cluster_id)
        self._predict([key], cluster)
        self._retry(cluster, except_for=placement_address)
        return brought.shown

    def place_together(
        self, cluster_name: str, objects: Sequence[tuple[str, tuple[Manifest, ...]]]
    ) -> dict[str, PodMap]:
        """The same for several objects whose workloads stand in one queue: address -> its value."""
        cluster_id = self.members.get(cluster_name, cluster_name)
        cluster = self.clusters.get(cluster_id)
        if cluster is None:
            return {address: {} for address, _ in objects}
        for address, manifests in objects:
            brought = self._brought.setdefault((address, cluster_id), _Brought())
            brought.manifests = unwrapped(manifests).manifests
        everywhere = self._manifests_on(cluster_id)
        keys: list[Key] = []
        for address, _ in objects:
            brought = self._brought[address, cluster_id]
            reading = workloads_of(brought.manifests, everywhere)
            self.findings += [(address, finding) for finding in reading.findings]
            brought.workloads = reading.workloads
            self._adopt(brought, cluster)
            self._know_templates(brought, cluster_id)
            keys.append((address, cluster_id))
        self._predict(keys, cluster)
        return {address: self._brought[address, cluster_id].shown for address, _ in objects}

    def leave(self, placement_address: str, cluster_name: str, trigger: str = BINDING_REMOVED) -> None:
        """All pods that an object brought to a cluster go."""
        cluster_id = self.members.get(cluster_name, cluster_name)
        brought = self._brought.get((placement_address, cluster_id))
        if brought is None:
            return
        brought.workloads, brought.manifests, brought.shown, brought.warnings = (), (), {}, ()
        brought.outcomes.clear()
        for key, pods in brought.before.items():
            self._drop(brought, cluster_id, key, pods, trigger)
        brought.before, brought.prior_templates = {}, {}

    def requests(self, cluster_name: str) -> tuple[int, int]:
        """What the pods with a node on a cluster ask for: thousandths of a CPU, and bytes."""
        cluster_id = self.members.get(cluster_name, cluster_name)
        standing = self._standing.get(cluster_id, {}).values()
        requests = [pod.spec.requests for pod in standing if pod.node]
        return sum(each.cpu for each in requests), sum(each.memory for each in requests)

    # --- deciding ---

    def _know_templates(self, brought: _Brought, cluster_id: str) -> None:
        """Give the pods of state the spec that they have: today's, where what they were made from did not
        change.
        """
        for workload in brought.workloads:
            made_from = brought.prior_templates.get(workload.key)
            if made_from in (None, workload.pod.template):
                self._respecify(brought, cluster_id, workload.key, workload.pod)

    def _made_from(self, brought: _Brought, cluster_id: str, manifests: tuple[Manifest, ...]) -> None:
        """Give the pods of state the spec that these manifests gave them."""
        specs = {workload.key: workload.pod for workload in workloads_of(manifests).workloads}
        for key in brought.before:
            if key in specs:
                brought.prior_templates[key] = specs[key].template
                self._respecify(brought, cluster_id, key, specs[key])

    def _respecify(self, brought: _Brought, cluster_id: str, key: str, spec: PodSpec) -> None:
        """Give the pods of a workload of state this spec."""
        standing = self._standing.setdefault(cluster_id, {})
        pods = brought.before.get(key, {})
        for name, pod in list(pods.items()):
            pods[name] = replace(pod, spec=brought.as_made(spec, key, name))
            if (key, pod.number) in standing:
                standing[key, pod.number] = pods[name]

    def _predict(self, keys: Sequence[Key], cluster: NodeCluster) -> None:
        workloads: list[Workload] = []
        for key in keys:
            self._drop_former_workloads(self._brought[key], cluster.id)
            workloads += self._brought[key].workloads
        if not workloads:
            for key in keys:
                self._brought[key].shown.clear()
            return
        model = self._model(cluster)
        standing = tuple(self._standing.get(cluster.id, {}).values())
        # Pods of nodes that are made anew are lost once: what was placed since then stands.
        first_time = not any(self._brought[key].outcomes for key in keys)
        recreated = cluster.fresh if first_time else frozenset()
        scene = Scene(model, standing, tuple(workloads), cluster.seed, recreated)
        prediction = predict(model, standing, workloads, seed=cluster.seed, recreated=recreated)
        self._standing[cluster.id] = {(pod.workload, pod.number): pod for pod in prediction.standing()}
        warnings = warnings_of(model, prediction)
        for key in keys:
            brought = self._brought[key]
            brought.scene = brought.scene or scene
            own = brought.keys()
            self._take(brought, [outcome for outcome in prediction.outcomes if outcome.workload in own])
            brought.warnings = tuple(warning for warning in warnings if warning.workload in own)
            _show(brought, cluster)

    def _drop_former_workloads(self, brought: _Brought, cluster_id: str) -> None:
        """The workloads that an object no longer brings go."""
        own = brought.keys()
        for key, pods in list(brought.before.items()):
            if key not in own:
                self._drop(brought, cluster_id, key, pods, forecast.WORKLOAD_REMOVED)

    def _retry(self, cluster: NodeCluster, except_for: str) -> None:
        """What came later may be the company that earlier Pending pods wait for."""
        for key, brought in list(self._brought.items()):
            if key[1] != cluster.id or key[0] == except_for:
                continue
            if any(outcome.pending for outcome in brought.everything()):
                self._predict([key], cluster)

    def _model(self, cluster: NodeCluster) -> Cluster:
        manifests = self._manifests_on(cluster.id)
        namespaces = {
            manifest.name: manifest.labels
            for manifest in manifests
            if (manifest.group, manifest.kind) == ("", "Namespace")
        }
        return Cluster(cluster.name, cluster.nodes, namespaces, read_quotas(manifests))

    def _manifests_on(self, cluster_id: str) -> list[Manifest]:
        manifests: list[Manifest] = []
        for (_, on), brought in self._brought.items():
            if on == cluster_id:
                manifests += brought.manifests
        return manifests

    def _drop(
        self, brought: _Brought, cluster_id: str, key: str, pods: Mapping[str, StandingPod], trigger: str
    ) -> None:
        standing = self._standing.get(cluster_id, {})
        for name, pod in pods.items():
            if standing.pop((key, pod.number), None) is not None:
                removal = PodOutcome(key, pod.number, name, forecast.REMOVE, "", pod.node, trigger)
                brought.removed.append(removal)
        brought.outcomes.pop(key, None)

    def _take(self, brought: _Brought, outcomes: Iterable[PodOutcome]) -> None:
        """Note what became of each pod."""
        for outcome in outcomes:
            by_number = brought.outcomes.setdefault(outcome.workload, {})
            if outcome.action == forecast.REMOVE:
                if outcome.name in brought.before.get(outcome.workload, {}):
                    brought.removed.append(outcome)
                by_number.pop(outcome.number, None)
            else:
                earlier = by_number.get(outcome.number)
                by_number[outcome.number] = _after(brought, earlier, outcome)

    # --- telling ---

    @property
    def rows(self) -> list[PlacementChange]:
        """A row per pod, those that are kept too: what leaves, then the others, object by object. Nodes
        that refused a pod are named in it.
        """
        rows: list[PlacementChange] = []
        for (address, cluster_id), brought in self._brought.items():
            cluster, owner = self.clusters.get(cluster_id), parse_address(address)
            outcomes = list(brought.removed)
            for workload in brought.workloads:
                outcomes += brought.of(workload.key)
            rows += [
                pod_row(owner, cluster_id, cluster, outcome, brought.note(outcome)) for outcome in outcomes
            ]
        return rows

    @property
    def warnings(self) -> list[tuple[str, str, PodWarning]]:
        """Every risk, with the address of the object that brings the workload, and the cluster's name."""
        risks: list[tuple[str, str, PodWarning]] = []
        for (address, cluster_id), brought in self._brought.items():
            risks += [(address, self.clusters[cluster_id].name, warning) for warning in brought.warnings]
        return risks

    def decisions(self, address: str, name: str) -> list[PodDecision]:
        """The pods of this name that an object brings, cluster by cluster."""
        decisions: list[PodDecision] = []
        for (owner, cluster_id), brought in self._brought.items():
            if owner != address or brought.scene is None:
                continue
            cluster, standing = self.clusters[cluster_id], self._standing.get(cluster_id, {})
            of_name = [outcome for outcome in brought.everything() if outcome.name == name]
            for outcome in of_name:
                own = (outcome.workload, outcome.number)
                others = tuple(pod for key, pod in standing.items() if key != own)
                decisions.append(PodDecision(cluster, outcome, brought.scene, others))
        return decisions

    def places(self) -> list[PlannedPod]:
        """All pods that have a node after the plan."""
        pods: list[PlannedPod] = []
        for (_, cluster_id), brought in self._brought.items():
            running = [outcome for outcome in brought.everything() if outcome.node]
            pods += [_planned_pod(cluster_id, each, each.spec) for each in running if each.spec is not None]
        return pods


def _as_foretold(pods: Sequence[StandingPod], foretold: Mapping[int, str]) -> list[StandingPod]:
    """Pods of one workload with the numbers that state has for their nodes, as far as it does."""
    if "/StatefulSet/" in pods[0].workload:
        return list(pods)
    numbers: dict[int, int] = {}
    for at, pod in enumerate(pods):
        same = (number for number, node in foretold.items() if node == pod.node)
        number = next((number for number in same if number not in numbers.values()), None)
        if number is not None:
            numbers[at] = number
    free = (number for number in count() if number not in numbers.values())
    return [replace(pod, number=numbers[at] if at in numbers else next(free)) for at, pod in enumerate(pods)]


def _after(brought: _Brought, earlier: PodOutcome | None, outcome: PodOutcome) -> PodOutcome:
    """What became of a pod after another look: one that a former look of this plan placed stays its."""
    if earlier is not None and earlier.trigger and not outcome.trigger:
        if earlier.node == outcome.node:
            return earlier
        outcome = replace(outcome, action=earlier.action, previous=earlier.previous)
    if outcome.trigger == forecast.TEMPLATE_CHANGED and brought.overridden:
        return replace(outcome, trigger=OVERRIDE_CHANGED)
    return outcome


def _show(brought: _Brought, cluster: NodeCluster) -> None:
    """The value of the object that brings the pods, in place: others hold it already."""
    brought.shown.clear()
    for workload in brought.workloads:
        brought.shown[workload.key] = {
            outcome.name: pod_values(cluster, workload, outcome, brought.note(outcome))
            for outcome in brought.of(workload.key)
        }


def _planned_pod(cluster_id: str, outcome: PodOutcome, spec: PodSpec) -> PlannedPod:
    labels = dict(spec.labels)
    return PlannedPod(cluster_id, outcome.node, spec.namespace, outcome.name, labels, outcome.trigger)


def _number(workload: str, pod: str) -> int:
    """The number in a pod's name as `Workload.pod_name` makes it."""
    digits = pod.rpartition("-")[2]
    return int(digits) if digits.isdecimal() and workload.split("/")[1:2] != ["Pod"] else 0
