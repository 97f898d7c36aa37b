"""Playing a site's pools once more, in another order or with other zones, to measure advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nexusform.advice.facts import Outcome, PoolFacts, Rehearse
from nexusform.scheduling.catalogue import largest_sku
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.explanation import Shortage
from nexusform.scheduling.racks.vms import VmSku, anybodys


def rehearsal(before: RackScheduler) -> Rehearse:
    """A function that places the new VMs of pools, in the order given, from this start.

    `before` is the site as it stands before the plan places anything (it is copied, never
    changed). Room afterwards is counted for the largest of the pools' SKUs.
    """

    def rehearse(pools: Sequence[PoolFacts]) -> Outcome:
        scheduler = before.copy()
        unplaced = 0
        for pool in pools:
            demands = [pool.demand(number) for number in pool.new_numbers]
            unplaced += sum(isinstance(answer, Shortage) for answer in scheduler.place_run(demands))
        return _outcome(scheduler, unplaced, largest_sku(pool.sku for pool in pools))

    return rehearse


def _outcome(scheduler: RackScheduler, unplaced: int, largest: VmSku | None) -> Outcome:
    on_machine = Counter((standing.vm.owner, standing.placement.machine) for standing in scheduler.vms())
    shared: Counter[str] = Counter()
    most: dict[str, int] = {}
    machines: Counter[str] = Counter()
    vms: Counter[str] = Counter()
    for (owner, _), count in on_machine.items():
        machines[owner] += 1
        vms[owner] += count
        shared[owner] += count > 1
        most[owner] = max(most.get(owner, 0), count)
    free = scheduler.count_free(anybodys(largest)).least if largest is not None else 0
    name = largest.name if largest else ""
    return Outcome(unplaced, dict(shared), most, dict(machines), dict(vms), name, free)
