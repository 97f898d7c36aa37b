"""VMs whose machine a plan takes away, or makes anew, while it leaves them alone: -target or -exclude leaves
their object out, or a destroy plan takes the machine and not them. Such a plan is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, Problem, Severity, diagnostic
from nexusform.planning.instances.instance import Instance
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.vms.sites import SitePlan, build_sites, inventory_of
from nexusform.planning.vms.vm_object import MACHINE_REMOVED, MACHINE_REPLACED, VmObject
from nexusform.plans.impact.guard_rails import STRANDED
from nexusform.plans.plan import Action, Mode
from nexusform.plans.room.occupancy import noted
from nexusform.ports import FORGOTTEN as FORGOTTEN_VMS
from nexusform.ports import ResourceType
from nexusform.words import counted, first_of, form, listed, natural

GONE_ALREADY = "machine-is-gone-under-vms"
SELECTION = "selection"  # among what such an error carries: the options that it proposes
NAMESAKES = "vms-of-these-names-run-already"
_MOST_NAMED = 4
_MOST_OBJECTS = 12
FORGOTTEN_GROUND = "forgotten-vms-lose-their-machine"
LOST_VMS = "forgotten_vms"  # among what it carries: site id, machine and name of each


def stranded(
    objects: Iterable[VmObject],
    instances: Mapping[Address, Instance],
    types: Mapping[str, ResourceType],
    selection: Selection,
    mode: Mode,
    sites: Mapping[str, SitePlan],
) -> Iterator[Diagnostic]:
    """An error for every object whose machines this plan takes away, or makes anew, with VMs on them; a
    warning for VMs whose machine was gone before it.
    """
    losing = [vms for vms in objects if vms.asked.moves.lost]
    if not losing:
        return
    makers = _makers_before(instances, types)
    for site_id, site in sites.items():
        makers |= {(site_id, name): renewal.cause for name, renewal in site.renewed.items()}
    taken: dict[str, list[VmObject]] = {}
    for vms in losing:
        makers_of_vms = {makers.get((_site_of(vms), machine), "") for machine in _machines(vms)}
        for maker in sorted(makers_of_vms):
            taken.setdefault(maker, []).append(vms)
    by_text = {str(address): instance for address, instance in instances.items()}
    for maker, owners in taken.items():
        lost = {vms.instance.address: _lost_with(vms, maker, makers) for vms in owners}
        if not maker:
            yield _gone_already(lost)
            continue
        instance = by_text[maker]
        forgotten = {address: lost.pop(address) for address in [*lost] if instances[address].going}
        if lost:
            refusal = instance.error(STRANDED, _refusal(instance, lost, selection, mode))
            proposed = _proposed(lost, selection, mode)
            yield replace(refusal, extra={SELECTION: proposed}) if proposed else refusal
        if forgotten:
            yield instance.error(STRANDED, _no_running_on(instance, forgotten))


Lost: TypeAlias = tuple[str, str, str]  # a forgotten VM that loses its machine: site id, machine, name


def lost_with_ground(
    instances: Mapping[Address, Instance],
    types: Mapping[str, ResourceType],
    sites: Mapping[str, SitePlan],
    mode: Mode,
) -> dict[Address, list[Lost]]:
    """The VMs that were forgotten, run on, and lose their machine to this plan, by what remembers them: from
    now on that does so no more. `sites` are as the plan leaves them; none are known of one that destroys.
    """
    remembered = {address: rows for address, each in instances.items() if (rows := _forgotten_on(each))}
    if not remembered:
        return {}
    stood = _makers_before(instances, types)
    lost: dict[Address, list[Lost]] = {}
    for address, rows in remembered.items():
        instance = instances[address]
        for vm in rows:
            site = None if mode is Mode.DESTROY else sites.get(vm[0])
            if vm[:2] in stood and _loses_ground(instance, vm, site):
                lost.setdefault(address, []).append(vm)
        if address in lost and not (instance.going or instance.replaced):
            instance.private = _without(instance, lost[address])
    return lost


def _forgotten_on(instance: Instance) -> list[Lost]:
    """The forgotten VMs that a rack or machine remembers."""
    prior = instance.prior
    rows = (prior.private or {}).get(FORGOTTEN_VMS) if prior is not None else None
    if not rows or prior is None:
        return []
    seen = noted(instance.type, prior.attributes, {FORGOTTEN_VMS: rows})
    return [(site_id, vm.machine, vm.name) for site_id, vm in seen]


def _loses_ground(instance: Instance, vm: Lost, site: SitePlan | None) -> bool:
    """Whether a forgotten VM does not run on: its machine goes, or another one comes in its place."""
    if instance.action is Action.FORGET:
        return False
    if site is None:
        return instance.going or instance.replaced
    return site.machine_trigger(vm[1]) in (MACHINE_REMOVED, MACHINE_REPLACED)


def _without(instance: Instance, lost: Iterable[Lost]) -> Mapping[str, Any]:
    """The note of a rack or machine without these."""
    prior = instance.prior.private if instance.prior is not None else None
    note = dict(instance.private or prior or {})
    gone = {vm[1:] for vm in lost}
    left = [row for row in note.pop(FORGOTTEN_VMS, ()) if tuple(row[:2]) not in gone]
    return {**note, **({FORGOTTEN_VMS: left} if left else {})}


def forgotten_ground(
    instances: Mapping[Address, Instance], lost: Mapping[Address, Sequence[Lost]]
) -> Iterator[Diagnostic]:
    """A warning for whatever takes machines away, or makes them anew, under forgotten VMs: nobody manages
    them, so no row tells of them.
    """
    for address, vms in lost.items():
        instance = instances[address]
        names = [f"{name} on {machine}" for _, machine, name in vms]
        happens = "loses machines"
        if instance.replaced:
            happens = "is made anew"
        elif instance.going:
            happens = "is destroyed"
        runs, goes = form(len(names), "runs", "run"), form(len(names), "It goes", "They go")
        text = (
            f"{address} {happens}, and {counted(len(names), 'VM')} that no resource manages any "
            f"more {runs} there: {first_of(names, _MOST_NAMED)}. {goes} with it. Take them over with an "
            f"import block, or say that one is gone: nexusform state rm '{address}:NAME'."
        )
        brief = f"{address}: {happens} under {counted(len(names), 'forgotten VM')}"
        told = instance.problem(Problem((), FORGOTTEN_GROUND, text, Severity.WARNING, brief=brief))
        yield replace(told, extra={LOST_VMS: [list(vm) for vm in vms]})


def namesakes(objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """A warning where VMs come under names that run on their site already, and that no resource manages: a
    cluster that was forgotten is asked for again.
    """
    for vms in objects:
        if vms.asked.site is None or not vms.asked.site.unmanaged or not vms.asked.moves.arrive:
            continue
        running = {vm.name: vm.machine for vm in vms.asked.site.unmanaged}
        coming = [vms.housing.placed[key].name for key in vms.asked.moves.arrive if key in vms.housing.placed]
        twice = sorted(running.keys() & set(coming), key=natural)
        if not twice:
            continue
        address, number = vms.instance.address, len(twice)
        named = [f"{name} on {running[name]}" for name in twice]
        runs, they = form(number, "runs", "run"), form(number, "it is", "they are")
        text = (
            f"{counted(number, 'VM')} {runs} already under {form(number, 'a name', 'names')} that {address} "
            f"gives, and no resource manages {form(number, 'it', 'them')}: {first_of(named, _MOST_NAMED)}. A "
            f"platform refuses a name that is taken. If {they} meant, take {form(number, 'it', 'them')} over "
            f"with an import block (to = {address}); if {they} gone, say so: nexusform state rm 'ADDRESS OF "
            "THE RACK:NAME'."
        )
        brief = (
            f"{address}: {counted(number, 'VM')} of the same {form(number, 'name', 'names')} {runs} already"
        )
        yield vms.instance.problem(Problem((), NAMESAKES, text, Severity.WARNING, brief=brief))


def _makers_before(
    instances: Mapping[Address, Instance], types: Mapping[str, ResourceType]
) -> dict[tuple[str, str], str]:
    """Which resource (address) makes each machine, by site and name, as it stands before the plan."""
    standing = [
        (address, instance.before) for address, instance in instances.items() if instance.before is not None
    ]
    inventory = inventory_of(standing, types)
    sites, _ = build_sites(inventory)
    # A site that goes takes its machines along, whatever becomes of their racks.
    going = {str(address) for address, instance in instances.items() if instance.going}
    lost_sites = {site.id: address for address, site in inventory.sites.items() if address in going}
    makers = {}
    for site_id, site in sites.items():
        for machine, address in site.offered_by.items():
            makers[site_id, machine] = address if address in going else lost_sites.get(site_id, address)
    return makers


def _site_of(vms: VmObject) -> str:
    return vms.before.demand.site_id if vms.before.demand is not None else ""


def _machines(vms: VmObject) -> set[str]:
    """The machines that the lost VMs of an object stand on."""
    return {vms.place_before(key).machine for key in vms.asked.moves.lost}


def _lost_with(vms: VmObject, maker: str, makers: Mapping[tuple[str, str], str]) -> list[str]:
    """The VMs of an object that stand on machines of one maker."""
    site_id = _site_of(vms)
    return [
        vms.before.standing[key].name
        for key in vms.asked.moves.lost
        if makers.get((site_id, vms.place_before(key).machine), "") == maker
    ]


def _houses(lost: Mapping[Address, Sequence[str]]) -> str:
    """`5 VMs of a.b and 3 VMs of c.d`."""
    return listed(
        (f"{counted(len(names), 'VM')} of {address}" for address, names in lost.items()), _MOST_OBJECTS
    )


def _refusal(
    instance: Instance, lost: Mapping[Address, Sequence[str]], selection: Selection, mode: Mode
) -> str:
    """What is wrong, and the options that make it right."""
    maker = str(instance.address)
    total = sum(map(len, lost.values()))
    loses = form(total, "it would lose its machine", "they would lose their machines")
    if instance.action is Action.FORGET:
        loses = f"nexusform would not know the {form(total, 'machine', 'machines')}"
    what = f"{_stand_on(instance, lost)}: {loses} and nothing would be done for {form(total, 'it', 'them')}."
    if mode is Mode.DESTROY and selection.excludes:
        return f"{what} Add -exclude='{maker}', so that the machines stay, too."
    if mode is Mode.DESTROY:
        return (
            f"{what} To take the machines out of service, take {maker} out of the configuration (or set "
            "evacuate on it first) and run `nexusform apply`: its VMs are then placed elsewhere before it "
            "goes."
        )
    placed = "created again" if _is_made_anew(instance) else "placed elsewhere"
    if selection.targets:
        options = " ".join(f"-target='{address}'" for address in lost)
        return f"{what} Add {options}, so that the VMs are {placed} in the same plan."
    options = " ".join(f"-exclude='{pattern}'" for pattern in _excludes_of(lost, selection))
    return f"{what} Drop {options}, so that the VMs are {placed} in the same plan."


def _stand_on(instance: Instance, lost: Mapping[Address, Sequence[str]]) -> str:
    """`nexus_rack.r goes with this plan, and 5 VMs of a.b stand on its machines (v-0, v-1, ...)`."""
    happens = "loses machines"
    if instance.action is Action.FORGET:
        happens = "is forgotten"
    elif instance.going:
        happens = "goes"
    elif _is_made_anew(instance):
        happens = "is made anew"
    total = sum(map(len, lost.values()))
    names = sorted((name for names in lost.values() for name in names), key=natural)
    return (
        f"{instance.address} {happens} with this plan, and {_houses(lost)} {form(total, 'stands', 'stand')} "
        f"on its machines ({first_of(names, _MOST_NAMED)})"
    )


def _is_made_anew(instance: Instance) -> bool:
    return instance.replaced or instance.action is Action.CREATE


def _no_running_on(instance: Instance, forgotten: Mapping[Address, Sequence[str]]) -> str:
    """What is wrong where VMs are only forgotten, and would not run on."""
    total = sum(map(len, forgotten.values()))
    owners = listed(map(str, forgotten), _MOST_OBJECTS)
    blocks = form(len(forgotten), "the removed block", "the removed blocks")
    return (
        f"{_stand_on(instance, forgotten)}: {owners} {form(len(forgotten), 'is', 'are')} only forgotten, and "
        f"{form(total, 'the VM is', 'the VMs are')} to run on. Forget {instance.address}, too "
        f"(`nexusform state rm '{instance.address}'`), or leave out {blocks} of {owners}, so that the VMs go."
    )


def _proposed(lost: Iterable[Address], selection: Selection, mode: Mode) -> Mapping[str, list[str]]:
    """What is proposed as options: targets to add, exclusions to drop."""
    if mode is Mode.DESTROY:
        return {}
    if selection.targets:
        return {"targets": [str(address) for address in lost]}
    return {"excludes": _excludes_of(lost, selection)}


def _excludes_of(lost: Iterable[Address], selection: Selection) -> list[str]:
    """The exclusions that leave these objects out; all of them where they do so by dependence."""
    named = [pattern for pattern in selection.excludes if any(pattern.matches(address) for address in lost)]
    return [str(pattern) for pattern in named or selection.excludes]


def _gone_already(lost: Mapping[Address, Sequence[str]]) -> Diagnostic:
    total = sum(map(len, lost.values()))
    detail = (
        f"{_houses(lost)} {form(total, 'stands', 'stand')} on machines that neither the configuration nor "
        "the state has any more, and this plan leaves them alone. A plan without -target and -exclude places "
        "them elsewhere."
    )
    return diagnostic(Severity.WARNING, GONE_ALREADY, detail)
