"""The pods of nodes that are re-created: where they find room meanwhile, and whether that breaks anything.

A node is drained before its VM goes. Whoever asks for hugepages or devices must find them on the nodes that
are left, and nobody may come so near to another that a separation rule over workloads is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.workloads import Node, PodSpec
from nexusform.domains.whatif.questions.pods_down import ClusterPods, bring_back, take_down
from nexusform.domains.whatif.questions.repack_ground import RepackGround, starving
from nexusform.domains.whatif.questions.repack_separation import Apart, Spot
from nexusform.domains.whatif.questions.repack_steps import FollowedPod, RepackStep, RepackWindow
from nexusform.scheduling.racks.vms import Placement

_DAEMONS: Final = "DaemonSet"
_LABELS_OF_A_MACHINE: Final = ("baremetalmachine", "CIS-node", "kubernetes.io/zone")
_LABEL_OF_A_ZONE: Final = "topology.kubernetes.io/zone"


class Following(Struct, frozen=True):
    """The windows with their pods, and the VMs (handles) whose going breaks something."""

    windows: tuple[RepackWindow, ...]
    breaking: frozenset[int] = frozenset()


def follow_pods(
    ground: RepackGround, windows: Sequence[RepackWindow], apart: Sequence[Apart] = ()
) -> Following:
    """Drain the nodes of every window and bring them back."""
    walk = _PodWalk(ground, [rule for rule in apart if rule.has_workloads])
    followed = [walk.go(window) for window in windows]
    return Following(tuple(followed), frozenset(walk.breaking))


class _PodWalk:
    """Where every VM and every pod is, window after window."""

    def __init__(self, ground: RepackGround, apart: Sequence[Apart]) -> None:
        self._ground = ground
        self._apart = apart
        self._pods = dict(ground.pods)
        self._standing = {cluster: pods.standing for cluster, pods in ground.pods.items()}
        self._places: dict[tuple[str, str], Placement] = {
            (cluster.id, vm.name): vm.placement
            for cluster, pool in zip(ground.clusters, ground.pools, strict=True)
            for vm in pool.vms
        }
        self._shared = self._find_shared()
        self.breaking: set[int] = set()

    def go(self, window: RepackWindow) -> RepackWindow:
        """One window: its nodes go, and come back elsewhere."""
        by_cluster: dict[str, list[RepackStep]] = {}
        for step in window.steps:
            by_cluster.setdefault(self._ground.clusters[step.source.pool].id, []).append(step)
        found: list[FollowedPod] = []
        for cluster, steps in by_cluster.items():
            if cluster in self._pods:
                found += self._drain(cluster, steps)
            self._places |= {(cluster, step.source.vm.name): step.to for step in steps}
        shared = self._find_shared()
        if shared - self._shared:
            self.breaking |= {step.source.handle for step in window.steps}
        return replace(window, pods=tuple(found))

    def _drain(self, cluster: str, steps: Sequence[RepackStep]) -> list[FollowedPod]:
        nodes = {step.source.vm.name: step for step in steps}
        pods, standing = self._pods[cluster], self._standing[cluster]
        lefts, meanwhile = take_down(pods, standing, nodes.keys(), drained=True)
        for pod, _ in starving(pods, standing, nodes.keys()):
            self.breaking.add(nodes[pod.node].source.handle)
        self._pods[cluster] = after = _moved(pods, nodes)
        self._standing[cluster] = bring_back(after, meanwhile)
        then = {pod.name: pod.node for pod in self._standing[cluster]}
        return [
            FollowedPod(
                cluster, left.workload, move.pod, move.was, move.node, then.get(move.pod, ""), move.certain
            )
            for left in lefts
            if left.workload.split("/")[1] != _DAEMONS
            for move in left.moves
        ]

    def _find_shared(self) -> frozenset[tuple[int, str]]:
        """The machines and racks that groups of a rule share: (number of the rule, place)."""
        if not self._apart:
            return frozenset()
        spots = list(self._spots())
        return frozenset(
            (number, place) for number, rule in enumerate(self._apart) for place in rule.shared(spots)
        )

    def _spots(self) -> Iterable[Spot]:
        for cluster, pool in zip(self._ground.clusters, self._ground.pools, strict=True):
            specs: dict[str, list[PodSpec]] = {}
            for pod in self._standing.get(cluster.id, ()):
                specs.setdefault(pod.node, []).append(pod.spec)
            for vm in pool.vms:
                key = pool.owner.owner, pool.demand.rule_pool or pool.name
                yield Spot(key, self._places[cluster.id, vm.name], tuple(specs.get(vm.name, ())))


def _moved(pods: ClusterPods, steps: Mapping[str, RepackStep]) -> ClusterPods:
    """The cluster with these nodes on their new machines."""
    nodes = tuple(
        _on(node, steps[node.name].to) if node.name in steps else node for node in pods.cluster.nodes
    )
    return replace(pods, cluster=replace(pods.cluster, nodes=nodes))


def _on(node: Node, place: Placement) -> Node:
    """A node on another machine; the labels that tell machine and zone tell the new ones."""
    labels = dict(node.labels)
    for key, value in node.labels.items():
        if key == _LABEL_OF_A_ZONE and value == node.zone:
            labels[key] = place.availability_zone
        elif value == node.machine and key.endswith(_LABELS_OF_A_MACHINE):
            labels[key] = place.machine
    return replace(node, labels=labels, machine=place.machine, rack=place.rack, zone=place.availability_zone)
