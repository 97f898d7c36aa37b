"""Stranded VMs: a plan removes or re-creates their machine without acting on them.

They are outside the selection, or a destroy plan includes only the machine. Such a plan is
rejected.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity, build_diagnostic
from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    format_count,
    format_first_items,
    format_list,
    select_word_form,
)
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import get_mapping
from nexusform.placements.vm_demands import MACHINE_LOST
from nexusform.planning.instances.instance import Instance
from nexusform.planning.preparation.target_selection import Selection
from nexusform.planning.vm_planning import vm_object as vm_objects
from nexusform.planning.vm_planning.site_plans import SitePlan, build_object_inventory, build_sites
from nexusform.plans.impact.guard_rails import STRANDED
from nexusform.plans.plan import Action, Mode
from nexusform.plans.site_capacity.occupancy import read_recorded_vms
from nexusform.resources.address import Address
from nexusform.schemas.block_schema import FORGOTTEN_KEY as FORGOTTEN_VMS
from nexusform.state.objects import replace_note_entry

MISSING_MACHINE = "vms-on-missing-machine"
DUPLICATE_NAMES = "duplicate-running-vms"
_MAXIMUM_NAMED = 4
_MAXIMUM_OBJECTS = 12
FORGOTTEN_VMS_LOST = "forgotten-vms-without-machine"


def check_stranded_vms(
    objects: Iterable[vm_objects.VmObject],
    instances: Mapping[Address, Instance],
    types: Mapping[str, ResourceType],
    selection: Selection,
    mode: Mode,
    sites: Mapping[str, SitePlan],
) -> Iterator[Diagnostic]:
    """Yield an error per rack, machine or site removed while VMs stay on its machines.

    The plan neither moves nor removes these VMs. VMs on machines missing before the plan
    get a warning.
    """
    if not any(vm_object.request.actions.losses for vm_object in objects):
        return
    # By machine: the resource with the error.
    offering_addresses = _index_prior_offers_by_machine(instances, types)
    # A re-created machine: the resource that causes it, such as its rack.
    for site_id, site in sites.items():
        offering_addresses |= {
            (site_id, name): renewal.cause for name, renewal in site.recreated_machines.items()
        }
    by_text = {str(address): instance for address, instance in instances.items()}
    for offering_address, names_by_owner in _group_lost_vms(objects, offering_addresses).items():
        if not offering_address:
            yield _build_missing_machine_warning(names_by_owner)
            continue
        instance = by_text[offering_address]
        stranded = dict[Address, list[str]]()
        forgotten = dict[Address, list[str]]()
        for address, names in names_by_owner.items():
            # A removed object with losses leaves only the state: its VMs keep running, so they
            # need their machine.
            names_by_address = forgotten if instances[address].is_removed else stranded
            names_by_address[address] = names
        if stranded:
            rejection = instance.build_error(
                STRANDED, _format_lost_vms_error(instance, stranded, selection, mode)
            )
            options = _suggest_options(stranded, selection, mode)
            yield (
                replace(rejection, extra={vm_objects.SELECTION_KEY: options})
                if options
                else rejection
            )
        if forgotten:
            yield instance.build_error(STRANDED, _format_forgotten_rejection(instance, forgotten))


def _group_lost_vms(
    objects: Iterable[vm_objects.VmObject], offering_addresses: Mapping[tuple[str, str], str]
) -> dict[str, dict[Address, list[str]]]:
    """Return the names of lost VMs by the resource to blame, and by their object.

    Both are addresses.

    `offering_addresses` are the resources to blame by site and machine. VMs on a machine that was
    missing before have the address "".
    """
    lost_names: dict[str, dict[Address, list[str]]] = {}
    for vm_object in objects:
        site_id = vm_object.prior.site_id
        lost_vms = [
            vm_object.prior.existing[key]
            for key, trigger in vm_object.request.actions.losses.items()
            # A machine that a hypothetical plan assumes to be down.
            if trigger != MACHINE_LOST
        ]
        blamed = [
            (offering_addresses.get((site_id, vm.placement.machine), ""), vm.name)
            for vm in lost_vms
        ]
        for offering_address, name in sorted(blamed):
            lost_names.setdefault(offering_address, {}).setdefault(
                vm_object.instance.address, []
            ).append(name)
    return lost_names


# Forgotten VM that loses its machine: site id, machine, name.
LostVm: TypeAlias = tuple[str, str, str]


def find_lost_forgotten_vms(
    instances: Mapping[Address, Instance],
    types: Mapping[str, ResourceType],
    sites: Mapping[str, SitePlan],
) -> dict[Address, list[LostVm]]:
    """Return the forgotten VMs on machines lost by this plan.

    The key is the address of their rack or machine.

    They run without a resource: the private note of the rack or machine lists them. The lost ones
    are removed from its note. `sites` are those after the plan.
    """
    vms_by_address: dict[Address, list[LostVm]] = {}
    for address, instance in instances.items():
        # The note of a rack or machine records them.
        rows = instance.prior_note.get(FORGOTTEN_VMS)
        vms = read_recorded_vms(instance.type, get_mapping(instance.before), {FORGOTTEN_VMS: rows})
        vms_by_address[address] = [(site_id, vm.machine, vm.name) for site_id, vm in vms]
    if not any(vms_by_address.values()):
        return {}
    prior_machines = _index_prior_offers_by_machine(instances, types)
    lost_vms: dict[Address, list[LostVm]] = {}
    for address, recorded_vms in vms_by_address.items():
        instance = instances[address]
        lost_here = []
        for site_id, machine, name in recorded_vms:
            if (site_id, machine) in prior_machines and _is_host_lost(
                instance, machine, sites.get(site_id)
            ):
                lost_here.append((site_id, machine, name))
        if lost_here:
            lost_vms[address] = lost_here
            _remove_lost_vms_from_note(instance, lost_here)
    return lost_vms


def _remove_lost_vms_from_note(instance: Instance, lost_vms: Iterable[LostVm]) -> None:
    """Remove lost VMs from the record of running VMs that are no longer managed (FORGOTTEN_VMS).

    It is in the private data of a rack or machine, and has a row per VM. The names of its machine
    and of the VM are first.
    """
    # A removed or replaced object loses its whole note.
    if instance.loses_prior_object:
        return
    note = instance.private or instance.prior_note
    lost_keys = {(machine, name) for _, machine, name in lost_vms}
    remaining_rows = [row for row in note.get(FORGOTTEN_VMS, ()) if tuple(row[:2]) not in lost_keys]
    # None would keep the prior note.
    instance.private = replace_note_entry(note, FORGOTTEN_VMS, remaining_rows) or {}


def _is_host_lost(instance: Instance, machine: str, site: SitePlan | None) -> bool:
    """Return whether the forgotten VMs on a machine stop.

    It is removed, or replaced by another one. `instance` records them; `site` is their site after
    the plan, None without one.
    """
    if instance.action is Action.FORGET:
        # The machine keeps running.
        return False
    if site is None:
        # No plan decides for each machine.
        return instance.loses_prior_object
    return site.find_machine_trigger(machine) in (
        vm_objects.MACHINE_REMOVED,
        vm_objects.MACHINE_REPLACED,
    )


def check_lost_forgotten_vms(
    instances: Mapping[Address, Instance], lost_vms: Mapping[Address, Sequence[LostVm]]
) -> Iterator[Diagnostic]:
    """Yield a warning for each resource that loses machines with forgotten VMs.

    The plan has no rows for such VMs.
    """
    for address, vms in lost_vms.items():
        instance = instances[address]
        names = [f"{name} on {machine}" for _, machine, name in vms]
        verb = "loses machines"
        if instance.is_replaced:
            verb = "is re-created"
        elif instance.is_removed:
            verb = "is destroyed"
        run_verb = select_word_form(len(names), "runs", "run")
        subject = select_word_form(len(names), "It is", "They are")
        text = (
            f"{address} {verb}, and {format_count(len(names), 'VM')} that no resource manages "
            f"{run_verb} there: {format_first_items(names, _MAXIMUM_NAMED)}. {subject} lost with "
            "it. Import them with an import block, or remove a deleted one: nexusform state rm "
            f"'{address}:NAME'."
        )
        summary = f"{address}: {verb} under {format_count(len(names), 'forgotten VM')}"
        warning = instance.build_diagnostic(
            Problem((), FORGOTTEN_VMS_LOST, text, Severity.WARNING, brief=summary)
        )
        yield replace(warning, extra={vm_objects.LOST_VMS_KEY: list(map(list, vms))})


def check_duplicate_names(objects: Iterable[vm_objects.VmObject]) -> Iterator[Diagnostic]:
    """Yield a warning per object with new VMs named like observed ones.

    These are on its site, without a resource.
    """
    for vm_object in objects:
        if vm_object.request.site is None:
            continue
        machine_by_name = {vm.name: vm.machine for vm in vm_object.request.site.observed_unmanaged}
        vms_after = vm_object.placements.vms
        new_names = [
            vms_after[key].name for key in vm_object.request.actions.additions if key in vms_after
        ]
        duplicates = sorted(machine_by_name.keys() & set(new_names), key=compute_natural_sort_key)
        if not duplicates:
            continue
        address = vm_object.instance.address
        number = len(duplicates)
        locations = [f"{name} on {machine_by_name[name]}" for name in duplicates]
        run_verb = select_word_form(number, "runs", "run")
        subject = select_word_form(number, "it is", "they are")
        text = (
            f"{format_count(number, 'VM')} {run_verb} already under "
            f"{select_word_form(number, 'a name', 'names')} that {address} uses, and no resource "
            f"manages {select_word_form(number, 'it', 'them')}: "
            f"{format_first_items(locations, _MAXIMUM_NAMED)}. Platforms reject a name in use. If "
            f"{subject} meant, import {select_word_form(number, 'it', 'them')} with an import "
            f"block (to = {address}). If {subject} deleted, run: nexusform state rm 'ADDRESS OF "
            "THE RACK:NAME'."
        )
        summary = (
            f"{address}: {format_count(number, 'VM')} of the same "
            f"{select_word_form(number, 'name', 'names')} {run_verb} already"
        )
        yield vm_object.instance.build_diagnostic(
            Problem((), DUPLICATE_NAMES, text, Severity.WARNING, brief=summary)
        )


def _index_prior_offers_by_machine(
    instances: Mapping[Address, Instance], types: Mapping[str, ResourceType]
) -> dict[tuple[str, str], str]:
    """Return the resource to blame for each machine before the plan if it is lost.

    The keys are site id and machine name, the values addresses. The resource is the rack or machine
    offering the machine. If that stays and only its site is removed, it is the site.
    """
    inventory = build_object_inventory(
        ((address, instance.prior) for address, instance in instances.items()), types
    )
    sites, _ = build_sites(inventory)
    removed_addresses = {
        str(address) for address, instance in instances.items() if instance.is_removed
    }
    removed_sites = {
        site.id: address
        for address, site in inventory.sites.items()
        if address in removed_addresses
    }
    addresses = {}
    for site_id, site in sites.items():
        for machine, address in site.offering_addresses.items():
            is_removed = address in removed_addresses
            addresses[site_id, machine] = (
                address if is_removed else removed_sites.get(site_id, address)
            )
    return addresses


def _format_owners(lost_names: Mapping[Address, Sequence[str]]) -> str:
    """Format `5 VMs of a.b and 3 VMs of c.d`."""
    return format_list(
        (f"{format_count(len(names), 'VM')} of {address}" for address, names in lost_names.items()),
        _MAXIMUM_OBJECTS,
    )


def _format_lost_vms_error(
    instance: Instance,
    lost_names: Mapping[Address, Sequence[str]],
    selection: Selection,
    mode: Mode,
) -> str:
    """Format the error with its fix.

    The fix is other targets or exclusions, or another command instead of destroy.
    """
    address_text = str(instance.address)
    total = sum(map(len, lost_names.values()))
    consequence = select_word_form(
        total, "it would lose its machine", "they would lose their machines"
    )
    if instance.action is Action.FORGET:
        consequence = (
            f"nexusform would no longer know the {select_word_form(total, 'machine', 'machines')}"
        )
    problem = f"{_format_affected_vms(instance, lost_names)}: {consequence}."
    if mode is Mode.DESTROY and selection.excludes:
        return f"{problem} Add -exclude='{address_text}' to keep the machines."
    if mode is Mode.DESTROY:
        return (
            f"{problem} To remove the machines, remove {address_text} from the configuration (or "
            "set evacuate on it first) and run `nexusform apply`: its VMs are then placed "
            "elsewhere first."
        )
    result = "created again" if _is_resource_recreated(instance) else "placed elsewhere"
    if selection.targets:
        options = " ".join(f"-target='{address}'" for address in lost_names)
        return f"{problem} Add {options}: the VMs are then {result} in the same plan."
    options = " ".join(
        f"-exclude='{pattern}'" for pattern in _find_matching_exclusions(lost_names, selection)
    )
    return f"{problem} Omit {options}: the VMs are then {result} in the same plan."


def _format_affected_vms(instance: Instance, lost_names: Mapping[Address, Sequence[str]]) -> str:
    """Format the resource, its change and the affected VMs.

    `lost_names` are their names by object.
    """
    # An updated rack.
    verb = "loses machines"
    if instance.action is Action.FORGET:
        verb = "is forgotten"
    elif instance.is_removed:
        verb = "is removed"
    elif _is_resource_recreated(instance):
        verb = "is re-created"
    total = sum(map(len, lost_names.values()))
    names = sorted(
        (name for names in lost_names.values() for name in names), key=compute_natural_sort_key
    )
    return (
        f"{instance.address} {verb} with this plan, and {_format_owners(lost_names)} "
        f"{select_word_form(total, 'runs', 'run')} on its machines "
        f"({format_first_items(names, _MAXIMUM_NAMED)})"
    )


def _is_resource_recreated(instance: Instance) -> bool:
    """Return whether a resource creates its machines again.

    It is replaced, or new in place of another one.
    """
    return instance.is_replaced or instance.action is Action.CREATE


def _format_forgotten_rejection(
    instance: Instance, forgotten: Mapping[Address, Sequence[str]]
) -> str:
    """Format the error about VMs forgotten by a `removed` block.

    They would keep running, but lose their machine.
    """
    total = sum(map(len, forgotten.values()))
    owners = format_list(map(str, forgotten), _MAXIMUM_OBJECTS)
    blocks = select_word_form(len(forgotten), "the removed block", "the removed blocks")
    return (
        f"{_format_affected_vms(instance, forgotten)}: {owners} "
        f"{select_word_form(len(forgotten), 'is', 'are')} only forgotten, so "
        f"{select_word_form(total, 'the VM keeps', 'the VMs keep')} running. Forget "
        f"{instance.address} too (`nexusform state rm '{instance.address}'`), or remove {blocks} "
        f"of {owners} to delete the VMs."
    )


def _suggest_options(
    addresses: Iterable[Address], selection: Selection, mode: Mode
) -> Mapping[str, list[str]]:
    """Return the suggested options: -target patterns to add, or -exclude patterns to omit.

    Return {} for a plan to destroy.
    """
    if mode is Mode.DESTROY:
        # The message suggests another command.
        return {}
    if selection.targets:
        return {"targets": list(map(str, addresses))}
    return {"excludes": _find_matching_exclusions(addresses, selection)}


def _find_matching_exclusions(addresses: Iterable[Address], selection: Selection) -> list[str]:
    """Return the exclusions that match these objects.

    If none does, any may exclude their dependencies: return all.
    """
    matching = [pattern for pattern in selection.excludes if any(map(pattern.is_match, addresses))]
    return list(map(str, matching or selection.excludes))


def _build_missing_machine_warning(lost_names: Mapping[Address, Sequence[str]]) -> Diagnostic:
    """Build the warning about VMs on unknown machines.

    `lost_names` are the VMs by address of their owner.
    """
    total = sum(map(len, lost_names.values()))
    detail = (
        f"{_format_owners(lost_names)} {select_word_form(total, 'runs', 'run')} on machines that "
        "neither the configuration nor the state contains. This plan does not change them. A plan "
        "without -target and -exclude places them elsewhere."
    )
    return build_diagnostic(Severity.WARNING, MISSING_MACHINE, detail)
