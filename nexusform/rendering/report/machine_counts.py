"""How many VMs stand on machines, before a plan and after it."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from nexusform.demands import machines_of
from nexusform.planning.occupancy import SiteMachine, SiteVms
from nexusform.planning.plan import Plan
from nexusform.rendering.report.placement_rows import natural


class MachineCount(Struct, frozen=True):
    """The VMs on one machine, None on a side where it is not there; `closed` machines take no new VM."""

    before: int | None
    after: int | None
    closed: bool


class RackCounts(Struct, frozen=True):
    """A rack with its machines by slot; `leaving` VMs that stand there before the plan go."""

    site: str
    name: str
    machines: tuple[MachineCount, ...]
    leaving: int

    @property
    def stood(self) -> bool:
        """Whether it has a machine before the plan."""
        return any(machine.before is not None for machine in self.machines)


def changed_racks(plan: Plan) -> tuple[RackCounts, ...]:
    """The racks on which a VM comes or goes: those that most VMs leave first, then by name."""
    racks: list[RackCounts] = []
    for site in plan.sites:
        racks += _changed_racks(site)
    return tuple(sorted(racks, key=_order))


def _order(rack: RackCounts) -> tuple[object, ...]:
    return -rack.leaving, rack.site, natural(rack.name)


def _changed_racks(site: SiteVms) -> list[RackCounts]:
    """The changed racks of one site."""
    standing = Counter(vm.placement.machine for vm in site.outsiders)
    left: Counter[str] = Counter()
    came: Counter[str] = Counter()
    for pool in site.pools:
        standing.update(machines_of(pool.kept))
        left.update(machines_of(pool.left))
        came.update(machines_of(pool.came))
    machines: dict[str, list[SiteMachine]] = {}
    for machine in site.machines:
        machines.setdefault(machine.facts.rack, []).append(machine)
    racks = []
    for rack, members in machines.items():
        names = [machine.facts.name for machine in members]
        if not any(left[name] or came[name] for name in names):
            continue
        counts = [_count(machine, standing, left, came) for machine in sorted(members, key=_by_slot)]
        racks.append(RackCounts(site.name, rack, tuple(counts), sum(left[name] for name in names)))
    return racks


def _by_slot(machine: SiteMachine) -> tuple[object, ...]:
    return machine.facts.slot, natural(machine.facts.name)


def _count(
    machine: SiteMachine, standing: Counter[str], left: Counter[str], came: Counter[str]
) -> MachineCount:
    name = machine.facts.name
    before = standing[name] + left[name] if machine.before else None
    after = standing[name] + came[name] if machine.after else None
    return MachineCount(before, after, bool(machine.facts.refusal))


def sharing_as_before(plan: Plan) -> frozenset[str]:
    """Resources none of whose VMs comes to a machine that houses another of them."""
    standing: dict[str, Counter[tuple[str, str]]] = {}
    came: dict[str, set[tuple[str, str]]] = {}
    for site in plan.sites:
        for pool in site.pools:
            address = str(pool.address)
            arrivals = [(site.id, machine) for machine in machines_of(pool.came)]
            kept = [(site.id, machine) for machine in machines_of(pool.kept)]
            standing.setdefault(address, Counter()).update([*arrivals, *kept])
            came.setdefault(address, set()).update(arrivals)
    return frozenset(
        address
        for address, machines in came.items()
        if not any(standing[address][machine] > 1 for machine in machines)
    )
