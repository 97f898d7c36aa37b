"""Whether what a state says keeps the rules: the filters of placement, groups, separation. A site may stand
against them lawfully (a rule moves no VM that stands), so all that is said are warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import GroupRule, PlacedVm, PoolDemand
from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.instances.instance import Arguments, Decision, Instance
from nexusform.planning.phases import hosted_in
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.verdicts.fit import broken_groups
from nexusform.planning.verdicts.separation import BROKEN, judge, violation_text
from nexusform.planning.verification.standing_state import standing_inventory
from nexusform.planning.vms.sites import SitePlan, build_sites, demand_for, surroundings_before
from nexusform.planning.vms.vm_object import Housing, Moves, VmObject, VmsAsked, VmsBefore
from nexusform.planning.vms.vm_world import HintTargets
from nexusform.plans.plan import SeparationVerdict
from nexusform.ports import Kind, Registries
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.rule import MachineFilter, RoomFilter
from nexusform.scheduling.racks.vms import Demand
from nexusform.state.objects import State
from nexusform.words import first_of, form

STANDS_AGAINST: Final = "stands-against-a-rule"
_MOST_NAMED: Final = 5


def broken_rules(state: State, registries: Registries) -> list[Diagnostic]:
    """A warning for each rule that what stands does not keep."""
    instances = _instances(state, registries)
    objects = _objects(state, instances, registries)
    sites, _ = build_sites(standing_inventory(state, registries.resource_types))
    diagnostics = [*_refused_where_they_stand(objects.values(), sites), *broken_groups(objects.values())]
    diagnostics += chain.from_iterable(_scattered_groups(vms) for vms in objects.values())
    return [*diagnostics, *_broken_separations(state, instances, objects, registries)]


def _instances(state: State, registries: Registries) -> list[Instance]:
    """Every object that stands, as planning sees one that it leaves alone."""
    instances = []
    for address, recorded in state.instances.items():
        resource_type = registries.resource_types.get(address.type)
        if resource_type is None or recorded.current is None:
            continue
        attributes = dict(recorded.current.attributes)
        instances.append(
            Instance(
                address,
                resource_type,
                recorded.current,
                arguments=Arguments(attributes),
                decision=Decision(planned=attributes),
            )
        )
    return instances


def _objects(state: State, instances: Iterable[Instance], registries: Registries) -> dict[Address, VmObject]:
    """The VMs that stand, and what is asked of them: hints see where those stand that they name."""
    skus = CATALOGUES.get(state.catalogue, CATALOGUES[NEWEST]).vm_skus
    types = registries.resource_types
    surroundings = surroundings_before(Prior(state, state.instances, {}, {}, {}, ()), skus, types)
    objects: dict[Address, VmObject] = {}
    for instance in instances:
        family = instance.type.vms
        if family is not None and instance.config is not None:
            placed = {(vm.pool, vm.number): vm for vm in family.standing(instance.config)}
            asked = VmsAsked(moves=Moves(stay=list(placed)))
            vms = VmObject(instance, VmsBefore(standing=placed), asked, Housing(placed=placed))
            objects[instance.address] = vms
    targets = HintTargets(standing_inventory(state, types))
    targets.take_in(objects.values())
    surroundings.targets = targets
    for vms in objects.values():
        family, config = vms.instance.type.vms, vms.instance.config
        if family is not None and config is not None:
            demand, _ = family.demand(config, surroundings, vms.instance.address)
            vms.asked = replace(vms.asked, demand=demand)
    return objects


def _warning(vms: VmObject, detail: str) -> Diagnostic:
    return vms.instance.problem(Problem((), STANDS_AGAINST, detail, Severity.WARNING))


def _heal(address: Address, vms: Iterable[PlacedVm]) -> str:
    """How to place these VMs of one object anew, a sentence."""
    options = [f"-replace='{address}:{vm.name}'" for vm in vms]
    return f"A rule moves no VM that stands. To place anew: {first_of(options, _MOST_NAMED, ' ')}."


# --- the filters of placement ------------------------------------------------------------------


class _Stood(Struct, frozen=True):
    """A VM that stands, what it would be asked for with now, and its handle on its site."""

    vms: VmObject
    pool: PoolDemand
    vm: PlacedVm
    demand: Demand
    handle: int


def _refused_where_they_stand(
    objects: Iterable[VmObject], sites: Mapping[str, SitePlan]
) -> Iterator[Diagnostic]:
    """A warning per pool and reason: the VMs that a filter would refuse their own machine."""
    by_site = _stood(objects, sites)
    against: dict[tuple[Address, str, str], list[_Stood]] = {}
    for site_id, stood in by_site.items():
        scheduler = sites[site_id].scheduler
        for each in stood:
            scheduler.release(each.handle)
            for rule, reason in scheduler.refusals(each.vm.placement.machine, each.demand):
                # It has its room, and need not be taken anew.
                if not isinstance(rule, (MachineFilter, RoomFilter)):
                    key = each.vms.instance.address, each.pool.pool, reason
                    against.setdefault(key, []).append(each)
            scheduler.occupy(each.demand.vm, each.demand.sku, each.vm.placement)
    for (address, pool, reason), refused in against.items():
        standing = [each.vm for each in refused]
        places = [f"{vm.name} on {vm.placement.machine} ({vm.placement.rack})" for vm in standing]
        yield _warning(
            refused[0].vms,
            f"{pool} in {address}: {reason}. Against it {form(len(places), 'stands', 'stand')} "
            f"{first_of(places, _MOST_NAMED)}. {_heal(address, standing)}",
        )


def _stood(objects: Iterable[VmObject], sites: Mapping[str, SitePlan]) -> dict[str, list[_Stood]]:
    """By the id of a site, the VMs on its machines; all of them are put there."""
    by_site: dict[str, list[_Stood]] = {}
    for vms in objects:
        site = sites.get(vms.asked.demand.site_id) if vms.asked.demand is not None else None
        if site is None or vms.asked.demand is None:
            continue
        pools = {pool.pool: pool for pool in vms.pools}
        for vm in vms.housing.placed.values():
            pool = pools.get(vm.pool)
            if pool is None or vm.placement.machine not in site.machines:
                continue
            demand = demand_for(vms.asked.demand, _without_idle_hints(pool), vm.number)
            handle = site.scheduler.occupy(demand.vm, demand.sku, vm.placement)
            by_site.setdefault(site.id, []).append(_Stood(vms, pool, vm, demand, handle))
    return by_site


def _without_idle_hints(pool: PoolDemand) -> PoolDemand:
    """The pool without hints that name nothing that stands."""
    hints = tuple(hint for hint in pool.terms.hints if hint.racks)
    return replace(pool, terms=replace(pool.terms, hints=hints))


# --- groups of one object ----------------------------------------------------------------------


def _scattered_groups(vms: VmObject) -> Iterator[Diagnostic]:
    """Hard affinity groups whose VMs stand in several places. Too many in one are told of elsewhere."""
    for group in dict.fromkeys(chain.from_iterable(pool.groups for pool in vms.pools)):
        places = _places(vms, group) if group.affinity and group.hard else set()
        if len(places) > 1:
            name, where = group.name.removeprefix("the others of "), first_of(sorted(places), _MOST_NAMED)
            yield _warning(
                vms,
                f"{name} keeps its VMs on one {group.scope}, and they stand on {where}. A rule moves no VM "
                "that stands; heal those that are to move, with -replace.",
            )


def _places(vms: VmObject, group: GroupRule) -> set[str]:
    """The machines or racks, as the group's scope has it, on which its VMs stand."""
    standing = [vm.placement for vm in vms.housing.placed.values() if vm.pool in group.pools]
    if group.scope == "machine":
        return {place.machine for place in standing}
    return {place.rack for place in standing} if group.scope == "rack" else set()


# --- separation --------------------------------------------------------------------------------


def _broken_separations(
    state: State, instances: Sequence[Instance], objects: Mapping[Address, VmObject], registries: Registries
) -> Iterator[Diagnostic]:
    """A warning per separation rule that does not hold as things stand."""
    standing_rules = [instance for instance in instances if instance.type.kind is Kind.SEPARATION_RULE]
    rules = {rule.address: rule for rule in standing_rules}
    if not rules:
        return
    groups = chain.from_iterable((rule.config or {}).get("group") or () for rule in rules.values())
    selects_pods = any(group.get("workload_selector") for group in groups)
    pods = hosted_in(state, registries) if selects_pods else []
    verdicts = judge(rules.values(), objects, {}, {}, pods)
    for problem in verdicts.diagnostics:
        if problem.id != BROKEN:
            yield replace(problem, severity=Severity.WARNING)
    for verdict in verdicts.verdicts:
        if verdict.violations:
            yield rules[verdict.address].problem(
                Problem((), BROKEN, _separation_text(verdict), Severity.WARNING)
            )


def _separation_text(verdict: SeparationVerdict) -> str:
    count = len(verdict.violations)
    places = form(count, verdict.scope)
    lines = [f"{verdict.address} does not hold as things stand. Its groups share {count} {places}:"]
    lines += [f" - {violation_text(violation)}" for violation in verdict.violations[:_MOST_NAMED]]
    if count > _MOST_NAMED:
        lines.append(f" - and {count - _MOST_NAMED} more")
    return "\n".join(lines)
