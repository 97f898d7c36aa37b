"""Admission of a scheduled pod by kubelet.

The pod runs, or it is Failed and uses nothing. kube-scheduler does not consult kubelet, so these
checks run after its choice and never act as a filter. Source: kubernetes
pkg/kubelet/lifecycle/predicate.go (order and texts of the reasons) and
pkg/kubelet/cm/topologymanager (policies; scope container, the default). The CPU manager is assumed
to be static wherever a policy is declared: without it no pod has exclusive CPUs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, combinations
from typing import Final

from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import AlignedRequests, Node, PodSpec
from nexusform.domains.pods.scheduling.rules import node_affinity, node_usage, taints
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage
from nexusform.scheduling.kubelet import STORAGE, TopologyPolicy

_OS: Final = "kubernetes.io/os"
TOPOLOGY: Final = (
    "TopologyAffinityError: Resources cannot be allocated with Topology locality: {what} of one "
    "container are in no {where} of {node}"
)
# Amounts allocated to one container in each cell of a node.
_Share = tuple[Mapping[str, int], ...]


def list_kubelet_rejections(pod: PodSpec, node: Node, usage: NodeUsage) -> Iterator[str]:
    """Yield the failed checks of a pod assigned to this node, as kubelet words them.

    Nothing if kubelet accepts it.
    """
    node_os = node.labels.get(_OS)
    if dict(pod.node_selector).get(_OS, node_os) != node_os:
        yield (
            "PodOSSelectorNodeLabelDoesNotMatch: the kubernetes.io/os label doesn't match the "
            "node's"
        )
    requests = pod.requests
    # Each has a name, and the requested, used and total amount.
    figures = [
        ("pods", 1, usage.pods, node.pods),
        ("cpu", requests.cpu, usage.cpu, node.cpu),
        ("memory", requests.memory, usage.memory, node.memory),
    ]
    figures += [
        (name, amount, usage.other_resources.get(name, 0), node.other_resources[name])
        for name, amount in requests.other_resources
        # A kubelet skips resources unknown to its node.
        if name in node.other_resources
    ]
    for name, amount, used, capacity in figures:
        if amount > capacity - used:
            text = f"requested: {amount}, used: {used}, capacity: {capacity}"
            yield f"OutOf{name}: Node didn't have enough resource: {name}, {text}"
    if not node_affinity.is_node_affinity_satisfied(pod, node):
        yield f"NodeAffinity: Predicate NodeAffinity failed: {node_affinity.REASON}"
    if node_usage.find_port_rejection(pod, node, usage):
        yield f"NodePorts: Predicate NodePorts failed: {node_usage.NO_PORTS}"
    # A kubelet does not check the taints for static pods; these tolerate all of them in any case.
    taint = taints.find_evicting_taint(pod, node)
    if taint is not None:
        taint_text = f"untolerated taint {{{taint.key}: {taint.value}}}"
        yield f"TaintToleration: Predicate TaintToleration failed: {taint_text}"


class NodeNumaCells:
    """Free resources of each NUMA cell of a node with a topology manager."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._permits_one_cell = node.policy is TopologyPolicy.SINGLE_NUMA_NODE
        # Amounts by cell and resource.
        self._free = list(map(dict, node.cells))
        # Of each container, with the spec of its pod.
        self._allocations: list[tuple[PodSpec, _Share]] = []

    def allocate(self, pod: PodSpec) -> str:
        """Allocate NUMA cell resources to a pod, and return "".

        If kubelet rejects the pod, only return the reason.
        """
        shares: list[_Share] = []
        for container in pod.aligned_requests:
            cell_numbers = self._select_numa_cells(container)
            if not cell_numbers:
                # The shares of the containers before are free again.
                for share in shares:
                    self._change_free_capacity(share, sign=1)
                amounts = ", ".join(f"{amount} {name}" for name, amount in container)
                location = "NUMA cell" if self._permits_one_cell else "narrowest set of NUMA cells"
                return TOPOLOGY.format(what=amounts, where=location, node=self._node.name)
            shares.append(self._allocate_from_cells(container, cell_numbers))
        self._allocations += [(pod, share) for share in shares]
        return ""

    def reserve(self, pod: PodSpec) -> None:
        """Reserve cell resources for a running pod, which kubelet has admitted already."""
        all_cells = tuple(range(len(self._free)))
        for container in pod.aligned_requests:
            # The real ones may not be derivable.
            cells = self._select_numa_cells(container) or all_cells
            self._allocations.append((pod, self._allocate_from_cells(container, cells)))

    def release(self, pod: PodSpec) -> None:
        """Release the resources of a pod of this spec."""
        # A terminating pod was admitted before.
        specs = (pod, replace(pod, is_terminating=False))
        own_allocations = [(spec, share) for spec, share in self._allocations if spec in specs]
        # A share per container, of one pod.
        for spec, share in own_allocations[: len(pod.aligned_requests)]:
            self._allocations.remove((spec, share))
            self._change_free_capacity(share, sign=1)

    def _select_numa_cells(self, container: AlignedRequests) -> tuple[int, ...]:
        """Return the NUMA cells for a container by the policy of kubelet's topology manager.

        () if it permits none. The policy single-numa-node permits one cell. The policy restricted
        permits the number of cells needed on an empty node. The first cells (by number) with enough
        free resources are used.
        """
        # Permitted numbers of cells.
        widths = {1}
        if not self._permits_one_cell:
            widths = {self._count_required_cells(name, amount) for name, amount in container}
        if len(widths) != 1:
            # Under the policy restricted, no cells are permitted if resources need different
            # numbers of them.
            return ()
        (width,) = widths
        for cells in combinations(range(len(self._free)), width):
            # Of these cells together, by resource.
            free_amounts: Counter[str] = Counter()
            for cell in cells:
                free_amounts.update(self._free[cell])
            if all(free_amounts[name] >= amount for name, amount in container):
                return cells
        return ()

    def _count_required_cells(self, name: str, amount: int) -> int:
        """Return the minimum number of cells needed for a resource on the empty node."""
        amounts = sorted((cell.get(name, 0) for cell in self._node.cells), reverse=True)
        # Of the largest cell, of the two largest, and so on.
        totals = list(accumulate(amounts))
        # All cells if the node is too small.
        return next(
            (width for width, total in enumerate(totals, 1) if total >= amount), len(totals)
        )

    def _allocate_from_cells(self, container: AlignedRequests, cells: Sequence[int]) -> _Share:
        """Allocate the requests of a container from these cells.

        Return the amounts taken of each, for its release.
        """
        share: list[dict[str, int]] = [{} for _ in self._free]
        for name, amount in container:
            remaining = amount
            for cell in cells:
                cell_amount = min(remaining, max(0, self._free[cell].get(name, 0)))
                share[cell][name] = cell_amount
                remaining -= cell_amount
        self._change_free_capacity(tuple(share), sign=-1)
        return tuple(share)

    def _change_free_capacity(self, share: _Share, sign: int) -> None:
        """Return a share to the cells (sign 1) or allocate it (sign -1)."""
        for cell, amounts in zip(self._free, share, strict=True):
            for name, amount in amounts.items():
                cell[name] = cell.get(name, 0) + sign * amount


def compute_cells(
    cpus: int, reserved: frozenset[int], resources: Mapping[str, Sequence[int]], count: int
) -> tuple[dict[str, int], ...]:
    """Return the capacity of each of `count` NUMA cells.

    It is the number of whole CPUs except reserved ones, and amounts of further `resources`. CPUs
    are numbered in blocks, beginning with the first cell. A resource has an amount per cell, or one
    amount to spread evenly (the first cells get the remainder).
    """
    cells: list[dict[str, int]] = []
    for cell in range(count):
        first_cpu = cell * cpus // count
        end_cpu = (cell + 1) * cpus // count
        capacity = {"cpu": len(set(range(first_cpu, end_cpu)) - reserved)}
        capacity |= {
            name: _compute_cell_amount(amounts, cell, count) for name, amounts in resources.items()
        }
        # It belongs to no cell.
        capacity.pop(STORAGE, None)
        cells.append(capacity)
    return tuple(cells)


def _compute_cell_amount(amounts: Sequence[int], cell: int, count: int) -> int:
    """Return the amount in one cell: one figure is spread evenly, several are per cell."""
    if len(amounts) == 1:
        share, remainder = divmod(amounts[0], count)
        return share + 1 if cell < remainder else share
    return amounts[cell] if cell < len(amounts) else 0
