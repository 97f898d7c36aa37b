"""Pods in a plan: what stands on every cluster, what objects and placements bring, and where it goes.

Pods that stand stay. Those whose node is gone or made anew are placed again; those of workloads that are
gone leave first. What is called for later sees what was placed earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address, parse_address
from nexusform.diagnostics import Problem
from nexusform.importers.kubernetes_manifests import Manifest, unwrapped
from nexusform.importers.kubernetes_workloads import workloads_of
from nexusform.planning.fleet.world import Render
from nexusform.planning.plan import PlacementAction, PlacementChange, PodPlace
from nexusform.planning.vms.nodes import NodeCluster
from nexusform.scheduling.pods import forecast
from nexusform.scheduling.pods.forecast import PodOutcome, Prediction
from nexusform.scheduling.pods.model import Cluster, PodSpec, StandingPod, Workload
from nexusform.scheduling.pods.scheduler import predict
from nexusform.scheduling.pods.warnings import PodWarning, warnings_of

# What a pod of state carries whose template is older than its workload's: the hash of it.
FORMER: Final = "former_template"
_NAMELESS: Final = "overridden"
OVERRIDE_CHANGED: Final = "override_changed"
BINDING_REMOVED: Final = "binding_removed"
REASONS: Final[Mapping[str, str]] = {
    "new": "new",
    "scale_out": "the workload's replicas were raised",
    "scale_in": "the workload's replicas were lowered",
    "node_removed": "its node is gone or made anew",
    "template_changed": "the pod template changed",
    "override_changed": "an override changed the pod template",
    "workload_removed": "its workload is gone",
    "binding_removed": "the cluster no longer holds the placement",
}
_ACTIONS: Final = {
    forecast.PLACE: PlacementAction.PLACE,
    forecast.MOVE: PlacementAction.MOVE,
    forecast.REMOVE: PlacementAction.REMOVE,
    forecast.KEEP: PlacementAction.KEEP,
}

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
    # The pods of one object on one cluster. `before` are those of state, `after` those of the last call,
    # `shown` the value that was given out, `outcomes` what became of each pod (by workload and number).
    before: dict[str, dict[str, StandingPod]] = field(default_factory=dict)
    noted: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    stood: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    raw: dict[str, str] = field(default_factory=dict)
    noted_manifests: tuple[Manifest, ...] = ()
    outcomes: dict[str, dict[int, PodOutcome]] = field(default_factory=dict)
    removed: list[PodOutcome] = field(default_factory=list)
    shown: PodMap = field(default_factory=dict)
    warnings: tuple[PodWarning, ...] = ()
    overridden: bool = False
    scene: Scene | None = None

    def of(self, workload: str) -> list[PodOutcome]:
        """What became of the pods of a workload, by number."""
        found = self.outcomes.get(workload, {})
        return [found[number] for number in sorted(found)]

    def everything(self) -> Iterable[PodOutcome]:
        """What became of all its pods."""
        return (outcome for found in self.outcomes.values() for outcome in found.values())


class PodPhase:
    """Places the pods of one plan. Call `place` for whatever brings objects to a cluster, in order;
    `leave` for what no longer does. A name is a cluster's id or, through `members`, a member's name.
    """

    def __init__(
        self,
        clusters: Mapping[str, NodeCluster],
        prior: Iterable[PriorPods] = (),
        members: Mapping[str, str] | None = None,
    ) -> None:
        self.clusters = clusters
        self.members: Mapping[str, str] = members if members is not None else {}
        self.findings: list[tuple[str, Problem]] = []
        self._brought: dict[Key, _Brought] = {}
        self._standing: dict[str, dict[PodKey, StandingPod]] = {}
        for held in prior:
            self._stand(held)

    def _stand(self, held: PriorPods) -> None:
        specs = {w.key: w.pod for w in workloads_of(held.manifests).workloads}
        brought = self._brought.setdefault((held.address, held.cluster_id), _Brought())
        brought.noted = held.workloads
        brought.noted_manifests = held.manifests
        brought.raw = {key: spec.template for key, spec in specs.items()}
        here = self._standing.setdefault(held.cluster_id, {})
        for key, pods in held.workloads.items():
            for name, where in pods.items():
                spec = specs.get(key, PodSpec(namespace=key.partition("/")[0]))
                pod = StandingPod(
                    key, _number(key, name), str(where.get("node") or ""), _as_made(spec, brought, key, name)
                )
                brought.before.setdefault(key, {})[name] = pod
                brought.stood[key, name] = where
                here[key, pod.number] = pod

    # --- what the planner calls ---

    def place(
        self,
        placement_address: str,
        cluster_name: str,
        manifests: tuple[Manifest, ...],
        prior_workloads: Mapping[str, Any],
        *,
        others: tuple[Manifest, ...] = (),
        hub: tuple[Manifest, ...] = (),
        overridden: bool = False,
        render: Render | None = None,
    ) -> PodMap:
        """Place the pods of what an object brings to a cluster: workload -> pod -> where it stands.

        `prior_workloads` is what state holds of them; without any, what stood of that object leaves first
        (it is made anew). `hub` are the same manifests before overrides (default: as given), by which
        a change of the template is told from a change of an override; `render` applies the overrides.
        """
        cluster_id = self.members.get(cluster_name, cluster_name)
        cluster = self.clusters.get(cluster_id)
        if cluster is None:
            return {}
        key = (placement_address, cluster_id)
        if prior_workloads and key not in self._brought:
            self._stand(PriorPods(placement_address, cluster_id, prior_workloads, hub or manifests))
        brought = self._brought.setdefault(key, _Brought())
        if brought.before and not prior_workloads:
            self.leave(placement_address, cluster_id)
        brought.manifests = unwrapped(manifests).manifests
        brought.overridden = overridden
        everywhere = self._manifests_on(cluster_id)
        reading = workloads_of(brought.manifests, (*everywhere, *others))
        self.findings += [(placement_address, finding) for finding in reading.findings]
        brought.workloads = reading.workloads
        if render is not None and not overridden:
            # The overrides did not change: what stands was made from the old objects by the same.
            self._made_from(brought, cluster_id, render(brought.noted_manifests))
        self._know_templates(brought, cluster_id, hub)
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
            self._brought.setdefault((address, cluster_id), _Brought()).manifests = unwrapped(
                manifests
            ).manifests
        everywhere = self._manifests_on(cluster_id)
        keys = []
        for address, _ in objects:
            brought = self._brought[address, cluster_id]
            reading = workloads_of(brought.manifests, everywhere)
            self.findings += [(address, finding) for finding in reading.findings]
            brought.workloads = reading.workloads
            self._know_templates(brought, cluster_id, ())
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
        brought.before, brought.noted, brought.raw = {}, {}, {}

    def requests(self, cluster_name: str) -> tuple[int, int]:
        """What the pods with a node on a cluster ask for: thousandths of a CPU, and bytes."""
        cluster_id = self.members.get(cluster_name, cluster_name)
        pods = [p for p in self._standing.get(cluster_id, {}).values() if p.node]
        return sum(p.spec.requests.cpu for p in pods), sum(p.spec.requests.memory for p in pods)

    # --- deciding ---

    def _know_templates(self, brought: _Brought, cluster_id: str, hub: tuple[Manifest, ...]) -> None:
        """Give the pods of state the spec that they have: today's, where what they were made from did not
        change.
        """
        raw = {w.key: w.pod.template for w in workloads_of(hub).workloads} if hub else {}
        here = self._standing.setdefault(cluster_id, {})
        for workload in brought.workloads:
            pods = brought.before.get(workload.key, {})
            then = brought.raw.get(workload.key)
            same = then is None or then == raw.get(workload.key, workload.pod.template)
            if not same:
                continue
            spec = replace(workload.pod, template="") if brought.overridden else workload.pod
            for name, pod in list(pods.items()):
                pods[name] = replace(pod, spec=_as_made(spec, brought, workload.key, name))
                if (workload.key, pod.number) in here:
                    here[workload.key, pod.number] = pods[name]

    def _made_from(self, brought: _Brought, cluster_id: str, manifests: tuple[Manifest, ...]) -> None:
        """Give the pods of state the spec that these manifests gave them."""
        specs = {w.key: w.pod for w in workloads_of(manifests).workloads}
        here = self._standing.setdefault(cluster_id, {})
        for key, pods in brought.before.items():
            for name, pod in list(pods.items()):
                pods[name] = replace(pod, spec=_as_made(specs.get(key, pod.spec), brought, key, name))
                if (key, pod.number) in here:
                    here[key, pod.number] = pods[name]

    def _predict(self, keys: Sequence[Key], cluster: NodeCluster) -> None:
        for key in keys:
            brought = self._brought[key]
            wanted = {w.key for w in brought.workloads}
            for gone in [k for k in brought.before if k not in wanted]:
                self._drop(brought, cluster.id, gone, brought.before[gone], forecast.WORKLOAD_REMOVED)
        workloads = [w for key in keys for w in self._brought[key].workloads]
        if not workloads:
            for key in keys:
                self._brought[key].shown.clear()
            return
        model = self._model(cluster)
        standing = tuple(self._standing.get(cluster.id, {}).values())
        first = not any(self._brought[key].outcomes for key in keys)
        recreated = cluster.fresh if first else frozenset()
        scene = Scene(model, standing, tuple(workloads), cluster.seed, recreated)
        prediction = predict(model, standing, workloads, seed=cluster.seed, recreated=recreated)
        self._standing[cluster.id] = {(p.workload, p.number): p for p in prediction.standing()}
        warnings = warnings_of(model, prediction)
        for key in keys:
            brought = self._brought[key]
            brought.scene = brought.scene or scene
            mine = {w.key for w in brought.workloads}
            self._take(brought, prediction, mine)
            brought.warnings = tuple(w for w in warnings if w.workload in mine)
            self._show(brought, cluster)

    def _retry(self, cluster: NodeCluster, except_for: str) -> None:
        """What came later may be the company that earlier Pending pods wait for."""
        for key, brought in list(self._brought.items()):
            if key[1] != cluster.id or key[0] == except_for:
                continue
            if any(outcome.pending for outcome in brought.everything()):
                self._predict([key], cluster)

    def _model(self, cluster: NodeCluster) -> Cluster:
        manifests = self._manifests_on(cluster.id)
        namespaces = {m.name: m.labels for m in manifests if (m.group, m.kind) == ("", "Namespace")}
        return Cluster(cluster.name, cluster.nodes, namespaces)

    def _manifests_on(self, cluster_id: str) -> list[Manifest]:
        return [m for key, b in self._brought.items() if key[1] == cluster_id for m in b.manifests]

    def _drop(
        self, brought: _Brought, cluster_id: str, key: str, pods: Mapping[str, StandingPod], trigger: str
    ) -> None:
        here = self._standing.get(cluster_id, {})
        for name, pod in pods.items():
            if here.pop((key, pod.number), None) is not None:
                gone = PodOutcome(key, pod.number, name, forecast.REMOVE, "", pod.node, trigger)
                brought.removed.append(gone)
        brought.outcomes.pop(key, None)

    def _take(self, brought: _Brought, prediction: Prediction, mine: set[str]) -> None:
        """Note what became of each pod. A pod that a former call of this plan placed stays placed by it."""
        for outcome in prediction.outcomes:
            if outcome.workload not in mine:
                continue
            here = brought.outcomes.setdefault(outcome.workload, {})
            if outcome.action == forecast.REMOVE:
                if outcome.name in brought.before.get(outcome.workload, {}):
                    brought.removed.append(outcome)
                here.pop(outcome.number, None)
                continue
            earlier = here.get(outcome.number)
            if earlier is not None and earlier.trigger and not outcome.trigger:
                if earlier.node == outcome.node:
                    continue
                outcome = replace(outcome, action=earlier.action, previous=earlier.previous)  # noqa: PLW2901 - the same pod
            if outcome.trigger == forecast.TEMPLATE_CHANGED and brought.overridden:
                outcome = replace(outcome, trigger=OVERRIDE_CHANGED)  # noqa: PLW2901 - the same pod
            here[outcome.number] = outcome

    # --- telling ---

    def _show(self, brought: _Brought, cluster: NodeCluster) -> None:
        nodes = {node.name: node for node in cluster.nodes}
        brought.shown.clear()
        for workload in brought.workloads:
            brought.shown[workload.key] = {
                o.name: self._value(brought, o, nodes) | _former(workload, o)
                for o in brought.of(workload.key)
            }

    def _value(self, brought: _Brought, outcome: PodOutcome, nodes: Mapping[str, Any]) -> dict[str, Any]:
        node = nodes.get(outcome.node)
        noted = brought.noted.get(outcome.workload, {}).get(outcome.name)
        stays = outcome.action == forecast.KEEP and noted is not None
        return {
            "node": node.name if node else None,
            "machine": node.machine if node else None,
            "availability_zone": node.zone if node else None,
            "certain": bool(noted.get("certain")) if stays and noted is not None else outcome.certain,
            "provenance": str(noted.get("provenance")) if stays and noted is not None else "predicted",
        }

    @property
    def rows(self) -> list[PlacementChange]:
        """A row per pod, those that are kept too: what leaves, then the others, object by object. Nodes
        that refused a pod are named in it.
        """
        found = []
        for (address, cluster_id), brought in self._brought.items():
            cluster = self.clusters.get(cluster_id)
            where = parse_address(address)
            outcomes = [*brought.removed, *(o for w in brought.workloads for o in brought.of(w.key))]
            found += [
                _row(where, cluster_id, cluster, o, brought.stood.get((o.workload, o.name))) for o in outcomes
            ]
        return found

    @property
    def warnings(self) -> list[tuple[str, str, PodWarning]]:
        """Every risk, with the address of the object that brings the workload, and the cluster's name."""
        return [
            (address, self.clusters[cluster_id].name, w)
            for (address, cluster_id), brought in self._brought.items()
            for w in brought.warnings
        ]

    def decisions(self, address: str, name: str) -> list[PodDecision]:
        """The pods of this name that an object brings, cluster by cluster."""
        found = []
        for (brings, cluster_id), brought in self._brought.items():
            if brings != address or brought.scene is None:
                continue
            for outcome in brought.everything():
                if outcome.name == name:
                    me = (outcome.workload, outcome.number)
                    others = tuple(p for k, p in self._standing.get(cluster_id, {}).items() if k != me)
                    found.append(PodDecision(self.clusters[cluster_id], outcome, brought.scene, others))
        return found

    def places(self) -> list[PlannedPod]:
        """All pods that have a node after the plan."""
        found = []
        for (_, cluster_id), brought in self._brought.items():
            for outcome in brought.everything():
                spec = outcome.spec
                if outcome.node and spec is not None:
                    found.append(
                        PlannedPod(
                            cluster_id,
                            outcome.node,
                            spec.namespace,
                            outcome.name,
                            dict(spec.labels),
                            outcome.trigger,
                        )
                    )
        return found


def _former(workload: Workload, outcome: PodOutcome) -> dict[str, str]:
    """The template of a pod that an update has not reached: it hangs, or leaves the pod as it is."""
    spec = outcome.spec
    if spec is None or outcome.action != forecast.KEEP or not outcome.node:
        return {}
    return {} if spec.template == workload.pod.template else {FORMER: spec.template or _NAMELESS}


def _as_made(spec: PodSpec, brought: _Brought, workload: str, pod: str) -> PodSpec:
    """The spec of a pod of state: that of its workload, of an older template where state says so."""
    former = brought.noted.get(workload, {}).get(pod, {}).get(FORMER)
    return replace(spec, template=str(former)) if former else spec


def _number(workload: str, pod: str) -> int:
    """The number in a pod's name as `Workload.pod_name` makes it."""
    digits = pod.rpartition("-")[2]
    return int(digits) if digits.isdecimal() and workload.split("/")[1:2] != ["Pod"] else 0


def _row(
    address: Address,
    cluster_id: str,
    cluster: NodeCluster | None,
    outcome: PodOutcome,
    stood: Mapping[str, Any] | None,
) -> PlacementChange:
    name = cluster.name if cluster is not None else cluster_id.rpartition("/")[2]
    gone = outcome.action == forecast.REMOVE
    had = outcome.previous or gone or outcome.action == forecast.KEEP
    reason = outcome.reason if outcome.pending and outcome.reason else REASONS.get(outcome.trigger, "")
    decided = outcome.feasible is not None
    return PlacementChange(
        address,
        "pod",
        outcome.name,
        _ACTIONS[outcome.action],
        _former_place(cluster, name, outcome, stood) if had else None,
        None if gone else _place(cluster, name, outcome.node),
        outcome.trigger,
        cluster="",
        pool=f"{name}/{outcome.workload}",
        number=outcome.number,
        site_id=cluster.site_id if cluster is not None else "",
        reason=reason,
        scores={"certain": outcome.certain, "feasible_nodes": outcome.feasible} if decided else {},
        rejected=outcome.refusals,
    )


def _former_place(
    cluster: NodeCluster | None, name: str, outcome: PodOutcome, noted: Mapping[str, Any] | None
) -> PodPlace:
    """Where a pod was: by state, as its node may stand on another machine by now, or not at all."""
    place = _place(cluster, name, outcome.previous)
    if outcome.action == forecast.KEEP or noted is None or noted.get("node") != outcome.previous:
        return place
    return replace(
        place,
        machine=noted.get("machine") or place.machine,
        availability_zone=noted.get("availability_zone") or place.availability_zone,
    )


def _place(cluster: NodeCluster | None, name: str, node_name: str) -> PodPlace:
    node = cluster.node(node_name) if cluster is not None and node_name else None
    if node is None:
        return PodPlace(name, node_name or None)
    return PodPlace(name, node_name, node.machine, node.zone)
