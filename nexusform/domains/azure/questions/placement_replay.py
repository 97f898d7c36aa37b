"""Replay of a site: its VMs placed again in creation order, to check if the placement rule explains their
machines. A VM is a hit if its real machine is among the best machines for some legal split of earlier VMs
over NUMA cells, and a certain hit if it is so for all. Cells are unknown, since no platform reports them. VMs
of a pool without a known order are taken in the order with most hits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import Demand, Machine, Placement, PlacementConstraints, RackSpread, VmName, VmSku

NO_ORDER: Final = "its creation time is unknown"
LATER: Final = "nodes were added or re-created later: the earlier placement is unknown"
NOT_ALL: Final = "the site was captured incompletely: free capacity at that time is unknown"
DELETED: Final = "VMs of that time are deleted: free capacity at that time is unknown"


class ObservedVm(Struct, frozen=True):
    """Existing VM with its location. `name` is the display name."""

    name: str
    cluster: str
    pool: str
    sku: VmSku
    constraints: PlacementConstraints
    placement: Placement


class VmCreationBatch(Struct, frozen=True):
    """VMs of one pool created at one time, in unknown order; or one VM. `skip_reason`: why the VMs cannot be
    checked, "" if they can.
    """

    vms: tuple[ObservedVm, ...]
    skip_reason: str = ""


class MisplacedVm(Struct, frozen=True):
    """VM off the machines preferred by the rule, with some of the best machines."""

    vm: ObservedVm
    best: tuple[str, ...]


class SiteReplay(Struct, frozen=True):
    """Result of a replay of a site under one `rack_spread`. `sure` of the `hits` hold for every legal split
    of cells; `unjudged` counts VMs by reason. `chance`: expected hits of a platform with random choice among
    the feasible machines.
    """

    site: str
    spread: RackSpread
    hits: int
    sure: int
    misses: tuple[MisplacedVm, ...]
    unjudged: Mapping[str, int]
    chance: float = 0.0

    @property
    def judged(self) -> int:
        """Number of VMs checked."""
        return self.hits + len(self.misses)


def run_replay(
    site: str, machines: Sequence[Machine], batches: Iterable[VmCreationBatch], spread: RackSpread
) -> SiteReplay:
    """Place the VMs again, each on its real machine."""
    return _SiteReplayer(site, machines, spread).run(batches)


class _SiteReplayer:
    """Replay of one site under one `rack_spread`."""

    def __init__(self, site: str, machines: Sequence[Machine], spread: RackSpread) -> None:
        self.site = site
        self.scheduler = RackScheduler(machines, spread)
        self.machine_names = {machine.name for machine in machines}
        self.numbers: dict[tuple[str, str], int] = {}
        self.hits = 0
        self.sure = 0
        self.chance = 0.0
        self.misses: list[MisplacedVm] = []
        self.unjudged: dict[str, int] = {}

    def run(self, batches: Iterable[VmCreationBatch]) -> SiteReplay:
        """Process the batches in order."""
        for batch in batches:
            if batch.skip_reason:
                self.unjudged[batch.skip_reason] = self.unjudged.get(batch.skip_reason, 0) + len(batch.vms)
                for vm in batch.vms:
                    self._place_observed_vm(vm)
            else:
                self._score_batch(batch.vms)
        return SiteReplay(
            self.site, self.scheduler.spread, self.hits, self.sure, tuple(self.misses), self.unjudged, self.chance
        )

    def _score_batch(self, vms: Sequence[ObservedVm]) -> None:
        """Check the VMs of a batch; take explained ones first."""
        vms_by_machine: dict[str, list[ObservedVm]] = {}
        for vm in vms:
            vms_by_machine.setdefault(vm.placement.machine, []).append(vm)
        while vms_by_machine:
            first = next(iter(vms_by_machine))
            demand = self._build_demand(vms_by_machine[first][0])
            best = self.scheduler.find_best_machines(demand)
            best_count = len(best.in_some_splits)
            admitting = sum(not self.scheduler.find_rejection(machine, demand) for machine in self.machine_names)
            random_hit_chance = best_count / max(admitting, best_count, 1)
            # Any VM left in the batch may be taken as a hit, so chance has as many tries.
            self.chance += 1 - (1 - random_hit_chance) ** sum(map(len, vms_by_machine.values()))
            certain_machine = next((machine for machine in vms_by_machine if machine in best.in_all_splits), None)
            explained_machine = certain_machine or next(
                (machine for machine in vms_by_machine if machine in best.in_some_splits), None
            )
            machine = explained_machine or first
            vm = vms_by_machine[machine].pop(0)
            if not vms_by_machine[machine]:
                del vms_by_machine[machine]
            if explained_machine is None:
                self.misses.append(MisplacedVm(vm, tuple(sorted(best.in_some_splits)[:3])))
            else:
                self.hits += 1
                self.sure += certain_machine is not None
            self._place_observed_vm(vm)

    def _build_demand(self, vm: ObservedVm) -> Demand:
        number = self.numbers.get((vm.cluster, vm.pool), 0)
        return Demand(VmName(vm.cluster, vm.cluster, vm.pool, number), vm.sku, vm.constraints)

    def _place_observed_vm(self, vm: ObservedVm) -> None:
        """Place a VM on its real machine with unknown cells."""
        if vm.placement.machine not in self.machine_names:
            return
        demand = self._build_demand(vm)
        self.numbers[vm.cluster, vm.pool] = self.numbers.get((vm.cluster, vm.pool), 0) + 1
        self.scheduler.add_existing(demand.vm, demand.sku, replace(vm.placement, cells=()))
