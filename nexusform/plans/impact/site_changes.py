"""Changes of the sites of a plan until a replay of its steps: what others did since the plan."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.json_data.plain_data import Path, format_path, get_mapping, get_part
from nexusform.plans.impact.object_consequences import Types
from nexusform.plans.plan import Change, Plan
from nexusform.plans.site_capacity.occupancy import SiteVms
from nexusform.plans.site_facts import list_changed_facts
from nexusform.scheduling.listing.site_listing import list_site_sentences
from nexusform.scheduling.racks.vms import Machine
from nexusform.schemas.block_schema import Nesting

_HARDWARE: Final = (
    "rack",
    "machine_sku",
    "cells",
    "cpus_per_cell",
    "memory_gib_per_cell",
    "disk_gib",
)


def list_site_changes(plan: Plan, replay: Plan, types: Types) -> list[str]:
    """Return a clause for each object, machine and VM that others changed since the plan.

    Both plans have the site before their steps: `plan` as it was read for the plan, `replay` as it
    is observed now. `types` are the resource types by name.
    """
    texts = [*_find_changed_objects(plan, replay, types)]
    described_ids: set[str] = set()
    sites = {site.id: site for site in plan.site_records.sites}
    for site in replay.site_records.sites:
        if site.id in sites:
            for machine_id, text in _find_changed_machines(sites[site.id], site):
                described_ids.add(machine_id)
                texts.append(text)
            texts += _find_changed_vms(sites[site.id], site)
    texts += [
        text
        for text in list_changed_facts(plan.observed.site_facts, replay.observed.site_facts)
        # The sentence about a machine is plainer than its facts.
        if text.partition(": ")[0] not in described_ids
    ]
    listed_before = {
        (site.site_id, text) for site in plan.observed.listed for text in list_site_sentences(site)
    }
    texts += [
        f"{site.site}: {text.rstrip('.')}"
        for site in replay.observed.listed
        for text in list_site_sentences(site)
        if (site.site_id, text) not in listed_before
    ]
    return list(dict.fromkeys(texts))


def _find_changed_objects(plan: Plan, replay: Plan, types: Types) -> Iterator[str]:
    """Yield the objects with other arguments, and those that are missing."""
    observed = {change.address: change for change in replay.changes if not change.deposed}
    for change in plan.changes:
        if change.before is None or change.deposed or change.importing:
            continue
        current = observed.get(change.address)
        if current is None or current.before is None:
            yield f"{change.address} was deleted"
            continue
        schema = types[change.address.type].schema
        # Machines and VMs are compared as a whole.
        names = [
            name
            for name, item in schema.attributes.items()
            if item.is_configurable and not item.observed
        ]
        for name in (*names, *schema.blocks):
            values = (change.before.get(name), current.before.get(name))
            is_labelled = name in schema.blocks and schema.blocks[name].nesting is Nesting.MAP
            differences = _list_label_differences if is_labelled else _list_differences
            for path in differences(*values):
                yield _describe_argument(change, current.before, (name, *path))


def _list_label_differences(before: Any, after: Any) -> Iterator[Path]:
    """Yield the paths of the different parts of labelled blocks; a whole block is one part."""
    blocks_before, blocks_after = get_mapping(before), get_mapping(after)
    for label in {**blocks_before, **blocks_after}:
        if label in blocks_before and label in blocks_after:
            for path in _list_differences(blocks_before[label], blocks_after[label]):
                yield (label, *path)
        else:
            yield (label,)


def _list_differences(before: Any, after: Any) -> Iterator[Path]:
    """Yield the paths of the different parts of two values."""
    if before == after:
        return
    # A block that is absent on one side is named by its arguments.
    if isinstance(before, Mapping) and after is None:
        after = {}
    if isinstance(after, Mapping) and before is None:
        before = {}
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield ()
        return
    for name in {**before, **after}:
        for path in _list_differences(before.get(name), after.get(name)):
            yield (name, *path)


def _describe_argument(change: Change, observed: Mapping[str, Any], path: Path) -> str:
    """Return the argument with its values; a sensitive one has none."""
    name = f"{change.address}: {format_path(path)}"
    before, after = get_part(change.before, path), get_part(observed, path)
    if isinstance(after, Mapping) and before is None:
        return f"{name} was added"
    if isinstance(before, Mapping) and after is None:
        return f"{name} was removed"
    is_sensitive = any(path[: len(hidden)] == hidden for hidden in change.sensitive_before)
    if is_sensitive or any(isinstance(value, Mapping | list) for value in (before, after)):
        return f"{name} has another value"
    return f"{name} changed from {_format_value(before)} to {_format_value(after)}"


def _format_value(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _find_changed_machines(before: SiteVms, after: SiteVms) -> Iterator[tuple[str, str]]:
    """Yield id and clause of machines that are new, missing, in another state, or replaced."""
    machines_before, machines_after = _map_machines(before), _map_machines(after)
    for name, machine in machines_before.items():
        if name not in machines_after:
            yield f"{before.id}/{machine.rack}/{name}", f"machine {name} is missing"
    for name, machine in machines_after.items():
        machine_id = f"{after.id}/{machine.rack}/{name}"
        known = machines_before.get(name)
        if known is None:
            yield machine_id, f"machine {name} is new"
        elif known != machine:
            for text in _describe_machine(known, machine):
                yield machine_id, text


def _map_machines(site: SiteVms) -> dict[str, Machine]:
    """Return the machines before the plan by name."""
    return {item.facts.name: item.facts for item in site.machines if item.exists_before}


def _describe_machine(before: Machine, after: Machine) -> Iterator[str]:
    """Yield what changed of a machine."""
    reason_before = before.unschedulable_reason or "in service"
    reason = after.unschedulable_reason or "in service"
    if reason != reason_before:
        yield f"machine {after.name} is {reason} ({reason_before} in the plan)"
    elif before.roles != after.roles:
        yield f"machine {after.name} has the roles {', '.join(after.roles)}"
    if any(getattr(before, name) != getattr(after, name) for name in _HARDWARE):
        yield f"machine {after.name} has other hardware"


def _find_changed_vms(before: SiteVms, after: SiteVms) -> Iterator[str]:
    """Yield the VMs that appeared, left, or run on another machine."""
    machines_before = _map_vms_to_machines(before)
    machines_after = _map_vms_to_machines(after)
    for name, machine in machines_after.items():
        known = machines_before.get(name)
        if known is None:
            yield f"VM {name} appeared on {machine}"
        elif known != machine:
            yield f"VM {name} moved from {known} to {machine}"
    for name, machine in machines_before.items():
        if name not in machines_after:
            yield f"VM {name} left {machine}"


def _map_vms_to_machines(site: SiteVms) -> dict[str, str]:
    """Return the machine of each VM before the plan, by its name."""
    machines = {vm.name: vm.placement.machine for vm in site.unmanaged_vms}
    for pool in site.pools:
        machines |= pool.machines_before
    return machines
