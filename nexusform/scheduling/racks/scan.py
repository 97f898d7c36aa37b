"""The plain way to place one VM: a look at every machine, rule by rule.

For demands with a machine of last resort and those of which some rule keeps no promise (rule.py); also what
explanations and shortages are made from. Costs time in proportion to the machines of the site.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from nexusform.scheduling.racks import opened, profile
from nexusform.scheduling.racks.ledger import Ledger, Record
from nexusform.scheduling.racks.model import Demand, RackSpread
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.usage import Figure


def candidates(ledger: Ledger, demand: Demand) -> list[int]:
    """The machines that no filter refuses; the last resort only when it is alone."""
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    left: list[int] = list(range(len(ledger.site.machines)))
    for _, refuse in opened.refusals_by_machine(ledger, usage, demand):
        if refuse is not None:
            left = [machine for machine in left if refuse(machine) is None]
    return without_last_resort(ledger, demand, left)


def without_last_resort(ledger: Ledger, demand: Demand, machines: list[int]) -> list[int]:
    """The machines but for the last resort; all of them when there is no other."""
    if demand.last_resort is None:
        return machines
    last = ledger.site.index.get(demand.last_resort)
    return [machine for machine in machines if machine != last] or machines


def choose(ledger: Ledger, demand: Demand, spread: RackSpread, seed: int) -> Record | None:
    """Where the VM goes; None when nothing fits. Counts nothing."""
    site = ledger.site
    left = candidates(ledger, demand)
    if not left:
        return None
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    rack_key = opened.pack(profile.RACK_KEYS[spread], usage, demand).figure
    machine_key = opened.pack(profile.MACHINE_KEYS, usage, demand).figure
    vm_text = tie_break.of_vm(seed, demand.vm)
    racks = dict.fromkeys(site.rack_of[machine] for machine in left)
    rack = _best(racks, rack_key, vm_text, site.rack_names)
    machines = [machine for machine in left if site.rack_of[machine] == rack]
    machine = _best(machines, machine_key, vm_text, site.machine_names)
    shape = site.shape(demand.sku)
    step = shape.steps[ledger.rooms[machine]]
    assert step is not None
    return Record(site.pool(demand.vm), shape.number, machine, step.cells, demand.vm.number)


def _best(items: Iterable[int], key_of: Figure, vm_text: blake2b, names: Sequence[bytes]) -> int:
    keys = {item: key_of(item) for item in items}
    lowest = min(keys.values())
    tied = [item for item, key in keys.items() if key == lowest]
    return tied[tie_break.lowest(vm_text, names, tied)] if len(tied) > 1 else tied[0]
