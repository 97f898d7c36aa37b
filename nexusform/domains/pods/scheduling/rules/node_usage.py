"""Rules by the resources, host ports and disks in use on a node."""

from itertools import product
from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage

NO_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
NO_DISK: Final = "node(s) had no available disk"
# Kubernetes' word for every address; nothing listens here.
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104


def find_port_rejection(pod: PodSpec, _node: Node, usage: NodeUsage) -> str | None:
    """Return a reason if a host port of the pod is in use (NodePorts)."""
    for own, used in product(pod.host_ports, usage.ports):
        is_same_address = own.address == used.address or _ANY_ADDRESS in (own.address, used.address)
        if is_same_address and (own.port, own.protocol) == (used.port, used.protocol):
            return NO_PORTS
    return None


def find_resource_rejection(pod: PodSpec, node: Node, usage: NodeUsage) -> str | None:
    """Return every insufficient resource, joined by ", "; None if the pod fits.

    The words are those of Kubernetes (NodeResourcesFit). Ephemeral storage is compared only with a
    node with a known amount.
    """
    shortages = ["Too many pods"] if usage.pods + 1 > node.pods else []
    requests = pod.requests
    # A request of 0 always fits, even a node with more used than it has.
    if requests.cpu > max(0, node.cpu - usage.cpu):
        shortages.append("Insufficient cpu")
    if requests.memory > max(0, node.memory - usage.memory):
        shortages.append("Insufficient memory")
    for name, amount in requests.other_resources:
        if name == "ephemeral-storage" and name not in node.other_resources:
            # The capacity is not known, rather than none.
            continue
        if amount > max(0, node.other_resources.get(name, 0) - usage.other_resources.get(name, 0)):
            shortages.append(f"Insufficient {name}")
    return ", ".join(shortages) or None


def find_disk_rejection(pod: PodSpec, _node: Node, usage: NodeUsage) -> str | None:
    """Return a reason if a pod on the node has a disk of the pod, and one of them writes to it.

    This is the plugin VolumeRestrictions.
    """
    pairs = product(pod.disks, usage.disks)
    has_conflict = any(
        own.name == used.name and not (own.is_read_only and used.is_read_only)
        for own, used in pairs
    )
    return NO_DISK if has_conflict else None


def score_free_resources(pod: PodSpec, node: Node, usage: NodeUsage) -> int:
    """Return the mean percentage of CPU and memory free after the placement, 0..100.

    This is the strategy LeastAllocated.
    """
    total = resource_count = 0
    for requested, capacity in (
        # No request counts as 100m and 200 MiB.
        (usage.scored_cpu + pod.scored_requests.cpu, node.cpu),
        (usage.scored_memory + pod.scored_requests.memory, node.memory),
    ):
        # Else the resource does not count.
        if capacity:
            resource_count += 1
            # Above the capacity, the score is 0.
            if requested <= capacity:
                total += (capacity - requested) * 100 // capacity
    return total // resource_count if resource_count else 0


def score_balance(pod: PodSpec, node: Node, usage: NodeUsage) -> int:
    """Return the balance of the node's CPU and memory with the pod, 0 without requests.

    This is the plugin NodeResourcesBalancedAllocation. Newer versions rate its improvement by the
    pod from 50 to 100.
    """
    if not pod.requests.cpu and not pod.requests.memory:
        return 0
    balance = _compute_balance(
        node, usage.cpu + pod.requests.cpu, usage.memory + pod.requests.memory
    )
    # An older version.
    if not pod.compares_balance:
        return balance
    # -50 to 50.
    improvement = balance - _compute_balance(node, usage.cpu, usage.memory)
    return 50 + (50 + improvement) // 2


def _compute_balance(node: Node, cpu: int, memory: int) -> int:
    """Return (1 - half the distance of the used fractions of CPU and memory) * 100.

    100 if a capacity is 0.
    """
    if not node.cpu or not node.memory:
        return 100
    distance = min(cpu / node.cpu, 1.0) - min(memory / node.memory, 1.0)
    return int((1 - abs(distance / 2)) * 100)
