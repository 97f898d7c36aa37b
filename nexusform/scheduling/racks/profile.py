"""The placement policy: which rules, in which order. Read this file to know where a VM goes.

A VM's candidates are the machines that no filter refuses (a machine of last resort only when it is
the last one). Of their racks the one with the lowest keys is chosen, then of its candidates the
machine with the lowest keys; keys are compared one after the other, equal ones by rules/tie_break.py.
On the machine it takes the cells that rules/cells.py ranks first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nexusform.scheduling.racks.faces import Host, KeyPart, RackUse
from nexusform.scheduling.racks.model import Demand, RackSpread
from nexusform.scheduling.racks.rules import (
    disk,
    extra_large,
    fits,
    hardware,
    hints,
    machine_spread,
    rack_spread,
    schedulable,
    zones,
)

Filter = Callable[[Demand, Host], str | None]
RackKey = Callable[[Demand, RackUse], KeyPart]
MachineKey = Callable[[Demand, Host], KeyPart]

FILTERS: tuple[tuple[str, Filter], ...] = (
    ("schedulable", schedulable.refuse),
    ("hardware", hardware.refuse),
    ("disk", disk.refuse),
    ("fits", fits.refuse),
    ("zones", zones.refuse),
    ("hints", hints.refuse),
)

RACK_KEYS: Mapping[RackSpread, tuple[RackKey, ...]] = {
    RackSpread.POOL: (hints.of_rack, rack_spread.of_pool, rack_spread.all_vms, rack_spread.memory_used),
    RackSpread.CLUSTER: (
        hints.of_rack,
        rack_spread.of_cluster,
        rack_spread.of_pool,
        rack_spread.all_vms,
        rack_spread.memory_used,
    ),
}

MACHINE_KEYS: tuple[MachineKey, ...] = (
    hints.of_machine,
    machine_spread.of_cluster,
    machine_spread.of_pool,
    extra_large.company,
    machine_spread.memory_used,
)
