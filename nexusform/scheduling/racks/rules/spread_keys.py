"""Spread: racks and machines with the fewest VMs first.

A VM takes a rack with the fewest VMs of the pool (or first, of the cluster), then the fewest VMs,
then the least memory used. On the rack it takes a machine with the fewest VMs of the cluster, then
of the pool, then the least memory used.
"""

from nexusform.scheduling.racks.layout import Figure, Usage
from nexusform.scheduling.racks.rule import MEMORY_BITS, KeyDependence, RankingKey
from nexusform.scheduling.racks.vms import Demand, convert_to_gib


def _format_vm_count(count: int) -> str:
    return "1 VM" if count == 1 else f"{count} VMs"


# VMs of the cluster on the rack: the first key under rack_spread = "cluster".
RACK_CLUSTER_VMS = RankingKey(
    rule="rack_spread",
    build_figures=lambda usage, _demand: usage.cluster.racks,
    describe=lambda demand, count: f"{_format_vm_count(count)} of {demand.vm.cluster}",
    dependence=KeyDependence.CLUSTER,
)
# VMs of the pool on the rack.
RACK_POOL_VMS = RankingKey(
    rule="rack_spread",
    build_figures=lambda usage, _demand: usage.pool.racks,
    describe=lambda demand, count: f"{_format_vm_count(count)} of {demand.vm.pool}",
    dependence=KeyDependence.POOL,
)
# VMs of any owner on the rack.
RACK_ALL_VMS = RankingKey(
    rule="rack_spread",
    build_figures=lambda usage, _demand: usage.rack_vms,
    describe=lambda _demand, count: _format_vm_count(count),
    dependence=KeyDependence.NONE,
)
# MiB used by VMs on the rack.
RACK_MEMORY_USED = RankingKey(
    rule="rack_spread",
    build_figures=lambda usage, _demand: usage.rack_memory,
    describe=lambda _demand, mib: f"{convert_to_gib(mib):,} GiB",
    convert_figure=convert_to_gib,
    bits=MEMORY_BITS,
    dependence=KeyDependence.NONE,
)


def _describe_vms_of_owner(vms: int, name: str) -> str:
    return f"{_format_vm_count(vms)} of {name}" if vms else f"no VM of {name}"


# VMs of the cluster on the machine.
MACHINE_CLUSTER_VMS = RankingKey(
    rule="machine_spread",
    build_figures=lambda usage, _demand: usage.cluster.machines,
    describe=lambda demand, vms: _describe_vms_of_owner(vms, demand.vm.cluster),
    dependence=KeyDependence.CLUSTER,
)
# VMs of the pool on the machine.
MACHINE_POOL_VMS = RankingKey(
    rule="machine_spread",
    build_figures=lambda usage, _demand: usage.pool.machines,
    describe=lambda demand, vms: _describe_vms_of_owner(vms, demand.vm.pool),
    dependence=KeyDependence.POOL,
)
# MiB used by VMs on the machine.
MACHINE_MEMORY_USED = RankingKey(
    rule="machine_spread",
    build_figures=lambda usage, _demand: usage.memory,
    describe=lambda _demand, mib: f"{convert_to_gib(mib):,} GiB",
    convert_figure=convert_to_gib,
    bits=MEMORY_BITS,
    dependence=KeyDependence.NONE,
)


def _build_spread_figure(usage: Usage, demand: Demand) -> Figure | None:
    """Return the figure of a machine by number.

    It is 0 (preferred) with an extra-large VM of another cluster, else 1. For other SKUs return
    None: all machines are equal.
    """
    if not demand.sku.extra_large:
        return None
    site_counts = usage.extra_large
    cluster_counts = usage.cluster.extra_large
    return lambda machine: int(site_counts[machine] <= cluster_counts[machine])


def _describe(demand: Demand, is_alone: int) -> str:
    """Describe the figure of a machine.

    It is 1 (`is_alone`) without an extra-large VM of another cluster, else 0.
    """
    if not demand.sku.extra_large:
        return ""
    return (
        "no extra-large VM of another cluster"
        if is_alone
        else "runs an extra-large VM of another cluster"
    )


SHARED_MACHINE = RankingKey(
    rule="extra_large",
    build_figures=_build_spread_figure,
    describe=_describe,
    bits=1,
    dependence=KeyDependence.CLUSTER,
)
