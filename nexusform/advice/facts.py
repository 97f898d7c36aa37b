"""What the lint rules look at, pools and where they stand, sites and their machines (frozen), and how their
findings are put into words.

Measured words ("6 machines will house two VMs because of it") come from `SiteFacts.rehearse`, which
plays the site's pools in another order or with other zones; without it (`validate`) rules say only
what the configuration's literals tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.demands import PlacedVm
from nexusform.diagnostics import Diagnostic, warning
from nexusform.scheduling.catalogue import largest_sku
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.explanation import Shortage
from nexusform.scheduling.racks.vms import (
    ANYWHERE,
    CONTROL_PLANE,
    Demand,
    Interval,
    Machine,
    Terms,
    VmName,
    VmSku,
    anybodys,
    common_terms,
)
from nexusform.source import Span


class PoolFacts(Struct, frozen=True):
    """One pool of VMs as it stands after the plan.

    Rules speak of the pools that have `new_numbers` (no-surge-room of their whole site).
    `owner` is the cluster's id (site and name), `address` the resource instance that holds the
    pool, `block` its header for messages. `numbers` are all VMs of the pool, `new_numbers` those
    that this plan places (in the order in which it places them), `vms` by number those that
    have a place. `stands`: the plan places none of them, and they are judged as if it
    placed all (`new_numbers`) again. `leaving` are the VMs of the pool that stand until some of the new ones
    do (handles on the site): by how many of the new ones are placed before they leave. `surge` is how many
    VMs an upgrade adds first. `zones_span` is the availability_zones argument, `span` the pool's block.
    """

    address: str
    owner: str
    cluster: str
    pool: str
    site_id: str
    sku: VmSku
    numbers: tuple[int | str, ...]
    new_numbers: tuple[int | str, ...] = ()
    terms: Terms = ANYWHERE
    vms: Mapping[int | str, PlacedVm] = field(default_factory=dict)
    surge: int = 1
    span: Span | None = None
    zones_span: Span | None = None
    block: str = ""
    stands: bool = False
    leaving: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def zones(self) -> frozenset[str] | None:
        """The zones asked for; None = all."""
        return self.terms.zones

    def demand(self, number: int | str) -> Demand:
        """What the scheduler is asked for one of its VMs."""
        return Demand(VmName(self.owner, self.cluster, self.pool, number), self.sku, self.terms)

    def in_zones(self, zones: frozenset[str] | None) -> PoolFacts:
        """The same pool with other zones."""
        return replace(self, terms=replace(self.terms, zones=zones))

    @property
    def count(self) -> int:
        """Number of VMs."""
        return len(self.numbers)

    @property
    def memory_gib(self) -> float:
        """Host memory of the whole pool."""
        return self.count * self.sku.memory_gib

    @property
    def is_control_plane(self) -> bool:
        """Whether it is a cluster's control plane rather than an agent pool."""
        return self.pool == CONTROL_PLANE


class Outcome(Struct, frozen=True):
    """What a rehearsal came to.

    `unplaced` VMs found no room. By owner: `shared` is how many machines house more than one VM of
    the cluster, `most` the largest number of them on one machine, `machines` how many machines house
    any, `vms` how many VMs stand. `free_largest` is how many more VMs of `largest` (the largest SKU in
    play) would fit afterwards.
    """

    unplaced: int
    shared: Mapping[str, int]
    most: Mapping[str, int]
    machines: Mapping[str, int]
    vms: Mapping[str, int]
    largest: str
    free_largest: int


Rehearse: TypeAlias = Callable[[Sequence[PoolFacts]], Outcome]
CountFree: TypeAlias = Callable[[Demand], Interval]


class SiteFacts(Struct, frozen=True):
    """A site: its machines in order of rack, slot and name.

    `rehearse(pools)` places the new VMs of these pools in this order on the site as it was before
    the plan. `count_free(demand)` is how many more such VMs fit after the plan.
    """

    id: str
    machines: tuple[Machine, ...] = ()
    rehearse: Rehearse | None = None
    count_free: CountFree | None = None

    @property
    def racks(self) -> tuple[str, ...]:
        """Rack names in the order in which upgrades take them: by bytes."""
        return tuple(sorted({machine.rack for machine in self.machines}, key=str.encode))

    def racks_in(self, zones: frozenset[str] | None) -> tuple[str, ...]:
        """The racks of these zones, in the same order."""
        inside = {m.rack for m in self.machines if zones is None or m.availability_zone in zones}
        return tuple(rack for rack in self.racks if rack in inside)

    def schedulable(self, zones: frozenset[str] | None) -> list[Machine]:
        """The machines of these zones that take new VMs."""
        return [m for m in self.machines if not m.refusal and (zones is None or m.availability_zone in zones)]


class Facts(Struct, frozen=True):
    """Everything that rules look at.

    `pools` in the order in which they are created; `vm_skus` are the SKUs of the catalogue. Where
    no state is known (`validate`), every pool counts as new. `costless` asks for advice too that would
    change nothing today.
    """

    pools: tuple[PoolFacts, ...]
    sites: Mapping[str, SiteFacts] = field(default_factory=dict)
    vm_skus: tuple[VmSku, ...] = ()
    costless: bool = False

    def site(self, pool: PoolFacts) -> SiteFacts:
        """The pool's site; an empty one when nothing is known of it."""
        return self.sites.get(pool.site_id) or SiteFacts(pool.site_id)

    def is_replayed(self, site_id: str) -> bool:
        """Whether rehearsals place again what stands on the site, so that they tell what would be."""
        return any(pool.stands for pool in self.on_site(site_id))

    def on_site(self, site_id: str) -> tuple[PoolFacts, ...]:
        """The pools of one site, in the order of creation."""
        return tuple(pool for pool in self.pools if pool.site_id == site_id)


# A sentence of advice names up to this many things.
NAMED: Final = 6


def finding(
    rule: str, detail: str, pool: PoolFacts, subject: Span | None = None, *, brief: str
) -> Diagnostic:
    """A warning of a rule about a pool; `brief` is the same in a line, after a name and a colon."""
    return warning(rule, detail, subject or pool.span, address=pool.address, block=pool.block, brief=brief)


def rehearsal(before: RackScheduler) -> Rehearse:
    """A function that places the new VMs of pools, in the order given, from this start.

    `before` is the site as it stands before the plan places anything (it is copied, never
    changed). Room afterwards is counted for the largest of the pools' SKUs.
    """

    def rehearse(pools: Sequence[PoolFacts]) -> Outcome:
        scheduler = before.copy()
        unplaced = 0
        for pool in pools:
            answers = _rehearsed(scheduler, pool)
            unplaced += sum(isinstance(answer, Shortage) for answer in answers)
        return _outcome(scheduler, unplaced, pools)

    return rehearse


def _rehearsed(scheduler: RackScheduler, pool: PoolFacts) -> Iterator[object]:
    """Place the new VMs of a pool; those that an upgrade replaces in batches leave in between."""
    demands = [pool.demand(number) for number in pool.new_numbers]
    placed = 0
    for count in sorted({*pool.leaving, len(demands)}):
        yield from scheduler.place_run(demands[placed:count])
        placed = count
        for handle in pool.leaving.get(count, ()):
            scheduler.release(handle)


def _outcome(scheduler: RackScheduler, unplaced: int, pools: Sequence[PoolFacts]) -> Outcome:
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
    name, free = "", 0
    largest = largest_sku(pool.sku for pool in pools)
    if largest is not None:
        terms = common_terms(pool.terms for pool in pools if pool.sku == largest)
        name, free = largest.name, scheduler.count_free(anybodys(largest, terms)).least
    return Outcome(unplaced, dict(shared), most, dict(machines), dict(vms), name, free)
