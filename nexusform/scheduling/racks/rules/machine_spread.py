"""Machine spread: fewest VMs of the cluster, then of the pool, then the least memory used."""

from __future__ import annotations

from nexusform.scheduling.racks.rule import MEMORY_BITS, Differs, Key
from nexusform.scheduling.racks.vms import gib


def _vms_of(vms: int, name: str) -> str:
    return f"no VM of {name}" if vms == 0 else f"{vms} VM{'s' if vms > 1 else ''} of {name}"


# VMs of the cluster on the machine.
OF_CLUSTER = Key(
    rule="machine_spread",
    opens=lambda usage, _demand: usage.cluster.machines,
    words=lambda demand, vms: _vms_of(vms, demand.vm.cluster),
    differs=Differs.WHERE_CLUSTER_STANDS,
)
# VMs of the pool on the machine.
OF_POOL = Key(
    rule="machine_spread",
    opens=lambda usage, _demand: usage.pool.machines,
    words=lambda demand, vms: _vms_of(vms, demand.vm.pool),
    differs=Differs.WHERE_POOL_STANDS,
)
# MiB used by VMs on the machine.
MEMORY_USED = Key(
    rule="machine_spread",
    opens=lambda usage, _demand: usage.memory,
    words=lambda _demand, mib: f"{gib(mib):,} GiB",
    figure=gib,
    bits=MEMORY_BITS,
    differs=Differs.NOWHERE,
)
