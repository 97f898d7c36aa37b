"""Changes of sites that are not of this plan, read again after a wrong prediction.

A prediction holds only if nothing else changed. What changed since the plan explains a wrong one
better than another rule of the scheduler.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.open_predictions import read_open_predictions
from nexusform.applying.provider_calls import get_provider_name
from nexusform.interfaces.plugins import Provider, ProviderProblem
from nexusform.json_data.plain_data import (
    Path,
    format_path,
    get_list,
    get_mapping,
    get_part,
    get_text,
)
from nexusform.plans.plan import Plan
from nexusform.plans.site_facts import list_changed_facts
from nexusform.providers.optional_provider_interfaces import RereadingProvider, SiteFactsProvider
from nexusform.resources.address import Address
from nexusform.scheduling.site_inventory import OBSERVED_KEY
from nexusform.schemas.block_schema import UNMANAGED_KEY
from nexusform.state.objects import ObjectState, State
from nexusform.workflow.opening.provider_setup import list_managed_objects, list_objects
from nexusform.workflow.runs.run import Run
from nexusform.workflow.runs.state_refresh import refresh_objects

_RACK: Final = "nexus_rack"
_MACHINE: Final = "nexus_bare_metal_machine"
_FACTS: Final = ("power_state", "ready_state", "cordon_status", "detailed_status", "roles")


class SiteChanges(Struct, frozen=True):
    """Changes of the sites of a plan that are not of this plan.

    `is_known` tells whether the sites were read again. If they were not, `problem` is the reason;
    it is "" if a provider cannot read its site again.
    """

    changes: tuple[str, ...] = ()
    is_known: bool = True
    problem: str = ""


def find_site_changes(run: Run, plan: Plan, state: State) -> SiteChanges:
    """Read the sites of a plan again after its apply, and find the changes of others.

    `state` is that after the apply. Only objects without a step of the plan are compared, and VMs
    that no object in state has.
    """
    own_addresses = {plan.changes[step.change].address for step in plan.steps}
    own_ids = _list_changed_ids(plan)
    names = {get_provider_name(plan.changes[step.change]) for step in plan.steps}
    changes: list[str] = []
    for name in sorted(names & run.providers.keys()):
        provider = run.providers[name]
        if not provider.observes_objects:
            # The state is its site.
            continue
        if not isinstance(provider, RereadingProvider):
            return SiteChanges(is_known=False)
        base = _build_base_state(plan, state, provider, own_addresses)
        objects = dict(list_objects(base, name))
        provider.discard_reads(
            [item.attributes for item in objects.values()], list_managed_objects(state)
        )
        types = run.project.registries.resource_types
        try:
            observed = refresh_objects(base, {name: provider}, types, lambda _address, _id: None)
            for address, current in observed.items():
                # A prediction about its VMs is open, so its change is of an earlier plan.
                has_open_predictions = read_open_predictions(objects[address].private)
                if address not in own_addresses and not has_open_predictions:
                    changes += _describe_changes(
                        provider, address, objects[address], current, own_ids
                    )
            changes += [
                f"{machine_id.rpartition('/')[2]}: {text}"
                for machine_id, text in provider.list_machine_activity(plan.start.timestamp).items()
                if not {machine_id, machine_id.rpartition("/")[0]} & own_ids
            ]
            changes += _list_other_facts(provider, name, plan, own_ids, changes)
        except ProviderProblem as problem:
            return SiteChanges(is_known=False, problem=str(problem))
    return SiteChanges(tuple(dict.fromkeys(changes)))


def _list_other_facts(
    provider: Provider,
    name: str,
    plan: Plan,
    own_ids: AbstractSet[str],
    known_changes: Sequence[str],
) -> Iterator[str]:
    """Yield the changed facts of the sites of a provider, except those of the plan's own objects.

    An object in `known_changes` is described already.
    """
    if not isinstance(provider, SiteFactsProvider):
        return
    described = {text.partition(": ")[0] for text in known_changes}
    before, after = plan.observed.site_facts.get(name, {}), provider.list_site_facts()
    for text in list_changed_facts({name: before}, {name: after}):
        object_id = text.partition(": ")[0]
        parents = {object_id, object_id.rpartition("/")[0]}
        if not parents & own_ids and object_id.rpartition("/")[2] not in described:
            yield text


def _list_changed_ids(plan: Plan) -> set[str]:
    """Return the ids of objects and machines that steps of a plan change."""
    changes = [plan.changes[step.change] for step in plan.steps]
    machine_ids = {get_text(change.after, "machine_id") for change in changes}
    return machine_ids.union(change.id for change in changes) - {""}


def _build_base_state(
    plan: Plan, state: State, provider: Provider, own_addresses: set[Address]
) -> State:
    """Return the state with the objects as the plan read them.

    A provider that sends nothing verifies predictions of an earlier plan. Then what this plan read
    is a change, too.
    """
    if not provider.sends_changes:
        return state
    for address, refreshed in plan.observed.refreshed_objects.items():
        if address in state.instances and refreshed is not None and address not in own_addresses:
            state = state.replace_instance(
                address, replace(state.instances[address], current=refreshed)
            )
    return state


def _describe_changes(
    provider: RereadingProvider,
    address: Address,
    before: ObjectState,
    after: ObjectState | None,
    own_ids: AbstractSet[str],
) -> Iterator[str]:
    """Yield the changes of an object on its site: with author and time, if known.

    `own_ids` are ids of machines, or of their racks, that the plan changes itself.
    """
    object_id = str(before.attributes.get("id"))
    author = provider.describe_last_change(address.type, object_id)
    suffix = f" ({author})" if author else ""
    if after is None:
        yield f"{address} was deleted{suffix}"
        return
    if address.type in (_RACK, _MACHINE):
        yield from _describe_machines(before, after, own_ids)
        yield from _describe_unmanaged_vms(provider, before, after)
        return
    path = _find_difference(before.attributes, after.attributes)
    if path is None:
        return
    for sensitive_path in (*before.sensitive, *after.sensitive):
        # Names below a sensitive part are sensitive, too.
        visible_path = path[: len(sensitive_path)]
        if visible_path == sensitive_path[: len(path)]:
            yield f"{address}: {format_path(visible_path) or 'it'} has another value{suffix}"
            return
    values = [get_part(item.attributes, path) for item in (before, after)]
    texts = ["another value" if isinstance(v, Mapping | list) else str(v) for v in values]
    yield f"{address}: {format_path(path)} changed from {texts[0]} to {texts[1]}{suffix}"


def _describe_machines(
    before: ObjectState, after: ObjectState, own_ids: AbstractSet[str]
) -> Iterator[str]:
    """Yield the changed facts of machines: "m3: cordon_status Cordoned since 2026-01-01T...".

    A machine in `own_ids`, or in a rack there, is left out.
    """
    rack_id = str(after.attributes.get("rack_id") or after.attributes.get("id"))
    for name, facts in _list_machine_facts(after):
        if {rack_id, f"{rack_id}/{name}"} & own_ids:
            continue
        known_facts = dict(_list_machine_facts(before)).get(name, {})
        for fact in _FACTS:
            if known_facts and facts.get(fact) != known_facts.get(fact):
                since = get_text(facts, "since")
                owner = get_text(facts, "cordoned_by") if fact == "cordon_status" else ""
                words = [f"{name}: {fact} {_format_fact(facts.get(fact))}"]
                words += [f"by {owner}"] if owner else []
                words += [f"since {since}"] if since else []
                yield " ".join(words)


def _format_fact(value: Any) -> str:
    return str(value) if isinstance(value, str) else ", ".join(sorted(map(str, value or ())))


def _list_machine_facts(item: ObjectState) -> list[tuple[str, Mapping[str, Any]]]:
    """List name and facts of the machines of a rack, or of a machine."""
    records = get_mapping(item.note, OBSERVED_KEY)
    if "rack_id" in item.attributes:
        return [(str(item.attributes["name"]), {**item.attributes, **records})]
    return [(name, get_mapping(records, name)) for name in records]


def _describe_unmanaged_vms(
    provider: RereadingProvider, before: ObjectState, after: ObjectState
) -> Iterator[str]:
    """Yield the unmanaged VMs that appeared on a machine or left it."""
    rows_before, rows_after = (
        {(str(row[0]), str(row[1])) for row in get_list(item.note, UNMANAGED_KEY)}
        for item in (before, after)
    )
    for machine, vm in sorted(rows_after - rows_before):
        author = provider.describe_last_change("", vm)
        yield f"VM {vm} appeared on {machine}{f' ({author})' if author else ''}"
    for machine, vm in sorted(rows_before - rows_after):
        yield f"VM {vm} left {machine}"


def _find_difference(before: Any, after: Any, path: Path = ()) -> Path | None:
    """Return the path of the first different part of two objects; None for equal ones."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return None if before == after else path
    for name in (*before, *(name for name in after if name not in before)):
        difference = _find_difference(before.get(name), after.get(name), (*path, name))
        if difference is not None:
            return difference
    return None
