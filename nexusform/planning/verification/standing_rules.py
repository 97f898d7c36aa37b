"""Whether what a state says keeps the rules: hard hints, zones, placement groups, separation. A site may
stand against them lawfully (a rule moves no VM that stands), so all that is said are warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import GroupRule, PlacedVm, PoolDemand
from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.instances.instance import Instance
from nexusform.planning.phases import hosted_in
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.verdicts.fit import broken_groups
from nexusform.planning.verdicts.separation import BROKEN, judge, violation_text
from nexusform.planning.verification.standing_state import standing_inventory, standing_machines
from nexusform.planning.vms.sites import surroundings_before
from nexusform.planning.vms.vm_object import Moves, VmObject
from nexusform.planning.vms.vm_world import HintTargets
from nexusform.plans.plan import SeparationVerdict
from nexusform.ports import Kind, Registries
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.rules import hints
from nexusform.state.objects import State
from nexusform.words import first_of, form

STANDS_AGAINST: Final = "stands-against-a-rule"
_MOST_NAMED: Final = 5


def broken_rules(state: State, registries: Registries) -> list[Diagnostic]:
    """A warning for each rule that what stands does not keep."""
    instances = _instances(state, registries)
    objects = _objects(state, instances, registries)
    zones = {
        where: machine.availability_zone
        for where, machine in standing_machines(state, registries.resource_types).items()
    }
    diagnostics: list[Diagnostic] = []
    for vms in objects.values():
        for pool in vms.pools:
            placed = [vm for vm in vms.placed.values() if vm.pool == pool.pool]
            diagnostics += _broken_hints(vms, pool, placed)
            diagnostics += _outside_zones(vms, pool, placed, zones)
    diagnostics += broken_groups(objects.values())
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
            Instance(address, resource_type, recorded.current, config=attributes, planned=attributes)
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
            vms = VmObject(instance, standing=placed, placed=placed, moves=Moves(stay=list(placed)))
            objects[instance.address] = vms
    targets = HintTargets(standing_inventory(state, types))
    targets.take_in(objects.values())
    surroundings.targets = targets
    for vms in objects.values():
        family, config = vms.instance.type.vms, vms.instance.config
        if family is not None and config is not None:
            vms.demand, _ = family.demand(config, surroundings, vms.instance.address)
    return objects


def _warning(vms: VmObject, detail: str) -> Diagnostic:
    return vms.instance.problem(Problem((), STANDS_AGAINST, detail, Severity.WARNING))


def _heal(address: Address, vms: Iterable[PlacedVm]) -> str:
    """How to place these VMs of one object anew, a sentence."""
    options = [f"-replace='{address}:{vm.name}'" for vm in vms]
    return f"A rule moves no VM that stands. To place anew: {first_of(options, _MOST_NAMED, ' ')}."


# --- hints and zones ---------------------------------------------------------------------------


def _broken_hints(vms: VmObject, pool: PoolDemand, placed: Sequence[PlacedVm]) -> Iterator[Diagnostic]:
    """A warning per hard hint of a pool that its VMs stand against."""
    for hint in pool.hints:
        if not hint.hard or not hint.racks:
            continue  # nothing stands that it names
        against = [vm for vm in placed if hints.violated(hint, vm.placement.machine, vm.placement.rack)]
        if against:
            where = first_of(
                [f"{vm.name} on {vm.placement.machine} ({vm.placement.rack})" for vm in against], _MOST_NAMED
            )
            yield _warning(
                vms,
                f"{vms.instance.address} has the {hints.sentence(hint)}. Against it stands {where}. "
                f"{_heal(vms.instance.address, against)}",
            )


def _outside_zones(
    vms: VmObject, pool: PoolDemand, placed: Sequence[PlacedVm], zones: Mapping[tuple[str, str], str]
) -> Iterator[Diagnostic]:
    """A warning where VMs of a pool stand in zones that it does not allow."""
    if pool.zones is None or vms.demand is None:
        return
    site_id = vms.demand.site_id
    elsewhere = []
    for vm in placed:
        zone = zones.get((site_id, vm.placement.machine), vm.placement.availability_zone)
        if zone not in pool.zones:
            elsewhere.append((vm, zone))
    if elsewhere:
        named = first_of([f"{vm.name} (zone {zone})" for vm, zone in elsewhere], _MOST_NAMED)
        allowed = ", ".join(sorted(pool.zones))
        stand = form(len(elsewhere), "stands", "stand")
        yield _warning(
            vms,
            f"The availability_zones of {pool.pool} in {vms.instance.address} are {allowed}, and "
            f"{named} {stand} elsewhere. {_heal(vms.instance.address, [vm for vm, _ in elsewhere])}",
        )


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
    standing = [vm.placement for vm in vms.placed.values() if vm.pool in group.pools]
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
