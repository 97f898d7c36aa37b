"""Placement policy of VMs: the rules and their order.

A VM's candidates are the machines not rejected by any filter (a machine of last resort only if it
is the last one). Of their racks the one with the lowest keys is chosen, then of its candidates
the machine with the lowest keys. Keys are compared one after the other; rules/tie_break.py
decides ties. On the machine it takes the fitting cells with the lowest keys, then the lowest
number. Placement, counts of free capacity, shortages and explanations all use these tables
(rule.py defines rules).
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from nexusform.doubts.doubt import Doubt
from nexusform.scheduling.racks.rule import CellKey, Filter, RankingKey, Weigh
from nexusform.scheduling.racks.rules import cells, hints, machine_filters, spread_keys, zones
from nexusform.scheduling.racks.vms import PlacementConstraints, RackSpread, VmSku

FILTERS: tuple[Filter, ...] = (
    machine_filters.SCHEDULABLE,
    machine_filters.HARDWARE,
    machine_filters.DISK,
    cells.FITS,
    cells.VFS,
    zones.FILTER,
    hints.FILTER,
)

RACK_KEYS: Mapping[RackSpread, tuple[RankingKey, ...]] = {
    RackSpread.POOL: (
        hints.RACK_KEY,
        spread_keys.RACK_POOL_VMS,
        spread_keys.RACK_ALL_VMS,
        spread_keys.RACK_MEMORY_USED,
    ),
    RackSpread.CLUSTER: (
        hints.RACK_KEY,
        spread_keys.RACK_CLUSTER_VMS,
        spread_keys.RACK_POOL_VMS,
        spread_keys.RACK_ALL_VMS,
        spread_keys.RACK_MEMORY_USED,
    ),
}

MACHINE_KEYS: tuple[RankingKey, ...] = (
    hints.MACHINE_KEY,
    spread_keys.MACHINE_CLUSTER_VMS,
    spread_keys.MACHINE_POOL_VMS,
    spread_keys.SHARED_MACHINE,
    spread_keys.MACHINE_MEMORY_USED,
)

CELL_KEYS: tuple[CellKey, ...] = (cells.get_free_memory,)


class SchedulerProfile(Struct, frozen=True, kw_only=True):
    """Placement rule of a site.

    With `weigh` the machines with the highest weights win, in any rack: the best `subset_size` tie.
    `platform`, if it is not Azure, chooses the machine of every VM: all placements are predictions.
    `find_unread_fact` returns a fact needed for the placement of VMs that is not known, with a
    sentence as its reason; None if all are known.
    """

    filters: tuple[Filter, ...] = FILTERS
    rack_keys: Mapping[RackSpread, tuple[RankingKey, ...]]
    machine_keys: tuple[RankingKey, ...]
    weigh: Weigh | None = None
    subset_size: int = 1
    platform: str = ""
    find_unread_fact: Callable[[VmSku, PlacementConstraints], Doubt | None] = (
        lambda _sku, _constraints: None
    )


NEXUS: Final = SchedulerProfile(rack_keys=RACK_KEYS, machine_keys=MACHINE_KEYS)
