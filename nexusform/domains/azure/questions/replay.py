"""A site's VMs placed once more in the order of their creation: whether the rule explains where they are.

For every VM, on what stood when it came: was its real machine among those between which tie-breaks alone
decide? NUMA cells, which no platform tells, are unknown: a VM is a hit where its machine is best in some
legal split of what stood, and a sure hit where it is in all. VMs of a pool whose order is not known are taken
in the order that explains most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import (
    Demand,
    Machine,
    Placement,
    RackSpread,
    Terms,
    VmName,
    VmSku,
)

NO_ORDER: Final = "nothing tells when it was created"
LATER: Final = "nodes were added or made anew later: what stood before them is not known"
NOT_ALL: Final = "not all that stands there was captured: what was free is not known"
DELETED: Final = "VMs that stood then are gone: what was free is not known"


class RealVm(Struct, frozen=True):
    """A VM as it stands. `name` is what people call it, `placement` where it is."""

    name: str
    cluster: str
    pool: str
    sku: VmSku
    terms: Terms
    placement: Placement


class Batch(Struct, frozen=True):
    """VMs of one pool that came at one time, in an order that is not known; or one VM.

    `unjudged` says why nothing can be said of them, "" where something can.
    """

    vms: tuple[RealVm, ...]
    unjudged: str = ""


class ReplayMiss(Struct, frozen=True):
    """A VM that stands where the rule would not have put it: where it is, and some of the best machines."""

    vm: RealVm
    best: tuple[str, ...]


class Replay(Struct, frozen=True):
    """What the rule explains of a site under one `rack_spread`. `sure` of the `hits` are hits in every legal
    split of cells; `unjudged` counts VMs by the reason. `chance` is how many hits to expect of a platform
    that draws each machine at random from those that admit the VM.
    """

    site: str
    spread: RackSpread
    hits: int
    sure: int
    misses: tuple[ReplayMiss, ...]
    unjudged: Mapping[str, int]
    chance: float = 0.0

    @property
    def judged(self) -> int:
        """How many VMs were judged."""
        return self.hits + len(self.misses)


def replay(site: str, machines: Sequence[Machine], batches: Iterable[Batch], spread: RackSpread) -> Replay:
    """Place the VMs once more, each on the machine where it really is."""
    return _Replaying(site, machines, spread).result(batches)


class _Replaying:
    def __init__(self, site: str, machines: Sequence[Machine], spread: RackSpread) -> None:
        self.site = site
        self.scheduler = RackScheduler(machines, spread)
        self.known = {machine.name for machine in machines}
        self.numbers: dict[tuple[str, str], int] = {}
        self.hits = 0
        self.sure = 0
        self.chance = 0.0
        self.misses: list[ReplayMiss] = []
        self.unjudged: dict[str, int] = {}

    def result(self, batches: Iterable[Batch]) -> Replay:
        """Take the batches one after the other."""
        for batch in batches:
            if batch.unjudged:
                self.unjudged[batch.unjudged] = self.unjudged.get(batch.unjudged, 0) + len(batch.vms)
                for vm in batch.vms:
                    self._settle(vm)
            else:
                self._judge(batch.vms)
        return Replay(
            self.site,
            self.scheduler.spread,
            self.hits,
            self.sure,
            tuple(self.misses),
            self.unjudged,
            self.chance,
        )

    def _judge(self, vms: Sequence[RealVm]) -> None:
        """Take the VM that the rule explains next, as long as there is one."""
        waiting: dict[str, list[RealVm]] = {}
        for vm in vms:
            waiting.setdefault(vm.placement.machine, []).append(vm)
        while waiting:
            first = next(iter(waiting))
            demand = self._demand(waiting[first][0])
            best = self.scheduler.best_machines(demand)
            # One of all that wait may be taken for a hit, so chance has as many draws.
            missed_by_all = (1 - self._share(demand, len(best.in_some))) ** sum(map(len, waiting.values()))
            self.chance += 1 - missed_by_all
            surely = next((machine for machine in waiting if machine in best.in_all), None)
            explained = surely or next((machine for machine in waiting if machine in best.in_some), None)
            machine = explained or first
            vm = waiting[machine].pop(0)
            if not waiting[machine]:
                del waiting[machine]
            if explained is None:
                self.misses.append(ReplayMiss(vm, tuple(sorted(best.in_some)[:3])))
            else:
                self.hits += 1
                self.sure += surely is not None
            self._settle(vm)

    def _share(self, demand: Demand, best: int) -> float:
        """How likely a machine that is drawn from all that admit a VM is one of the best."""
        admitting = sum(not self.scheduler.refusal(machine, demand) for machine in self.known)
        return best / max(admitting, best, 1)

    def _demand(self, vm: RealVm) -> Demand:
        number = self.numbers.get((vm.cluster, vm.pool), 0)
        return Demand(VmName(vm.cluster, vm.cluster, vm.pool, number), vm.sku, vm.terms)

    def _settle(self, vm: RealVm) -> None:
        """Put a VM where it is, on cells that nobody told."""
        if vm.placement.machine not in self.known:
            return
        demand = self._demand(vm)
        self.numbers[vm.cluster, vm.pool] = self.numbers.get((vm.cluster, vm.pool), 0) + 1
        self.scheduler.occupy(demand.vm, demand.sku, replace(vm.placement, cells=()))
