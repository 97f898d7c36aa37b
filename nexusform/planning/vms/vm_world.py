"""What VMs are planned on: the sites, what arguments mean before and after, and what is asked of VMs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PoolDemand, VmDemand
from nexusform.diagnostics import Diagnostic, Problem, Severity, did_you_mean, error
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vms.sites import (
    PlanSurroundings,
    SitePlan,
    Targets,
    build_sites,
    inventory_of,
    machines_of,
    surroundings_before,
    vm_skus,
)
from nexusform.planning.vms.vm_object import HardHint, VmObject, changed_argument
from nexusform.plans.plan import Action
from nexusform.ports import Kind
from nexusform.scheduling.racks.vms import Hint, HintScope
from nexusform.scheduling.world import Inventory, MachineClash

# Who has a hard hint, where among its hints it is written, and the attributes of its block.
_WrittenHint: TypeAlias = tuple[VmObject, int, Mapping[str, Any]]


class HintTargets:
    """Machines and racks by the ids that hints may name: a VM, a cluster or VNF, a machine, a rack."""

    def __init__(self, inventory: Inventory) -> None:
        self._racks = {rack.id: rack for rack in inventory.racks.values()}
        self._machines: dict[str, tuple[str, str]] = {}  # id -> names of machine and rack
        for rack in self._racks.values():
            for machine in rack.machines:
                self._machines[f"{rack.id}/{machine.name}"] = (machine.name, rack.name)
        for offer in inventory.machines.values():
            machine = offer.machine
            self._machines[f"{offer.rack_id}/{machine.name}"] = (machine.name, machine.rack)
        self._objects: dict[str, VmObject] = {}
        # By the id that a hard hint names, and the address of who has the hint.
        self._hinting: dict[str, dict[Address, list[_WrittenHint]]] = {}

    def take_in(self, objects: Iterable[VmObject]) -> None:
        """From now on hints see where the VMs of these objects stand."""
        for vms in objects:
            values = vms.instance.config or vms.instance.planned
            if values is not None and not vms.going:
                self._objects[vms.instance.type.identify(values)] = vms
                self._note_hints(vms, values)

    def _note_hints(self, vms: VmObject, values: Mapping[str, Any]) -> None:
        """Note the hard hints of an object by what they name, in place of those that it had before."""
        by_target: dict[str, list[_WrittenHint]] = {}
        for index, hint in _hard_hints(values):
            if isinstance(hint["resource_id"], str):
                by_target.setdefault(hint["resource_id"], []).append((vms, index, hint))
        for target, hints in by_target.items():
            self._hinting.setdefault(target, {})[vms.instance.address] = hints

    def of_others(self, vms: VmObject) -> list[HardHint]:
        """The hard hints of other VMs that name this object, seen from where those VMs stand by now. To be
        with a cluster is to be with any of its VMs, so that hint binds an object of one VM alone.
        """
        values = vms.instance.config or vms.instance.planned
        if not self._hinting or values is None or vms.asked.demand is None:
            return []
        hinting = self._hinting.get(vms.instance.type.identify(values), {})
        is_single = sum(len(pool.numbers) for pool in vms.asked.demand.pools) == 1
        hints = []
        for owner, index, written in chain.from_iterable(hinting.values()):
            if not owner.housing.placed or owner is vms:
                continue
            hint = _seen_from(owner, written)
            if is_single or not hint.affinity:
                name = next(iter(owner.housing.placed.values())).name
                stands = not owner.asked.moves.again
                hints.append(HardHint(owner.instance.address, name, index, hint, stands=stands))
        return hints

    def of_itself(self, vms: VmObject) -> list[HardHint]:
        """The hard hints that an object of one VM has itself, each with its place among those written."""
        if vms.asked.demand is None or vms.instance.config is None:
            return []
        pool = vms.asked.demand.pools[0]
        by_words = {(hint.target, hint.affinity, str(hint.scope)): hint for hint in pool.hints if hint.hard}
        hints = []
        for index, written in _hard_hints(vms.instance.config):
            affinity = written["hint_type"] == "Affinity"
            hint = by_words.get((str(written["resource_id"]), affinity, written["scope"]))
            if hint is not None:
                hints.append(HardHint(vms.instance.address, pool.names[0], index, hint, stands=False))
        return hints

    def __call__(self, resource_id: str) -> Targets | None:
        """Names of machines and racks, or None when nothing has this id."""
        vms = self._objects.get(resource_id)
        if vms is not None:
            places = [vm.placement for vm in vms.housing.placed.values()]
            return frozenset(place.machine for place in places), frozenset(place.rack for place in places)
        if resource_id in self._machines:
            machine, rack = self._machines[resource_id]
            return frozenset({machine}), frozenset({rack})
        offer = self._racks.get(resource_id)
        if offer is not None:
            return frozenset(machine.name for machine in offer.machines), frozenset({offer.name})
        return None


def _seen_from(owner: VmObject, written: Mapping[str, Any]) -> Hint:
    """A hard hint of an object as it binds whom it names: with, or away from, the owner's VMs."""
    places = [vm.placement for vm in owner.housing.placed.values()]
    return Hint(
        affinity=written["hint_type"] == "Affinity",
        hard=True,
        scope=HintScope(written["scope"]),
        machines=frozenset(place.machine for place in places),
        racks=frozenset(place.rack for place in places),
        target=f"{owner.instance.address}, whose hint names it",
    )


def _hard_hints(values: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The hard hints that are written at a VM, and where among its hints."""
    written = values.get("placement_hint")
    for index, hint in enumerate(written if isinstance(written, list) else ()):
        if hint["scheduling_execution"] == "Hard":
            yield index, hint


class VmWorld(Struct, frozen=True):
    """What the VMs of a plan are placed on, and how.

    `before` is what prior arguments meant, `after` what arguments mean now, `hints` what hints point at.
    `heal` are the names of VMs to be placed anew by the address of their object (text), `explain` the
    (address, name) of VMs whose decision is to be explained; None = every VM that is placed.
    `was_managed(site, machine)`: state has what makes a machine, and this plan does not merely forget it.
    """

    sites: Mapping[str, SitePlan]
    before: PlanSurroundings
    after: PlanSurroundings
    hints: HintTargets
    heal: Mapping[str, frozenset[str]]
    explain: frozenset[tuple[str, str]] | None
    was_managed: Callable[[str, str], bool]
    diagnostics: tuple[Diagnostic, ...] = ()

    def settle(self) -> None:
        """The removals have left: from here on every step is written down, to be repeated."""
        for site in self.sites.values():
            site.settle()


def vm_world(blocks: Blocks) -> VmWorld:
    """The world that the racks and machines planned so far offer."""
    request, selection, inventory = blocks.request, blocks.selection, blocks.inventory
    sites, clashes = build_sites(inventory, request.split_seed)
    _renew(sites, blocks)
    skus, problems = vm_skus(request, inventory)
    hints = HintTargets(inventory)
    machines = {site.id: tuple(site.machines.values()) for site in sites.values()}
    heal = {str(address): selection.heals(address) for address in blocks.prior.instances}
    return VmWorld(
        sites=sites,
        before=surroundings_before(blocks.prior, skus, request.registries.resource_types),
        after=PlanSurroundings(skus, targets=hints, sites=machines),
        hints=hints,
        heal=heal if selection.heal else {},
        explain=None if request.want_rejected else frozenset(request.explain),
        was_managed=_recorded_machines(blocks),
        diagnostics=(*[_clash(clash, blocks.instances) for clash in clashes], *problems),
    )


def _renew(sites: Mapping[str, SitePlan], blocks: Blocks) -> None:
    """Note which machines this plan makes anew."""
    found_gone = blocks.prior.state.instances.keys() - blocks.prior.instances.keys()
    makers = [each for each in blocks.instances.values() if each.type.offer is not None]
    if not found_gone and not any(each.replaced or each.action is Action.DELETE for each in makers):
        return
    from nexusform.planning.vms.renewal import renewed_machines

    for site_id, machines in renewed_machines(blocks, sites).items():
        sites[site_id].renewed = machines


def emptied_world(blocks: Blocks) -> VmWorld:
    """A world in which nothing is placed: a destroy plan's, without sites."""
    skus, _ = vm_skus(blocks.request, blocks.inventory)
    before = surroundings_before(blocks.prior, skus, blocks.request.registries.resource_types)
    managed = _recorded_machines(blocks)
    return VmWorld({}, before, before, HintTargets(blocks.inventory), {}, frozenset(), managed)


def _recorded_machines(blocks: Blocks) -> Callable[[str, str], bool]:
    """Whether state has what makes a machine of a site, but for what this plan forgets; looked up where
    anybody asks.
    """

    @cache
    def machines() -> frozenset[tuple[str, str]]:
        forgotten = {each.address for each in blocks.instances.values() if each.action is Action.FORGET}
        recorded = [
            (address, instance.current.attributes)
            for address, instance in blocks.prior.state.instances.items()
            if instance.current is not None and address not in forgotten
        ]
        return machines_of(inventory_of(recorded, blocks.request.registries.resource_types))

    return lambda site_id, machine: (site_id, machine) in machines()


def _clash(clash: MachineClash, instances: Mapping[Address, Instance]) -> Diagnostic:
    """Two descriptions of one machine, told at the second."""
    if clash.what == "name":
        detail = (
            f'The machine "{clash.name}" stands twice on site {clash.site_id}: {clash.first} and '
            f"{clash.second} both describe it. A machine is known by its site and name; give one of them "
            "another name, or remove it."
        )
    else:
        detail = (
            f"{clash.first} and {clash.second} describe the same slot of one rack. Give one of them "
            "another slot."
        )
    by_text = {str(address): instance for address, instance in instances.items()}
    second = by_text.get(clash.second)
    if second is None:
        return error("duplicate-machine", detail)
    at_argument = second.type.kind is Kind.MACHINE  # a rack names its machines nowhere
    argument = "name" if clash.what == "name" else "slot"
    return second.error("duplicate-machine", detail, (argument,) if at_argument else ())


# --- what is asked for -------------------------------------------------------------------------


def demand_of(vms: VmObject, world: VmWorld) -> tuple[VmDemand | None, list[Diagnostic]]:
    """What an instance asks for; None when it goes or it cannot be told, and then it is broken."""
    instance = vms.instance
    family = instance.type.vms
    attributes = instance.config if instance.config is not None else instance.planned
    if instance.going or instance.broken or attributes is None or family is None:
        return None, []
    demand, problems = family.demand(attributes, world.after, instance.address)
    if demand is not None and instance.block is not None:
        refusals = list(_refusals(demand, vms, world))
        problems = [*problems, *refusals]
        if any(problem.severity is Severity.ERROR for problem in refusals):
            demand = None
    instance.broken |= demand is None
    return demand, [instance.problem(problem) for problem in problems]


def _refusals(demand: VmDemand, vms: VmObject, world: VmWorld) -> Iterator[Problem]:
    """Sites, zones and machines that are not there."""
    site = world.sites.get(demand.site_id)
    if site is None:
        yield _unknown_site(demand, sorted(world.sites))
        return
    zones = site.zones()
    for pool in demand.pools:
        missing = sorted((pool.zones or frozenset()) - set(zones))
        if missing:
            problem = _unknown_zones(pool, demand.site_id, missing, zones)
            yield replace(problem, severity=Severity.WARNING) if _stands_so(pool, vms, site) else problem
        if pool.pinned and pool.pinned not in site.machines:
            yield _unknown_machine(pool, site)


def _stands_so(pool: PoolDemand, vms: VmObject, site: SitePlan) -> bool:
    """Whether a pool had these zones before, and all of its VMs stay: a real site may show a pool whose zones
    no rack has any more.
    """
    if (pool.pool, pool.zones) not in [(prior.pool, prior.zones) for prior in vms.prior_pools]:
        return False
    machines = [vm.placement.machine for vm in vms.before.standing.values() if vm.pool == pool.pool]
    return all(machine in site.machines for machine in machines)


def _unknown_site(demand: VmDemand, known: Sequence[str]) -> Problem:
    hint = did_you_mean(demand.site_id, known) if demand.site_id else ""
    listed = f" Known sites: {', '.join(known)}." if known else " No nexus_site is declared."
    return Problem(
        () if demand.parent_id else ("site_id",),
        "unknown-site",
        f'No site has the id "{demand.site_id}".{hint}{listed}',
    )


def _unknown_zones(pool: PoolDemand, site_id: str, missing: Iterable[str], zones: Iterable[str]) -> Problem:
    listed = ", ".join(f'"{zone}"' for zone in zones) or "none"
    names = ", ".join(f'"{zone}"' for zone in missing)
    return Problem(
        (*pool.path, "availability_zones"),
        "unknown-availability-zone",
        f"No rack of site {site_id} is in zone {names}. Zones of the site: {listed}. "
        "Name one of these, or leave availability_zones out to allow all.",
    )


def _unknown_machine(pool: PoolDemand, site: SitePlan) -> Problem:
    near = did_you_mean(pool.pinned, site.machines)
    return Problem(("machine",), "unknown-machine", f'Site {site.id} has no machine "{pool.pinned}".{near}')


# --- the last System pool ----------------------------------------------------------------------


def last_system_pools(objects: Sequence[VmObject]) -> Iterator[Diagnostic]:
    """Errors for pools that are the only System pool of their cluster and would be replaced, warnings for
    clusters that lose all of theirs.

    A change that re-places a pool's VMs is delete and create of the pool on Azure, and a cluster needs a
    System pool at all times.
    """
    yield from _replaced_system_pools(objects)
    yield from _clusters_without_system_pool(objects)


def _replaced_system_pools(objects: Sequence[VmObject]) -> Iterator[Diagnostic]:
    """Of pools that would be replaced and are the only System pool of a cluster that stays."""
    standing = [(vms, vms.before.demand) for vms in objects if vms.before.demand is not None]
    system_pools: Counter[str] = Counter()
    for _, prior in standing:
        system_pools[prior.owner] += sum(pool.system for pool in prior.pools)
    for vms, prior in standing:
        stays = not vms.instance.replaced and vms.instance.block is not None
        if vms.asked.demand is None or not stays or system_pools[prior.owner] != 1:
            continue
        pools = {pool.pool: pool for pool in vms.asked.demand.pools}
        for pool in prior.pools:
            if pool.system and pool.pool in pools and _is_replaced(vms, pool, pools[pool.pool]):
                yield _last_system_pool(vms.instance, prior.cluster, pool)


def _clusters_without_system_pool(objects: Sequence[VmObject]) -> Iterator[Diagnostic]:
    """Of clusters that stay, had System pools, and would have none, whether their own blocks or others'."""
    before = Counter(_owners_of_system_pools(vms.before.demand for vms in objects))
    after = Counter(_owners_of_system_pools(vms.asked.demand for vms in objects))
    for vms in objects:
        prior, instance = vms.before.demand, vms.instance
        stays = vms.asked.demand is not None and instance.block is not None and not instance.replaced
        if prior is None or prior.parent_id or not stays:
            continue
        if before[prior.owner] and not after[prior.owner]:
            detail = (
                f"The change leaves {prior.cluster} without a pool of mode System, and Azure does not "
                "delete the last: a cluster needs one at all times. Keep one, or add another."
            )
            warning = Problem((), "cluster-loses-its-system-pools", detail, Severity.WARNING)
            yield instance.problem(warning)


def _owners_of_system_pools(demands: Iterable[VmDemand | None]) -> Iterator[str]:
    for demand in demands:
        if demand is not None:
            yield from (demand.owner for pool in demand.pools if pool.system)


def _is_replaced(vms: VmObject, prior: PoolDemand, pool: PoolDemand) -> bool:
    """Another trigger may stand before this one for every VM; the pool is replaced all the same."""
    stands = any(name == pool.pool for name, _ in vms.before.standing)
    return stands and bool(changed_argument(prior, pool))


def _last_system_pool(instance: Instance, cluster: str, pool: PoolDemand) -> Diagnostic:
    return instance.error(
        "last-system-pool-cannot-be-replaced",
        f"The change deletes and creates {pool.pool}, the only pool of {cluster} with mode System, and a "
        "cluster needs one at all times. Take two steps: add a second pool with mode System and apply; then "
        f"change {pool.pool} and apply again.",
        pool.path,
    )
