"""Machine spread: fewest VMs of the cluster, then of the pool, then the least memory used."""

from __future__ import annotations

from nexusform.scheduling.racks.faces import Host, KeyPart
from nexusform.scheduling.racks.model import Demand


def of_cluster(demand: Demand, host: Host) -> KeyPart:
    """VMs of the cluster on the machine."""
    return KeyPart("machine_spread", host.cluster_vms, _count(host.cluster_vms, demand.vm.cluster))


def of_pool(demand: Demand, host: Host) -> KeyPart:
    """VMs of the pool on the machine."""
    return KeyPart("machine_spread", host.pool_vms, _count(host.pool_vms, demand.vm.pool))


def memory_used(_demand: Demand, host: Host) -> KeyPart:
    """GiB used by VMs on the machine."""
    return KeyPart("machine_spread", host.memory_used, f"{host.memory_used:,} GiB")


def _count(vms: int, of: str) -> str:
    return f"no VM of {of}" if vms == 0 else f"{vms} VM{'s' if vms > 1 else ''} of {of}"
