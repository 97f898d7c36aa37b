"""The way for demands with hints or a machine of last resort: one look at every machine.

Same five steps as session.py, with hard hints between steps 2 and 3 and soft ones as the first key
of step 3 or 4. Costs time in proportion to the machines in the zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from nexusform.scheduling.racks.ledger import Ledger, Record, Tally
from nexusform.scheduling.racks.model import Demand, Hint, HintScope, RackSpread
from nexusform.scheduling.racks.rules import hints, tie_break
from nexusform.scheduling.racks.site import Shape

_EMPTY = Tally({}, {}, {})


def candidates(ledger: Ledger, demand: Demand, shape: Shape) -> list[int]:
    """The machines that pass steps 1 and 2 and the hard hints; the last resort only when it is alone."""
    site, steps, rooms = ledger.site, shape.steps, ledger.rooms
    found = [
        machine
        for rack in site.racks_in(demand.zones)
        for machine in site.schedulable_in[rack]
        if steps[rooms[machine]] is not None
    ]
    for hint in demand.hints:
        if hint.hard:
            found = [machine for machine in found if not _violates(hint, ledger, machine)]
    if demand.last_resort is not None:
        last = site.index.get(demand.last_resort)
        others = [machine for machine in found if machine != last]
        return others or found
    return found


def _violates(hint: Hint, ledger: Ledger, machine: int) -> bool:
    facts = ledger.site.machines[machine]
    return hints.violated(hint, facts.name, facts.rack)


def choose(ledger: Ledger, demand: Demand, spread: RackSpread, seed: int) -> Record | None:
    """Steps 1 to 5; None when nothing fits. Counts nothing."""
    site = ledger.site
    shape = site.shape(demand.sku)
    found = candidates(ledger, demand, shape)
    if not found:
        return None
    vm_text = tie_break.of_vm(seed, demand.vm)
    racks = list(dict.fromkeys(site.rack_of[machine] for machine in found))
    rack = _best(racks, [_rack_key(ledger, demand, spread, rack) for rack in racks], vm_text, site.rack_names)
    hosts = [machine for machine in found if site.rack_of[machine] == rack]
    keys = [_machine_key(ledger, demand, shape, machine) for machine in hosts]
    machine = _best(hosts, keys, vm_text, site.machine_names)
    step = shape.steps[ledger.rooms[machine]]
    assert step is not None
    return Record(site.pool(demand.vm), shape.number, machine, step.cells, demand.vm.number)


def _best(items: list[int], keys: Sequence[tuple[int, ...]], vm_text: blake2b, names: Sequence[bytes]) -> int:
    low = min(keys)
    tied = [item for item, key in zip(items, keys, strict=True) if key == low]
    return tied[tie_break.lowest(vm_text, names, tied)] if len(tied) > 1 else tied[0]


def _rack_key(ledger: Ledger, demand: Demand, spread: RackSpread, rack: int) -> tuple[int, ...]:
    cluster = ledger.clusters.get(demand.vm.owner, _EMPTY).racks.get(rack, 0)
    pool = ledger.pools.get((demand.vm.owner, demand.vm.pool), _EMPTY).racks.get(rack, 0)
    name = ledger.site.rack_name[rack]
    soft = hints.count_violated(demand, HintScope.RACK, "", name)
    return (
        soft,
        cluster if spread is RackSpread.CLUSTER else 0,
        pool,
        ledger.rack_vms[rack],
        ledger.rack_memory[rack],
    )


def _machine_key(ledger: Ledger, demand: Demand, shape: Shape, machine: int) -> tuple[int, ...]:
    owner = demand.vm.owner
    alone = shape.extra_large and not ledger.houses_other_extra_large(machine, owner)
    return (
        hints.count_violated(
            demand, HintScope.MACHINE, ledger.site.machines[machine].name, ledger.site.machines[machine].rack
        ),
        ledger.clusters.get(owner, _EMPTY).machines.get(machine, 0),
        ledger.pools.get((owner, demand.vm.pool), _EMPTY).machines.get(machine, 0),
        int(alone),
        ledger.memory[machine],
    )
