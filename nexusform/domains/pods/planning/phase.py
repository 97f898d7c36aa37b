"""Pods in a plan: what stands on every cluster, what objects and placements bring, and where it goes.

Pods that stand stay. Those whose node is gone or made anew are placed again; those of workloads that are
gone leave first. What is called for later sees what was placed earlier.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.address import parse_address
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, unwrapped
from nexusform.domains.pods.importers.kubernetes_workloads import workloads_of
from nexusform.domains.pods.planning.brought import (
    Brought,
    PodMap,
    PriorPods,
    Scene,
    as_scaled,
)
from nexusform.domains.pods.planning.cluster_pods import ClusterPods, Key, namespaces_of
from nexusform.domains.pods.planning.disruptions import disruptions_of
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.domains.pods.planning.rows import planned_pod, pod_row
from nexusform.domains.pods.planning.templates import as_made
from nexusform.domains.pods.scheduling import forecast
from nexusform.domains.pods.scheduling.forecast import PodOutcome
from nexusform.domains.pods.scheduling.risks import PodWarning
from nexusform.domains.pods.scheduling.scheduler import predict
from nexusform.domains.pods.scheduling.warnings import evicted_strangers, warnings_of
from nexusform.domains.pods.scheduling.workloads import PodSpec, StandingPod, Workload
from nexusform.planning.phases import HostedWorkload
from nexusform.plans.plan import Disruptions, PlacementChange

BINDING_REMOVED: Final = "binding_removed"
OBJECT_REPLACED: Final = "object_replaced"
# Pods that evict each other in turns would never come to rest.
_MOST_LOOKS: Final = 20


class PodDecision(Struct, frozen=True):
    """A pod of the plan, the scene in which it was first looked at, and what stands beside it afterwards."""

    cluster: NodeCluster
    outcome: PodOutcome
    scene: Scene
    others: tuple[StandingPod, ...]


class PodPhase(ClusterPods):
    """Places the pods of one plan. Call `place` for whatever brings objects to a cluster, in order;
    `leave` for what no longer does. A name is a cluster's id or, through `members`, a member's name.
    """

    def _adopt(self, brought: Brought, cluster: NodeCluster) -> None:
        """The pods of an object's workloads that were seen are its own."""
        facts = self._facts.get(cluster.id)
        if not facts:
            return
        for workload in brought.workloads:
            seen = facts.pop(workload.key, ())
            pods = as_made(workload, seen, is_whole=self._is_whole(cluster.id))
            # What stood of an object that is made anew has left; what was seen is there all the same.
            self._standing[cluster.id] |= {(pod.workload, pod.number): pod for pod in pods}
            for pod in pods:
                brought.adopt(pod, cluster, workload.pod.template)

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
            objects = (*self._manifests_on(cluster_id), *others)
            specs = _specs(unwrapped(before or manifests).manifests, objects)
            self._stand(PriorPods(placement_address, cluster_id, prior_workloads), specs)
        brought = self._bringing(*key)
        if brought.before and not prior_workloads and not brought.outcomes:
            self.leave(placement_address, cluster_id)
        brought.manifests = unwrapped(manifests).manifests
        brought.overridden = overridden
        everywhere = self._manifests_on(cluster_id)
        is_whole = self._is_whole(cluster_id)
        reading = workloads_of(brought.manifests, (*everywhere, *others), is_whole=is_whole)
        self.findings += [(placement_address, finding) for finding in reading.findings]
        brought.workloads = as_scaled(reading.workloads, self._made_of.get(cluster_id, {}))
        if not brought.outcomes:
            self._made_from(brought, cluster_id, unwrapped(before).manifests)
            self._know_templates(brought, cluster_id)
        self._adopt(brought, cluster)
        self._decide([key], cluster)
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
            brought = self._bringing(address, cluster_id)
            self._left_alone.pop((address, cluster_id), None)
            brought.manifests = unwrapped(manifests).manifests
        everywhere = self._manifests_on(cluster_id)
        keys: list[Key] = []
        for address, _ in objects:
            brought = self._brought[address, cluster_id]
            reading = workloads_of(brought.manifests, everywhere, is_whole=self._is_whole(cluster_id))
            self.findings += [(address, finding) for finding in reading.findings]
            brought.workloads = as_scaled(reading.workloads, self._made_of.get(cluster_id, {}))
            self._know_templates(brought, cluster_id)
            self._adopt(brought, cluster)
            keys.append((address, cluster_id))
        self._decide(keys, cluster)
        return {address: self._brought[address, cluster_id].shown for address, _ in objects}

    def leave(
        self,
        placement_address: str,
        cluster_name: str,
        trigger: str = BINDING_REMOVED,
        *,
        runs_on: bool = False,
    ) -> None:
        """All pods that an object brought to a cluster go; or run on, taking their room, where the object
        is only forgotten.
        """
        cluster_id = self.members.get(cluster_name, cluster_name)
        brought = self._brought.get((placement_address, cluster_id))
        self._left_alone.pop((placement_address, cluster_id), None)
        if brought is None:
            return
        brought.workloads, brought.manifests, brought.shown, brought.warnings = (), (), {}, ()
        brought.refused = ()
        brought.outcomes.clear()
        standing = dict(self._standing.get(cluster_id, {}))
        for key, pods in brought.before.items():
            self._drop(brought, cluster_id, key, pods, trigger)
        if runs_on:
            self._standing[cluster_id] = standing
            self._forgotten.add(placement_address)
        brought.before, brought.prior_templates = {}, {}

    def remake(self, address: str, workloads: Collection[str]) -> None:
        """The pods of these workloads go that an object brought: they are made anew on the hub."""
        for cluster_id in sorted(self._clusters_of.get(address, ())):
            brought = self._brought[address, cluster_id]
            gone = [key for key in brought.before if key in workloads]
            for key in gone:
                self._drop(brought, cluster_id, key, brought.before.pop(key), OBJECT_REPLACED)

    # --- deciding ---

    def _decide(self, keys: Sequence[Key], cluster: NodeCluster) -> None:
        """Predict the pods of some objects, and those that have not come to rest once more."""
        self._predict(keys, cluster)
        self._look_again(cluster)

    def _know_templates(self, brought: Brought, cluster_id: str) -> None:
        """Give the pods of state the spec that they have: today's, where what they were made from did not
        change.
        """
        for workload in brought.workloads:
            made_from = brought.prior_templates.get(workload.key)
            if made_from in (None, workload.pod.template):
                self._respecify(brought, cluster_id, workload.key, workload.pod)

    def _made_from(self, brought: Brought, cluster_id: str, manifests: tuple[Manifest, ...]) -> None:
        """Give the pods of state the spec that these manifests gave them."""
        specs = _specs(manifests, self._manifests_on(cluster_id))
        for key in brought.before:
            if key in specs:
                brought.prior_templates[key] = specs[key].template
                self._respecify(brought, cluster_id, key, specs[key])

    def _respecify(self, brought: Brought, cluster_id: str, key: str, spec: PodSpec) -> None:
        """Give the pods of a workload of state this spec."""
        standing = self._standing.setdefault(cluster_id, {})
        for pod in brought.respecify(key, spec):
            if (key, pod.number) in standing:
                standing[key, pod.number] = pod

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
        lost = self._lost.get(cluster.id, frozenset())
        scene = Scene(model, standing, tuple(workloads), cluster.seed, lost)
        prediction = predict(model, standing, workloads, seed=cluster.seed, lost=lost)
        self._standing[cluster.id] = {(pod.workload, pod.number): pod for pod in prediction.standing()}
        # A pod is lost once: from now on it is where it was placed.
        decided = (*prediction.outcomes, *prediction.displaced)
        self._lost[cluster.id] = lost.difference((each.workload, each.number) for each in decided)
        warnings = warnings_of(model, prediction)
        for key in keys:
            brought = self._brought[key]
            brought.scene = brought.scene or scene
            own = brought.keys()
            brought.miss(prediction.forecasts)
            brought.take([outcome for outcome in prediction.outcomes if outcome.workload in own])
            brought.warn([warning for warning in warnings if warning.workload in own])
            brought.show(cluster)
        strangers = [each for each in prediction.displaced if not self._displace(each, cluster.id)]
        self._brought[keys[0]].warnings += tuple(evicted_strangers(model, strangers))

    def _displace(self, outcome: PodOutcome, cluster_id: str) -> bool:
        """Tell the object of an evicted pod, if there is one: those of other states and of nobody here have
        none.
        """
        for key, brought in self._brought.items():
            if key[1] == cluster_id and outcome.workload in (brought.before.keys() | brought.outcomes.keys()):
                brought.displace(outcome)
                self._disturbed.add(key)
                return True
        return False

    def _look_again(self, cluster: NodeCluster) -> None:
        """Predict once more what has not come to rest, until nothing changes: what came later may be the
        company that earlier pods wait for, take their place, or be what a rollout waited for.
        """
        for _ in range(_MOST_LOOKS):
            keys = [key for key in self._brought_on.get(cluster.id, {}) if self._is_restless(key)]
            self._disturbed.clear()
            before = self._nodes(cluster.id)
            if keys:
                self._predict(keys, cluster)
            if self._nodes(cluster.id) == before:
                return

    def _is_restless(self, key: Key) -> bool:
        brought = self._brought[key]
        return brought.scene is not None and (key in self._disturbed or not brought.is_at_rest())

    def _drop_former_workloads(self, brought: Brought, cluster_id: str) -> None:
        """The workloads that an object no longer brings go."""
        own = brought.keys()
        for key, pods in list(brought.before.items()):
            if key not in own:
                self._drop(brought, cluster_id, key, pods, forecast.WORKLOAD_REMOVED)

    def _drop(
        self, brought: Brought, cluster_id: str, key: str, pods: Mapping[str, StandingPod], trigger: str
    ) -> None:
        standing = self._standing.get(cluster_id, {})
        for name, pod in pods.items():
            if standing.pop((key, pod.number), None) is not None:
                removal = PodOutcome(key, pod.number, name, forecast.REMOVE, "", pod.node, trigger)
                brought.removed.append(removal)
        brought.outcomes.pop(key, None)

    # --- telling ---

    @property
    def rows(self) -> list[PlacementChange]:
        """A row per pod, those that are kept too: what leaves, then the others, object by object. Nodes
        that refused a pod are named in it.
        """
        rows: list[PlacementChange] = []
        for (address, cluster_id), brought in self._brought.items():
            outcomes = brought.removed_and_kept()
            if not (outcomes or brought.refused):
                continue
            cluster, owner = self.clusters.get(cluster_id), parse_address(address)
            rows += [
                pod_row(
                    owner,
                    cluster_id,
                    cluster,
                    outcome,
                    brought.note(outcome),
                    runs_on=address in self._forgotten,
                )
                for outcome in outcomes
            ]
            if cluster is not None:
                rows += brought.refused_rows(owner, cluster)
        return rows

    @property
    def warnings(self) -> list[tuple[str, str, PodWarning]]:
        """Every risk, with the address of the object that brings the workload, and the cluster's name."""
        risks: list[tuple[str, str, PodWarning]] = []
        for (address, cluster_id), brought in self._brought.items():
            risks += [(address, self.clusters[cluster_id].name, warning) for warning in brought.warnings]
        return risks

    def disruptions(self, cluster_id: str, nodes: Collection[str]) -> Disruptions:
        """What draining these nodes of a cluster meets: budgets that allow no eviction, and workloads of
        which the one pod that runs is there.
        """
        cluster = self.clusters.get(cluster_id)
        if cluster is None:
            return Disruptions()
        standing = tuple(self._standing.get(cluster_id, {}).values())
        return disruptions_of(self._model(cluster).budgets, standing, nodes)

    def clusters_of_objects(self) -> dict[str, set[str]]:
        """The clusters (ids) on which each object (address) has workloads."""
        clusters: dict[str, set[str]] = {}
        for (address, cluster_id), brought in self._brought.items():
            if brought.workloads:
                clusters.setdefault(address, set()).add(cluster_id)
        return clusters

    def missing_namespaces(self) -> Iterator[tuple[str, str, set[str]]]:
        """Of each object on each cluster (address and cluster id), the namespaces of its pods that nothing
        brings there.
        """
        known = {cluster_id: set(names) for cluster_id, names in self._namespaces.items()}
        for key, brought in self._brought.items():
            names = namespaces_of(brought.manifests) or self._left_alone.get(key, set())
            known.setdefault(key[1], set()).update(names)
        for (address, cluster_id), brought in self._brought.items():
            missing = {workload.namespace for workload in brought.workloads} - known[cluster_id]
            if missing:
                yield address, cluster_id, missing

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

    def places(self) -> list[HostedWorkload]:
        """All pods that have a node after the plan."""
        pods: list[HostedWorkload] = []
        for (_, cluster_id), brought in self._brought.items():
            running = [outcome for outcome in brought.everything() if outcome.node]
            pods += [planned_pod(cluster_id, each, each.spec) for each in running if each.spec is not None]
        return pods


def _specs(manifests: Sequence[Manifest], others: Sequence[Manifest]) -> dict[str, PodSpec]:
    return {workload.key: workload.pod for workload in workloads_of(manifests, others).workloads}
