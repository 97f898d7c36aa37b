"""Rack spread: fewest VMs of the pool (or first, of the cluster), then fewest VMs, then least memory."""

from __future__ import annotations

from nexusform.scheduling.racks.rule import MEMORY_BITS, Differs, Key
from nexusform.scheduling.racks.vms import Demand, gib


def _vms(count: int) -> str:
    return "1 VM" if count == 1 else f"{count} VMs"


def _of_cluster(demand: Demand, count: int) -> str:
    return f"{_vms(count)} of {demand.vm.cluster}"


def _of_pool(demand: Demand, count: int) -> str:
    return f"{_vms(count)} of {demand.vm.pool}"


# VMs of the cluster on the rack: the first key under rack_spread = "cluster".
OF_CLUSTER = Key(
    rule="rack_spread",
    opens=lambda usage, _demand: usage.cluster.racks,
    words=_of_cluster,
    differs=Differs.WHERE_CLUSTER_STANDS,
)
# VMs of the pool on the rack.
OF_POOL = Key(
    rule="rack_spread",
    opens=lambda usage, _demand: usage.pool.racks,
    words=_of_pool,
    differs=Differs.WHERE_POOL_STANDS,
)
# VMs on the rack, whoever they belong to.
ALL_VMS = Key(
    rule="rack_spread",
    opens=lambda usage, _demand: usage.rack_vms,
    words=lambda _demand, count: _vms(count),
    differs=Differs.NOWHERE,
)
# MiB used by VMs on the rack.
MEMORY_USED = Key(
    rule="rack_spread",
    opens=lambda usage, _demand: usage.rack_memory,
    words=lambda _demand, mib: f"{gib(mib):,} GiB",
    figure=gib,
    bits=MEMORY_BITS,
    differs=Differs.NOWHERE,
)
