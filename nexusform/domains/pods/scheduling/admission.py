"""kubelet's own look at a pod that has a node: it runs there, or it is Failed and holds nothing.

kube-scheduler asks no kubelet, so all of this is a forecast after its choice and never a filter before it.
Source: kubernetes pkg/kubelet/lifecycle/predicate.go (order and words of the reasons) and
pkg/kubelet/cm/topologymanager (policies; scope container, the default). The CPU manager is taken to be
static wherever a policy is declared: without it no pod has CPUs of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from nexusform.domains.pods.scheduling.board import Usage
from nexusform.domains.pods.scheduling.rules import node_affinity, node_ports
from nexusform.domains.pods.scheduling.rules.taints import NO_EXECUTE
from nexusform.domains.pods.scheduling.workloads import Aligned, Node, PodSpec
from nexusform.kubernetes.matching import untolerated
from nexusform.scheduling.kubelet import STORAGE, TopologyPolicy

_OS: Final = "kubernetes.io/os"
TOPOLOGY: Final = (
    "TopologyAffinityError: Resources cannot be allocated with Topology locality: {what} of one container "
    "are in no {where} of {node}"
)
# What one container has of each cell of a node.
_Share = tuple[Mapping[str, int], ...]


def rejection(pod: PodSpec, node: Node, usage: Usage) -> str:
    """Why kubelet refuses a pod that was given this node by name, "" when it runs it; first reason only."""
    return next(_rejections(pod, node, usage), "")


def _rejections(pod: PodSpec, node: Node, usage: Usage) -> Iterator[str]:
    """Kubelet's own checks that fail, each as it says so."""
    selector = dict(pod.node_selector)
    if _OS in selector and selector[_OS] != node.labels.get(_OS):
        yield "PodOSSelectorNodeLabelDoesNotMatch: the kubernetes.io/os label doesn't match the node's"
    if usage.pods + 1 > node.pods:
        yield _out_of("pods", 1, usage.pods, node.pods)
    requests = pod.requests
    if requests.cpu > node.cpu - usage.cpu:
        yield _out_of("cpu", requests.cpu, usage.cpu, node.cpu)
    if requests.memory > node.memory - usage.memory:
        yield _out_of("memory", requests.memory, usage.memory, node.memory)
    for name, amount in requests.others:
        # kubelet leaves out what its node does not offer at all.
        used, offered = usage.others.get(name, 0), node.others.get(name)
        if offered is not None and amount > offered - used:
            yield _out_of(name, amount, used, offered)
    if not node_affinity.required(pod, node):
        yield f"NodeAffinity: Predicate NodeAffinity failed: {node_affinity.REASON}"
    if node_ports.refuse(pod, node, usage):
        yield f"NodePorts: Predicate NodePorts failed: {node_ports.REASON}"
    # Static pods tolerate everything, so they never come here.
    expelling = [taint for taint in node.taints if taint.effect == NO_EXECUTE]
    taint = untolerated(expelling, pod.tolerations)
    if taint is not None:
        named = f"untolerated taint {{{taint.key}: {taint.value}}}"
        yield f"TaintToleration: Predicate TaintToleration failed: {named}"


def _out_of(resource: str, asked: int, used: int, offered: int) -> str:
    """Kubelet's words for a resource that is short."""
    figures = f"requested: {asked}, used: {used}, capacity: {offered}"
    return f"OutOf{resource}: Node didn't have enough resource: {resource}, {figures}"


class Cells:
    """What is left in each NUMA cell of one node whose topology manager may refuse pods."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._free = [dict(cell) for cell in node.cells]
        self._held: list[tuple[PodSpec, _Share]] = []

    def admit(self, pod: PodSpec) -> str:
        """Give a pod what it wants of the cells; why kubelet refuses it, "" when it runs."""
        shares: list[_Share] = []
        for container in pod.aligned:
            cells = self._chosen(container)
            if cells is None:
                for share in shares:
                    self._add(share, 1)
                return self._refusal(container)
            shares.append(self._take(container, cells))
        self._held += [(pod, share) for share in shares]
        return ""

    def occupy(self, pod: PodSpec) -> None:
        """A pod runs there already: kubelet admitted it, whatever these figures say."""
        everywhere = tuple(range(len(self._free)))
        for container in pod.aligned:
            cells = self._chosen(container)
            self._held.append((pod, self._take(container, everywhere if cells is None else cells)))

    def release(self, pod: PodSpec) -> None:
        """A pod of this spec leaves."""
        for _ in pod.aligned:
            at = next((at for at, (spec, _) in enumerate(self._held) if spec == pod), None)
            if at is not None:
                self._add(self._held.pop(at)[1], 1)

    def _chosen(self, container: Aligned) -> tuple[int, ...] | None:
        """The narrowest set of cells, then the one with the lowest numbers, that the policy accepts."""
        numbers = range(len(self._free))
        single = self._node.policy is TopologyPolicy.SINGLE_NUMA_NODE
        for width in range(1, 2 if single else len(self._free) + 1):
            # restricted: every resource comes from as few cells as it could on an empty node.
            if not single and any(self._fewest_cells(name, amount) != width for name, amount in container):
                continue
            for cells in combinations(numbers, width):
                if all(self._free_in(name, cells) >= amount for name, amount in container):
                    return cells
        return None

    def _fewest_cells(self, name: str, amount: int) -> int:
        """How many cells a resource needs at least on the empty node."""
        offered = sorted((cell.get(name, 0) for cell in self._node.cells), reverse=True)
        for width in range(1, len(offered) + 1):
            if sum(offered[:width]) >= amount:
                return width
        return len(offered)

    def _free_in(self, name: str, cells: Sequence[int]) -> int:
        """How much of a resource these cells have left together."""
        return sum(self._free[cell].get(name, 0) for cell in cells)

    def _take(self, container: Aligned, cells: Sequence[int]) -> _Share:
        """Take what a container asks for from these cells, the first ones first; gives the share, to give it
        back.
        """
        share: list[dict[str, int]] = [{} for _ in self._free]
        for name, amount in container:
            missing = amount
            for cell in cells:
                amount_here = min(missing, max(0, self._free[cell].get(name, 0)))
                share[cell][name] = amount_here
                missing -= amount_here
        self._add(tuple(share), -1)
        return tuple(share)

    def _add(self, share: _Share, sign: int) -> None:
        """Give a share back to the cells (sign 1), or take it (sign -1)."""
        for cell, amounts in zip(self._free, share, strict=True):
            for name, amount in amounts.items():
                cell[name] = cell.get(name, 0) + sign * amount

    def _refusal(self, container: Aligned) -> str:
        single = self._node.policy is TopologyPolicy.SINGLE_NUMA_NODE
        amounts = ", ".join(f"{amount} {name}" for name, amount in container)
        where = "NUMA cell" if single else "narrowest set of NUMA cells"
        return TOPOLOGY.format(what=amounts, where=where, node=self._node.name)


def cells_of(
    cpus: int, reserved: frozenset[int], resources: Mapping[str, Sequence[int]], count: int
) -> tuple[dict[str, int], ...]:
    """What each of `count` cells of a node offers: whole CPUs but the reserved ones, and further resources.

    CPUs lie in blocks, the first cell has the lowest numbers. A resource of one figure is spread evenly, the
    first cells take what is left over.
    """
    cells: list[dict[str, int]] = []
    for cell in range(count):
        first_cpu, end_cpu = cell * cpus // count, (cell + 1) * cpus // count
        offered = {"cpu": len(set(range(first_cpu, end_cpu)) - reserved)}
        for name, amounts in resources.items():
            if name != STORAGE:
                offered[name] = _in_cell(amounts, cell, count)
        cells.append(offered)
    return tuple(cells)


def _in_cell(amounts: Sequence[int], cell: int, count: int) -> int:
    """What one cell has of a resource: one figure is spread evenly, several are of the cells in turn."""
    if len(amounts) == 1:
        share, remainder = divmod(amounts[0], count)
        return share + (cell < remainder)
    return amounts[cell] if cell < len(amounts) else 0
