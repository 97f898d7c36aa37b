"""Extra-large: such VMs of different clusters share machines, so that fewer cells are broken."""

from __future__ import annotations

from nexusform.scheduling.racks.layout import Figure, Usage
from nexusform.scheduling.racks.rule import Key, KeyDependence
from nexusform.scheduling.racks.vms import Demand


def _build_figures(usage: Usage, demand: Demand) -> Figure | None:
    """Build figures: 0 on machines with an extra-large VM of another cluster, else 1."""
    if not demand.sku.extra_large:
        return None
    site_counts, cluster_counts = usage.extra_large, usage.cluster.extra_large
    return lambda machine: int(site_counts[machine] <= cluster_counts[machine])


def _describe(demand: Demand, is_alone: int) -> str:
    if not demand.sku.extra_large:
        return ""
    return "no extra-large VM of another cluster" if is_alone else ("runs an extra-large VM of another cluster")


SHARED_MACHINE = Key(
    rule="extra_large", build_figures=_build_figures, describe=_describe, bits=1, dependence=KeyDependence.CLUSTER
)
