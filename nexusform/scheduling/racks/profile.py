"""Placement policy: the rules and their order. Read this file to know where a VM is placed.

A VM's candidates are the machines that no filter rejects (a machine of last resort only if it is the last
one). Of their racks the one with the lowest keys is chosen, then of its candidates the machine with the
lowest keys. Keys are compared one after the other; rules/tie_break.py decides ties. On the machine it takes
the fitting cells with the lowest keys, then the lowest number.

Placement, counts of free capacity, shortages and explanations all use these tables (rule.py defines rules).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from nexusform.scheduling.racks.rule import CellKey, Filter, Key, Weigh
from nexusform.scheduling.racks.rules import (
    cells,
    disk,
    extra_large,
    fits,
    hardware,
    hints,
    machine_spread,
    rack_spread,
    schedulable,
    vfs,
    zones,
)
from nexusform.scheduling.racks.vms import PlacementConstraints, RackSpread, VmSku

FILTERS: tuple[Filter, ...] = (
    schedulable.FILTER,
    hardware.FILTER,
    disk.FILTER,
    fits.FILTER,
    vfs.FILTER,
    zones.FILTER,
    hints.FILTER,
)

RACK_KEYS: Mapping[RackSpread, tuple[Key, ...]] = {
    RackSpread.POOL: (hints.RACK_KEY, rack_spread.POOL_VMS, rack_spread.ALL_VMS, rack_spread.MEMORY_USED),
    RackSpread.CLUSTER: (
        hints.RACK_KEY,
        rack_spread.CLUSTER_VMS,
        rack_spread.POOL_VMS,
        rack_spread.ALL_VMS,
        rack_spread.MEMORY_USED,
    ),
}

MACHINE_KEYS: tuple[Key, ...] = (
    hints.MACHINE_KEY,
    machine_spread.CLUSTER_VMS,
    machine_spread.POOL_VMS,
    extra_large.SHARED_MACHINE,
    machine_spread.MEMORY_USED,
)

CELL_KEYS: tuple[CellKey, ...] = (cells.get_free_memory,)


class Profile(Struct, frozen=True, kw_only=True):
    """Placement rule of a site.

    With `weigh` the machines with the highest weights win, in any rack: the best
    `subset_size` tie. `platform`, if it is not Azure, chooses the machine of every VM: all placements are predictions.
    `find_unknown_fact` returns a sentence about an unknown fact needed for the placement of VMs, "" if all are known.
    """

    filters: tuple[Filter, ...] = FILTERS
    rack_keys: Mapping[RackSpread, tuple[Key, ...]]
    machine_keys: tuple[Key, ...]
    weigh: Weigh | None = None
    subset_size: int = 1
    platform: str = ""
    find_unknown_fact: Callable[[VmSku, PlacementConstraints], str] = lambda _sku, _constraints: ""


NEXUS: Final = Profile(rack_keys=RACK_KEYS, machine_keys=MACHINE_KEYS)
