"""The placement policy: which rules, in which order. Read this file to know where a VM goes.

A VM's candidates are the machines that no filter refuses (a machine of last resort only when it is
the last one). Of their racks the one with the lowest keys is chosen, then of its candidates the
machine with the lowest keys; keys are compared one after the other, equal ones by rules/tie_break.py.
On the machine it takes the fitting cells with the lowest keys, equal ones by number.

These tables are what runs: placing, counting of free room, shortages and explanations all read them
(rule.py says what a rule is).
"""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.scheduling.racks.rule import CellKey, Filter, Key
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
from nexusform.scheduling.racks.vms import RackSpread

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
    RackSpread.POOL: (hints.OF_RACK, rack_spread.OF_POOL, rack_spread.ALL_VMS, rack_spread.MEMORY_USED),
    RackSpread.CLUSTER: (
        hints.OF_RACK,
        rack_spread.OF_CLUSTER,
        rack_spread.OF_POOL,
        rack_spread.ALL_VMS,
        rack_spread.MEMORY_USED,
    ),
}

MACHINE_KEYS: tuple[Key, ...] = (
    hints.OF_MACHINE,
    machine_spread.OF_CLUSTER,
    machine_spread.OF_POOL,
    extra_large.COMPANY,
    machine_spread.MEMORY_USED,
)

CELL_KEYS: tuple[CellKey, ...] = (cells.free_memory,)
