"""Input of lint rules: pools with their placements, sites and their machines (frozen).

The module also has the format of findings. Measured statements ("So 6 machines will run
two VMs of cluster-d") come from `LintInput.plan_trial`, a plan with edits: another order, or other
zones; without it (`validate`) rules use only the literals of the configuration. A trial costs a
plan, so one trial answers for all pools of a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_warning
from nexusform.json_data.plain_data import Path
from nexusform.placements.vm_demands import PlacedVm
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.resources.address import parse_address
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import (
    CONTROL_PLANE,
    NO_CONSTRAINTS,
    Demand,
    Interval,
    Machine,
    NoFitReason,
    PlacementConstraints,
    VmName,
    VmSku,
    build_standalone_demand,
    find_common_constraints,
)
from nexusform.scheduling.sku_catalogue import find_largest_sku

if TYPE_CHECKING:
    from nexusform.planning.edits import Edit


class LintPool(Struct, frozen=True):
    """One pool of VMs after the plan.

    `owner` is the cluster's id (site and name), `address` the resource instance with the pool,
    `block` its header for messages. `numbers` are all VMs of the pool, `new_numbers` those placed
    by this plan (in placement order), `vms` the placed ones by number. `path` is the place of its
    arguments in the resource. `surge` is the number of VMs that an upgrade adds first. `zones_span`
    is the availability_zones argument, `span` the pool's block. `ignored_rules` are the ids of
    comments before the resource, the pool's block or that argument.
    """

    address: str
    owner: str
    cluster: str
    pool: str
    site_id: str
    sku: VmSku
    numbers: tuple[int | str, ...]
    new_numbers: tuple[int | str, ...] = ()
    constraints: PlacementConstraints = NO_CONSTRAINTS
    vms: Mapping[int | str, PlacedVm] = field(default_factory=dict)
    surge: int = 1
    span: Span | None = None
    zones_span: Span | None = None
    block: str = ""
    ignored_rules: frozenset[str] = frozenset()
    path: Path = ()

    @property
    def zones(self) -> frozenset[str] | None:
        """Configured zones; None = all."""
        return self.constraints.zones

    def build_demand(self, number: int | str) -> Demand:
        """Return the scheduler's demand for one of its VMs, by its number or key."""
        return Demand(
            VmName(self.owner, self.cluster, self.pool, number), self.sku, self.constraints
        )

    def edit_zones(self, zones: Sequence[str] | None) -> Edit:
        """Return the edit of its zones; None means all zones."""
        path = (*self.path, "availability_zones")
        return ArgumentAdjustment(parse_address(self.address), path, zones)

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


class SiteUsage(Struct, frozen=True):
    """Use of a site after a plan.

    These figures are by owner: `shared` is the number of machines with more than one VM of the
    cluster, `maximum` the largest number of its VMs on one machine, `machines` the number of
    machines with any, `vms` its number of VMs. `free_largest` is the number of additional VMs of
    `largest` (the largest SKU in use) that would fit afterwards.
    """

    shared: Mapping[str, int]
    maximum: Mapping[str, int]
    machines: Mapping[str, int]
    vms: Mapping[str, int]
    largest: str
    free_largest: int


CountFree: TypeAlias = Callable[[Demand, dict[Hashable, Interval]], Interval]
CountFitting: TypeAlias = Callable[[Sequence[Demand]], int]
# Sites with pools in the plan with edits, by id; None if it does not fit.
PlanTrial: TypeAlias = "Callable[[Sequence[Edit]], Mapping[str, SiteUsage] | None]"


class LintSite(Struct, frozen=True):
    """A site: its machines in order of rack, slot and name.

    `usage` is its use after the plan, None for a site without pools and in `validate`.
    `count_free(demand, known_counts)` is the number of further such VMs that fit after the plan,
    `count_fitting(demands)` the number of these VMs that fit together. `known_counts` keeps the
    counts of equal demands.
    """

    id: str
    machines: tuple[Machine, ...] = ()
    usage: SiteUsage | None = None
    count_free: CountFree | None = None
    count_fitting: CountFitting | None = None
    known_counts: dict[Hashable, Interval] = field(default_factory=dict)

    @property
    def racks(self) -> tuple[str, ...]:
        """Rack names in upgrade order: by bytes."""
        return tuple(sorted({machine.rack for machine in self.machines}, key=str.encode))

    def list_racks(self, zones: frozenset[str] | None) -> tuple[str, ...]:
        """Return the racks of these zones (None: all) in upgrade order."""
        inside = {machine.rack for machine in self._list_machines(zones)}
        return tuple(rack for rack in self.racks if rack in inside)

    def list_schedulable(self, zones: frozenset[str] | None) -> list[Machine]:
        """Return the machines of these zones (None: all) open to new VMs."""
        return [
            machine for machine in self._list_machines(zones) if not machine.unschedulable_reason
        ]

    # None: all zones.
    def _list_machines(self, zones: frozenset[str] | None) -> Sequence[Machine]:
        if zones is None:
            return self.machines
        return [machine for machine in self.machines if machine.availability_zone in zones]


class LintInput(Struct, frozen=True, dict=True):
    """Input of all rules.

    `pools` are in order of creation; `vm_skus` are the SKUs of the catalogue. Without a state
    (`validate`), every pool counts as new. `includes_costless` requests advice without a measurable
    benefit, too, `includes_existing` also that for pools without new VMs. `plan_trial` makes the
    plan with edits.
    """

    pools: tuple[LintPool, ...]
    sites: Mapping[str, LintSite] = field(default_factory=dict)
    vm_skus: tuple[VmSku, ...] = ()
    includes_costless: bool = False
    includes_existing: bool = False
    plan_trial: PlanTrial | None = None

    @cached_property
    def sharing_pins(self) -> tuple[LintPool, ...]:
        """Pinned pools with new VMs, and with a VM beside others of their cluster."""
        vm_counts = Counter(
            (pool.owner, vm.placement.machine) for pool in self.pools for vm in pool.vms.values()
        )
        return tuple(
            pool
            for pool in self.pools
            if pool.zones
            and pool.new_numbers
            and any(vm_counts[pool.owner, vm.placement.machine] > 1 for vm in pool.vms.values())
        )

    @cached_property
    def usage_without_pins(self) -> Mapping[str, SiteUsage] | None:
        """Sites in the plan without the zones of all `sharing_pins`.

        They are None without such pools, or if that plan does not fit. Existing VMs of these pools
        are placed again there, as the platform does.
        """
        edits = [pool.edit_zones(None) for pool in self.sharing_pins]
        return self.plan_trial(edits) if edits and self.plan_trial is not None else None

    def is_reported(self, pool: LintPool) -> bool:
        """Return whether rules report a pool: it has VMs placed by the plan, or all pools are."""
        return self.includes_existing or bool(pool.new_numbers)

    def get_site(self, pool: LintPool) -> LintSite:
        """Return the pool's site; an empty one if it is unknown."""
        return self.sites.get(pool.site_id) or LintSite(pool.site_id)

    def list_pools(self, site_id: str) -> tuple[LintPool, ...]:
        """Return the pools of one site, in order of creation."""
        return tuple(pool for pool in self.pools if pool.site_id == site_id)


# Maximum number of items in a sentence of advice.
MAXIMUM_ITEMS: Final = 6


def build_finding(
    rule: str, detail: str, pool: LintPool, subject: Span | None = None, *, summary: str
) -> Diagnostic:
    """Build a warning of a rule about a pool, at `subject` or its block.

    `summary` is its short form, `NAME: TEXT`.
    """
    return build_warning(
        rule, detail, subject or pool.span, address=pool.address, block=pool.block, brief=summary
    )


def build_fit_counter(after: RackScheduler) -> CountFitting:
    """Return a function to count the VMs that fit together on a site, on a copy of `after`."""
    # Copied once, at the first use.
    copies: list[RackScheduler] = []

    def count_fitting(demands: Sequence[Demand]) -> int:
        if not copies:
            copies.append(after.copy())
        [scheduler] = copies
        answers = list(scheduler.place_all(demands))
        handles = [answer[0] for answer in answers if not isinstance(answer, NoFitReason)]
        for handle in handles:
            scheduler.release(handle)
        return len(handles)

    return count_fitting


def measure_usage(scheduler: RackScheduler, pools: Sequence[LintPool]) -> SiteUsage | None:
    """Return the use of a site with these pools, None without any.

    Spare capacity is counted for the largest SKU of the pools.
    """
    largest = find_largest_sku(pool.sku for pool in pools)
    if largest is None:
        return None
    on_machine = Counter((vm.vm.owner, vm.placement.machine) for vm in scheduler.list_vms())
    # Machines with several VMs, by owner.
    shared: Counter[str] = Counter()
    # VMs on the fullest machine, by owner.
    maximum: dict[str, int] = {}
    # Machines with any VM, by owner.
    machines: Counter[str] = Counter()
    vms: Counter[str] = Counter()
    for (owner, _), count in on_machine.items():
        machines[owner] += 1
        vms[owner] += count
        shared[owner] += count > 1
        maximum[owner] = max(maximum.get(owner, 0), count)
    constraints = find_common_constraints(pool.constraints for pool in pools if pool.sku == largest)
    free = scheduler.count_free_slots(build_standalone_demand(largest, constraints)).minimum
    return SiteUsage(shared, maximum, machines, vms, largest=largest.name, free_largest=free)
