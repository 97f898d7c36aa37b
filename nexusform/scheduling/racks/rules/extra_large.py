"""Extra-large: such VMs of different clusters share machines, so that fewer cells are broken."""

from __future__ import annotations

from nexusform.scheduling.racks.layout import Figure, Usage
from nexusform.scheduling.racks.rule import Differs, Key
from nexusform.scheduling.racks.vms import Demand


def _alone(usage: Usage, demand: Demand) -> Figure | None:
    """0 where an extra-large VM of another cluster is (presence, not count), else 1."""
    if not demand.sku.extra_large:
        return None
    of_all, of_cluster = usage.extra_large, usage.cluster.extra_large
    return lambda machine: int(of_all[machine] <= of_cluster[machine])


def _words(demand: Demand, alone: int) -> str:
    if not demand.sku.extra_large:
        return ""
    return "no extra-large VM of another cluster" if alone else "houses an extra-large VM of another cluster"


COMPANY = Key(rule="extra_large", opens=_alone, words=_words, bits=1, differs=Differs.WHERE_CLUSTER_STANDS)
