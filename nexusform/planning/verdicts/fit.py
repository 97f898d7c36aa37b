"""How sure the placements of a plan are, each site's steps taken again under other seeds; and what to say
when VMs do not fit: which pool, how many, and what was in the way; which VMs stand against their placement
group, and which machines became smaller than what stands on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import GroupRule, PlacedVm, PoolDemand
from nexusform.diagnostics import Diagnostic, Problem, Severity, error
from nexusform.forecasts import COUNT_CLAIM, MACHINE_CLAIM, VM_CLAIMS, Record, as_it_held
from nexusform.planning.instances.instance import Instance
from nexusform.planning.request import Progress, Stage
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import ROLLING, HardHint, VmObject
from nexusform.plans.plan import Action
from nexusform.scheduling.decision import Certainty
from nexusform.scheduling.racks.explanation import Shortage
from nexusform.scheduling.racks.uncertainty.certainty import (
    PoolCertainty,
    Token,
    VmPlaced,
    default_runs,
    repeat,
)
from nexusform.scheduling.racks.vms import CONTROL_PLANE, MIB_PER_GIB, Machine, Placement
from nexusform.words import counted, first_of, form

MOST_NAMED = 5
DOES_NOT_FIT = "does-not-fit"
PINNED_DOES_NOT_FIT = "pinned-vm-does-not-fit"
BROKEN_GROUP = "vms-stand-against-their-placement-group"


class Unplaced(Struct, frozen=True):
    """A pool of which not every VM found a place. `placed` counts those that stand or were placed,
    `standing` those that stood before. `bound_by` are the hard hints because of which the others did not.
    `surge`: an upgrade falls short, which adds so many VMs before old ones leave.
    """

    address: Address
    pool: PoolDemand
    site_id: str
    cluster: str
    placed: int
    standing: int
    bound_by: tuple[HardHint, ...] = ()
    surge: int = 0

    @property
    def missing(self) -> int:
        """How many of its VMs have no place."""
        return len(self.pool.numbers) - self.placed


class Failures(Struct, frozen=True):
    """The errors, and every pool that failed."""

    diagnostics: tuple[Diagnostic, ...]
    unplaced: tuple[Unplaced, ...]


def fit_failures(
    objects: Iterable[VmObject], left_out: Sequence[str] = (), forgotten: Sequence[str] = ()
) -> Failures:
    """One error per pool that does not fit, and a warning for each pinned VM that does not. `left_out` are
    the racks and machines that -target or -exclude keep out of the plan, `forgotten` those that it forgets.
    """
    hidden = _left_out(left_out) + _forgotten(forgotten)
    diagnostics: list[Diagnostic] = []
    unplaced = []
    for vms in objects:
        diagnostics += [_crowded(vms, reason) for reason in vms.housing.crowded]
        for pool in vms.pools:
            shortage = _shortage(vms, pool)
            if shortage is not None:
                diagnostics.append(_error(vms, pool, shortage, hidden))
                unplaced.append(_unplaced(vms, pool))
    return Failures(tuple(diagnostics), tuple(unplaced))


def _shortage(vms: VmObject, pool: PoolDemand) -> Shortage | None:
    """What the first VM of a pool that found no place fell short of; None when all have one."""
    keys = ((pool.pool, number) for number in pool.numbers)
    return next((vms.housing.failed[key] for key in keys if key in vms.housing.failed), None)


def _unplaced(vms: VmObject, pool: PoolDemand) -> Unplaced:
    """The pool that found no room, with how far it came."""
    demand = vms.asked.demand
    assert demand is not None
    keys = [(pool.pool, number) for number in pool.numbers]
    placed = sum(1 for key in keys if key in vms.housing.placed)
    standing = sum(1 for key in keys if key in vms.before.standing)
    return Unplaced(
        address=vms.instance.address,
        pool=pool,
        site_id=demand.site_id,
        cluster=demand.cluster,
        placed=placed,
        standing=standing,
        bound_by=tuple(vms.housing.bound_by),
        surge=pool.surge if _is_upgrade(vms, pool) else 0,
    )


def _is_upgrade(vms: VmObject, pool: PoolDemand) -> bool:
    """Whether the VMs that found no place are those of an upgrade, whose old ones stand."""
    failed = [key for key in vms.housing.failed if key[0] == pool.pool]
    return all(vms.asked.moves.again.get(key) == ROLLING for key in failed)


def _crowded(vms: VmObject, reason: str) -> Diagnostic:
    return vms.instance.problem(
        Problem(
            ("machine",),
            PINNED_DOES_NOT_FIT,
            f"The rule would not put {vms.instance.address} there: {reason}. It is counted on that "
            "machine anyway.",
            Severity.WARNING,
        )
    )


def _error(vms: VmObject, pool: PoolDemand, shortage: Shortage, hidden: str) -> Diagnostic:
    total = len(pool.numbers)
    placed = sum(1 for number in pool.numbers if (pool.pool, number) in vms.housing.placed)
    instance = vms.instance
    subject = instance.locate(pool.path)
    assert vms.asked.demand is not None
    of_pool = "/".join(filter(None, (vms.asked.demand.cluster, pool.pool)))
    brief = f"{of_pool} does not fit"
    headline = f"{total:,} x {pool.sku.name} do not fit: {placed:,} of {total:,} placed"
    reason = shortage.reason
    if _is_upgrade(vms, pool):
        brief = f"the upgrade of {brief}"
        headline = (
            f"The upgrade of {of_pool} does not fit: {placed:,} of {total:,} x {pool.sku.name} re-placed"
        )
        reason = f"{_batches(pool)} {reason}"
    return error(
        DOES_NOT_FIT,
        reason + hidden,
        subject,
        address=str(instance.address),
        block=instance.block.header if instance.block is not None else "",
        headline=headline,
        brief=brief,
        extra={"fit": {"pool": pool.pool, "wanted": total, "placed": placed, "binding": shortage.binding}},
    )


def _batches(pool: PoolDemand) -> str:
    """How the upgrade goes that falls short."""
    rolls = "A new kubernetes_version re-places the VMs in batches"
    if not pool.surge:
        return f"{rolls}, and one finds no room after the old one left."
    by = "the control plane" if pool.pool == CONTROL_PLANE else f'max_surge = "{pool.max_surge}"'
    they = form(pool.surge, "it finds", "they find")
    return f"{rolls}: {by} adds {counted(pool.surge, 'surge VM')} before old ones leave, and {they} no room."


def _left_out(addresses: Sequence[str]) -> str:
    if not addresses:
        return ""
    named = ", ".join(addresses[:MOST_NAMED])
    more = f" and {len(addresses) - MOST_NAMED} more" if len(addresses) > MOST_NAMED else ""
    return f" -target or -exclude leave these out of the plan, so that their room is not seen: {named}{more}."


def _forgotten(addresses: Sequence[str]) -> str:
    if not addresses:
        return ""
    named, it = first_of(addresses, MOST_NAMED), form(len(addresses), "it", "them")
    return (
        f" This plan forgets {named}, so that no machine of {it} is known any more: leave out the removed "
        f"{form(len(addresses), 'block', 'blocks')} of {it}, or forget what stands there, too."
    )


# --- placement groups that are not kept --------------------------------------------------------


def broken_groups(objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """A warning per hard anti-affinity group of which more VMs share a place than it allows, because they
    stood there before.
    """
    for vms in objects:
        if vms.going or not vms.asked.moves.stay:
            continue
        rules = dict.fromkeys(chain.from_iterable(pool.groups for pool in vms.pools))
        for rule in rules:
            if rule.affinity or not rule.hard:
                continue
            too_many = list(_too_many(vms, rule))
            if too_many:
                yield _heal_warning(vms, rule, too_many)


def _too_many(vms: VmObject, rule: GroupRule) -> Iterator[tuple[str, list[str]]]:
    """Each place with too many VMs of the group, and those to be healed: the newest beyond its bound."""
    members: dict[str, list[PlacedVm]] = {}
    for vm in vms.placed_vms():
        where = _where(vm.placement, rule.scope)
        if where and vm.pool in rule.pools:
            members.setdefault(where, []).append(vm)
    for where, sharing in members.items():
        beyond = [vm.name for vm in sharing[rule.most :] if (vm.pool, vm.number) not in vms.housing.tokens]
        if beyond:
            yield where, beyond


def _where(place: Placement, scope: str) -> str:
    if scope == "machine":
        return place.machine
    return place.rack if scope == "rack" else ""


def _heal_warning(vms: VmObject, rule: GroupRule, too_many: list[tuple[str, list[str]]]) -> Diagnostic:
    places = [where for where, _ in too_many]
    names = list(chain.from_iterable(beyond for _, beyond in too_many))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    heal = " ".join(f"-replace='{vms.instance.address}:{name}'" for name in names[:MOST_NAMED])
    listed = ", ".join(places[:MOST_NAMED]) + (" and others" if len(places) > MOST_NAMED else "")
    group = rule.name.removeprefix("the others of ")
    return vms.instance.problem(
        Problem(
            (),
            BROKEN_GROUP,
            f"{group} allows {rule.most} of its VMs on one {rule.scope}, and more stand on {listed}. "
            f"A rule moves no VM that stands. To part them, heal: {heal}{more}.",
            Severity.WARNING,
        )
    )


# --- machines that became smaller --------------------------------------------------------------


def overfull(
    instances: Mapping[Address, Instance], sites: Mapping[str, SitePlan], objects: Iterable[VmObject]
) -> list[Diagnostic]:
    """A warning per rack or machine resource that this plan changes and whose machines are then smaller
    than the VMs that stay on them.
    """
    if not any(vms.asked.moves.stay for vms in objects):
        return []
    changed = {
        str(address): instance
        for address, instance in instances.items()
        if instance.type.offer and instance.action is not Action.NO_OP
    }
    too_small: dict[str, list[str]] = {}  # address of what offers the machines -> their names
    for site in sites.values():
        watched = {machine for machine, address in site.offered_by.items() if address in changed}
        for machine in _exceeded(site, watched):
            too_small.setdefault(site.offered_by[machine], []).append(machine)
    return [_overfull_warning(changed[address], machines) for address, machines in too_small.items()]


def _exceeded(site: SitePlan, watched: set[str]) -> list[str]:
    """Those of the watched machines that hold more than they have."""
    if not watched:
        return []
    cpus: Counter[tuple[str, int]] = Counter()
    memory: Counter[tuple[str, int]] = Counter()
    disk: Counter[str] = Counter()
    for vm in site.scheduler.vms():
        machine = vm.placement.machine
        if machine in watched:
            disk[machine] += vm.sku.disk_gib
            for cell in vm.placement.cells:
                cpus[machine, cell] += vm.sku.cpus_in_cell
                memory[machine, cell] += vm.sku.mib_in_cell

    small = {name for name, used in disk.items() if used > site.machines[name].disk_gib}
    small |= {
        name
        for (name, cell), used in cpus.items()
        if not _holds(site.machines[name], cell, used, memory[name, cell])
    }
    small |= watched.intersection(site.scheduler.overfull_machines())
    return [name for name in site.machines if name in small]


def _holds(machine: Machine, cell: int, cpus: int, mib: int) -> bool:
    return (
        cell < machine.cells
        and cpus <= machine.cpus_per_cell
        and mib <= machine.memory_gib_per_cell * MIB_PER_GIB
    )


def _overfull_warning(instance: Instance, machines: list[str]) -> Diagnostic:
    named = ", ".join(machines[:MOST_NAMED])
    more = f" and {len(machines) - MOST_NAMED} more" if len(machines) > MOST_NAMED else ""
    return instance.problem(
        Problem(
            (),
            "machine-smaller-than-what-stands-on-it",
            f"With these figures {named}{more} of {instance.address} cannot hold the VMs that stand there. "
            "They stay and are counted; the machine takes no new VM until there is room again.",
            Severity.WARNING,
        )
    )


def too_many_vfs(objects: Iterable[VmObject]) -> list[Diagnostic]:
    """A warning per pool whose `sriov_vfs` this plan raises, where a cell has fewer than its VMs take."""
    diagnostics: list[Diagnostic] = []
    for vms in objects:
        if vms.asked.site is None:
            continue
        before = {pool.pool: pool.sku.vfs for pool in vms.prior_pools}
        for pool in vms.pools:
            if pool.sku.vfs <= before.get(pool.pool, pool.sku.vfs):
                continue
            machines = {vm.placement.machine for vm in vms.housing.placed.values() if vm.pool == pool.pool}
            short = _short_of_vfs(vms.asked.site, machines)
            if short:
                diagnostics.append(_too_many_vfs(vms.instance, pool, short))
    return diagnostics


def _short_of_vfs(site: SitePlan, machines: set[str]) -> list[str]:
    """Those of the machines on which a cell has fewer VFs than the VMs there take."""
    taken: Counter[tuple[str, int]] = Counter()
    for vm in site.scheduler.vms():
        if vm.placement.machine in machines:
            for cell in vm.placement.cells:
                taken[vm.placement.machine, cell] += vm.sku.vfs_in_cell
    beyond = {name for (name, _), vfs in taken.items() if vfs > site.machines[name].vfs_per_cell}
    return [name for name in site.machines if name in beyond]


def _too_many_vfs(instance: Instance, pool: PoolDemand, machines: list[str]) -> Diagnostic:
    named = ", ".join(machines[:MOST_NAMED])
    more = f" and {len(machines) - MOST_NAMED} more" if len(machines) > MOST_NAMED else ""
    return instance.problem(
        Problem(
            (*pool.path, "sriov_vfs"),
            "more-vfs-than-a-cell-has",
            f"With {pool.sku.vfs} VFs for each VM, cells of {named}{more} have fewer than VMs there take. "
            "They stay and are counted; such a cell takes no new VM with VFs until there are enough again.",
            Severity.WARNING,
        )
    )


class SiteCertainty(Struct, frozen=True):
    """What the repetitions of one site said: per VM (its handle) and per pool. `outcomes` holds, per
    run, where each VM (its handle) stood, None where it did not fit; kept only when asked for. `fits` says
    per run whether everything did. On `loose_racks` are VMs whose cells nobody told, and these decide whether
    others fit: what the runs say of VMs that may go there is drawn, not certain.
    """

    vms: Mapping[int, Certainty] = field(default_factory=dict)
    pools: Mapping[tuple[str, str], PoolCertainty] = field(default_factory=dict)
    outcomes: tuple[Mapping[Token, Placement | None], ...] = ()
    fits: tuple[bool, ...] = ()
    loose_racks: frozenset[str] = frozenset()

    def pool(self, owner: str, pool: str) -> PoolCertainty | None:
        """The figures of a pool, None when this plan placed none of its VMs."""
        return self.pools.get((owner, pool))


def as_claims_held(
    certainty: Mapping[str, SiteCertainty], records: Mapping[str, Record]
) -> dict[str, SiteCertainty]:
    """The shares of every site, lowered to what held of the claims that were settled there."""
    lowered = dict(certainty)
    for site_id in certainty.keys() & records.keys():
        record, measured = records[site_id], certainty[site_id]
        vms = {token: _as_it_held(shares, record) for token, shares in measured.vms.items()}
        pools = {key: _pool_as_it_held(pool, record) for key, pool in measured.pools.items()}
        lowered[site_id] = replace(measured, vms=vms, pools=pools)
    return lowered


def _as_it_held(shares: Certainty, record: Record) -> Certainty:
    measured = (shares.rack, shares.machine, shares.rack_count)
    rack, machine, count = (
        as_it_held(record, about, share) for about, share in zip(VM_CLAIMS, measured, strict=True)
    )
    if (rack, machine, count) == measured:
        return shares
    return replace(shares, rack=rack, machine=machine, rack_count=count, measured=measured)


def _pool_as_it_held(pool: PoolCertainty, record: Record) -> PoolCertainty:
    """A pool of which nothing is called certain that did not always hold."""
    if as_it_held(record, MACHINE_CLAIM, 1) < 1:
        pool = replace(pool, machine_certain=0)
    if as_it_held(record, COUNT_CLAIM, 1) < 1:
        pool = replace(pool, certain_racks=())
    return pool


def _told(progress: Progress, before: int, of: int) -> Callable[[int], None]:
    """Tells how many tie-breaks were tried, of all sites."""
    return lambda runs: progress(Stage.TIE_BREAKS, before + runs, of)


def measure(
    sites: Mapping[str, SitePlan],
    runs: int | None,
    *,
    progress: Progress,
    first: int = 0,
    keep_outcomes: bool = False,
) -> tuple[int, dict[str, SiteCertainty]]:
    """Repeat the placements of every site with the seeds from `first` on; `runs` None takes the default for
    so many VMs. Gives how many runs were made, 0 when nothing was placed.
    """
    operations = chain.from_iterable(site.operations for site in sites.values())
    placed = sum(1 for operation in operations if isinstance(operation, VmPlaced))
    if placed == 0:
        return 0, {}
    run_count = default_runs(placed) if runs is None else runs
    certainty: dict[str, SiteCertainty] = {}
    played = [site for site in sites.values() if site.operations]
    for site_id, site in sites.items():
        if site.base is None or not site.operations or run_count == 0:
            continue
        before, of = len(certainty) * run_count, len(played) * run_count
        outcome = repeat(
            site.base,
            site.operations,
            run_count,
            first=first,
            keep_outcomes=keep_outcomes,
            played=_told(progress, before, of),
        )
        vms = {token: sure for token, sure in outcome.vms.items() if isinstance(token, int)}
        pools = {(pool.owner, pool.pool): pool for pool in outcome.pools}
        machines = [site.machines[name] for name in outcome.drawn]
        loose_racks = frozenset(machine.rack for machine in machines)
        certainty[site_id] = SiteCertainty(vms, pools, outcome.outcomes, outcome.fits, loose_racks)
    return run_count, certainty
