"""Rack spread: fewest VMs of the pool (or first, of the cluster), then fewest VMs, then least memory."""

from __future__ import annotations

from nexusform.scheduling.racks.rule import MEMORY_BITS, Key, KeyDependence
from nexusform.scheduling.racks.vms import Demand, convert_to_gib


def _describe_count(count: int) -> str:
    return "1 VM" if count == 1 else f"{count} VMs"


def _describe_cluster_count(demand: Demand, count: int) -> str:
    return f"{_describe_count(count)} of {demand.vm.cluster}"


def _describe_pool_count(demand: Demand, count: int) -> str:
    return f"{_describe_count(count)} of {demand.vm.pool}"


# VMs of the cluster on the rack: the first key under rack_spread = "cluster".
CLUSTER_VMS = Key(
    rule="rack_spread",
    build_figures=lambda usage, _demand: usage.cluster.racks,
    describe=_describe_cluster_count,
    dependence=KeyDependence.CLUSTER,
)
# VMs of the pool on the rack.
POOL_VMS = Key(
    rule="rack_spread",
    build_figures=lambda usage, _demand: usage.pool.racks,
    describe=_describe_pool_count,
    dependence=KeyDependence.POOL,
)
# VMs of any owner on the rack.
ALL_VMS = Key(
    rule="rack_spread",
    build_figures=lambda usage, _demand: usage.rack_vms,
    describe=lambda _demand, count: _describe_count(count),
    dependence=KeyDependence.NONE,
)
# MiB used by VMs on the rack.
MEMORY_USED = Key(
    rule="rack_spread",
    build_figures=lambda usage, _demand: usage.rack_memory,
    describe=lambda _demand, mib: f"{convert_to_gib(mib):,} GiB",
    convert_figure=convert_to_gib,
    bits=MEMORY_BITS,
    dependence=KeyDependence.NONE,
)
