"""Pods of re-created nodes: their nodes meanwhile, and violated constraints. A node is drained before its VM is
re-created. Pods with hugepages or devices need another node, and separation rules over workloads must hold.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.whatif.questions.pod_outage import simulate_nodes_down, simulate_nodes_up
from nexusform.domains.whatif.questions.repack_context import RepackContext, find_pods_without_resources
from nexusform.domains.whatif.questions.repack_separation import SeparationRule, VmLocation
from nexusform.domains.whatif.questions.repack_windows import MovedPod, RepackStep, RepackWindow
from nexusform.scheduling.racks.vms import Placement

_DAEMONS: Final = "DaemonSet"
_MACHINE_LABELS: Final = ("baremetalmachine", "CIS-node", "kubernetes.io/zone")
_ZONE_LABEL: Final = "topology.kubernetes.io/zone"


def simulate_window_pods(
    context: RepackContext, windows: Sequence[RepackWindow], separation_rules: Sequence[SeparationRule] = ()
) -> tuple[list[RepackWindow], frozenset[int]]:
    """Drain the nodes of every window and bring them up again; return the windows with their pods, and the VMs
    (handles) with violated pod constraints.
    """
    simulation = _PodSimulation(context, [rule for rule in separation_rules if rule.has_workloads])
    checked_windows = list(map(simulation.drain_window, windows))
    return checked_windows, frozenset(simulation.violating)


class _PodSimulation:
    """Location of every VM and pod, window by window."""

    def __init__(self, context: RepackContext, separation_rules: Sequence[SeparationRule]) -> None:
        self._context = context
        self._separation_rules = separation_rules
        self._pods = dict(context.pods)  # by cluster id, with nodes on their current machines
        self._existing = {cluster: pods.existing for cluster, pods in context.pods.items()}  # on their current nodes
        self._locations: dict[tuple[str, str], Placement] = {
            (cluster.id, vm.name): vm.placement
            for cluster, pool in zip(context.clusters, context.pools, strict=True)
            for vm in pool.vms
        }
        self._shared_before = self._find_shared_locations()
        self.violating: set[int] = set()  # handles of VMs

    def drain_window(self, window: RepackWindow) -> RepackWindow:
        """Run one window: its nodes go down, then up on their targets. Return it with the moved pods; add its VMs to
        `violating` if a constraint on pods is violated.
        """
        steps_by_cluster = group_by(window.steps, lambda step: self._context.clusters[step.source.pool].id)
        moved_pods: list[MovedPod] = []
        for cluster, steps in steps_by_cluster.items():
            if cluster in self._pods:  # its pods are known
                moved_pods += self._drain_nodes(cluster, steps)
            self._locations |= {(cluster, step.source.vm.name): step.target for step in steps}
        shared = self._find_shared_locations()
        if shared - self._shared_before:  # a violation before the repacking does not count
            self.violating |= {step.source.handle for step in window.steps}
        return replace(window, pods=tuple(moved_pods))

    def _drain_nodes(self, cluster: str, steps: Sequence[RepackStep]) -> list[MovedPod]:
        """Drain the nodes of one cluster and bring them up on their target machines. Record VMs with pods without
        resources meanwhile; return the moved pods, without those of DaemonSets.
        """
        nodes = {step.source.vm.name: step for step in steps}  # drained ones by name
        pods, existing = self._pods[cluster], self._existing[cluster]
        impacts, meanwhile = simulate_nodes_down(pods, existing, nodes.keys(), is_drained=True)
        for pod, _ in find_pods_without_resources(pods, existing, nodes.keys()):
            self.violating.add(nodes[pod.node].source.handle)
        moved_nodes = tuple(
            _move_node(node, nodes[node.name].target) if node.name in nodes else node for node in pods.cluster.nodes
        )
        self._pods[cluster] = moved_cluster = replace(pods, cluster=replace(pods.cluster, nodes=moved_nodes))
        self._existing[cluster] = simulate_nodes_up(moved_cluster, meanwhile)
        final_nodes = {(pod.workload, pod.name): pod.node for pod in self._existing[cluster]}
        moved: list[MovedPod] = []
        for impact in impacts:
            if impact.workload.split("/")[1] == _DAEMONS:  # of <namespace>/<kind>/<name>
                continue
            for move in impact.moves:
                nodes_of_pod = (move.old_node, move.node, final_nodes.get((impact.workload, move.pod), ""))
                moved.append(MovedPod(cluster, impact.workload, move.pod, *nodes_of_pod, move.is_certain))
        return moved

    def _find_shared_locations(self) -> frozenset[tuple[int, str]]:
        """Find machines and racks shared by groups to be separated: (number of their rule, location)."""
        if not self._separation_rules:
            return frozenset()
        vm_locations: list[VmLocation] = []
        for cluster, pool in zip(self._context.clusters, self._context.pools, strict=True):
            specs: dict[str, list[PodSpec]] = {}  # of pods by node
            for pod in self._existing.get(cluster.id, ()):
                specs.setdefault(pod.node, []).append(pod.spec)
            for vm in pool.vms:
                # As in the keys of rules: single VMs of one block are one pool.
                pool_key = pool.owner.owner, pool.demand.rule_pool or pool.name
                location = self._locations[cluster.id, vm.name]
                vm_locations.append(VmLocation(pool_key, location, tuple(specs.get(vm.name, ()))))
        return frozenset(
            (number, location)
            for number, rule in enumerate(self._separation_rules)
            for location in rule.find_shared_locations(vm_locations)
        )


def _move_node(node: Node, location: Placement) -> Node:
    """Return a node on another machine, with updated machine and zone labels."""
    labels = dict(node.labels)
    for key, value in node.labels.items():
        if key == _ZONE_LABEL and value == node.zone:
            labels[key] = location.availability_zone
        elif value == node.machine and key.endswith(_MACHINE_LABELS):
            labels[key] = location.machine
    return replace(node, labels=labels, machine=location.machine, rack=location.rack, zone=location.availability_zone)
