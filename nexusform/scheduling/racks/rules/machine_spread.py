"""Machine spread: fewest VMs of the cluster, then of the pool, then the least memory used."""

from __future__ import annotations

from nexusform.scheduling.racks.rule import MEMORY_BITS, Key, KeyDependence
from nexusform.scheduling.racks.vms import convert_to_gib


def _describe_vms(vms: int, name: str) -> str:
    return f"no VM of {name}" if vms == 0 else f"{vms} VM{'s' if vms > 1 else ''} of {name}"


# VMs of the cluster on the machine.
CLUSTER_VMS = Key(
    rule="machine_spread",
    build_figures=lambda usage, _demand: usage.cluster.machines,
    describe=lambda demand, vms: _describe_vms(vms, demand.vm.cluster),
    dependence=KeyDependence.CLUSTER,
)
# VMs of the pool on the machine.
POOL_VMS = Key(
    rule="machine_spread",
    build_figures=lambda usage, _demand: usage.pool.machines,
    describe=lambda demand, vms: _describe_vms(vms, demand.vm.pool),
    dependence=KeyDependence.POOL,
)
# MiB used by VMs on the machine.
MEMORY_USED = Key(
    rule="machine_spread",
    build_figures=lambda usage, _demand: usage.memory,
    describe=lambda _demand, mib: f"{convert_to_gib(mib):,} GiB",
    convert_figure=convert_to_gib,
    bits=MEMORY_BITS,
    dependence=KeyDependence.NONE,
)
