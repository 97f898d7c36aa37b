"""Rack spread: fewest VMs of the pool (or first, of the cluster), then fewest VMs, then least memory."""

from __future__ import annotations

from nexusform.scheduling.racks.faces import KeyPart, RackUse
from nexusform.scheduling.racks.model import Demand


def of_cluster(demand: Demand, rack: RackUse) -> KeyPart:
    """VMs of the cluster on the rack: the first key under rack_spread = "cluster"."""
    return KeyPart("rack_spread", rack.cluster_vms, f"{_vms(rack.cluster_vms)} of {demand.vm.cluster}")


def of_pool(demand: Demand, rack: RackUse) -> KeyPart:
    """VMs of the pool on the rack."""
    return KeyPart("rack_spread", rack.pool_vms, f"{_vms(rack.pool_vms)} of {demand.vm.pool}")


def all_vms(_demand: Demand, rack: RackUse) -> KeyPart:
    """VMs on the rack, whoever they belong to."""
    return KeyPart("rack_spread", rack.vms, _vms(rack.vms))


def memory_used(_demand: Demand, rack: RackUse) -> KeyPart:
    """GiB used by VMs on the rack."""
    return KeyPart("rack_spread", rack.memory_used, f"{rack.memory_used:,} GiB")


def _vms(count: int) -> str:
    return "1 VM" if count == 1 else f"{count} VMs"
