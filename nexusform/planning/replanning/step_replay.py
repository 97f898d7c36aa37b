"""Requests that apply the saved steps of a plan to what is observed now.

An argument that no step changes has its observed value: a new plan would first repair it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from nexusform.json_data.plain_data import get_list, get_mapping
from nexusform.planning.edits import Edit, RemovedInstance, apply_edits
from nexusform.planning.plan_request import ArgumentAdjustment, PlanRequest, build_trial_request
from nexusform.plans.plan import Change, Mode, Plan
from nexusform.scheduling.machine_actions import MACHINE_ACTION_TYPE
from nexusform.schemas.block_schema import BlockSchema, Nesting, get_order_attribute
from nexusform.state.objects import ObjectState, get_current_object

_ABSENT: Final = object()


def build_replay_request(plan: Plan, request: PlanRequest, *, has_steps: bool) -> PlanRequest:
    """Return a request with the objects as observed now, and the changes of the saved steps only.

    Without `has_steps`, it has no changes: its plan shows what happens on the site anyway. A
    machine action stops the VMs on its machine without an error: they are compared with the
    approved ones.
    """
    if has_steps:
        present = [text for text in request.replaces if _is_present(text, plan, request)]
        request = replace(request, replaces=tuple(present))
    else:
        request = replace(request, mode=Mode.NORMAL, replaces=(), keeps_objects=True)
    edits = _list_replay_edits(plan, request, has_steps=has_steps)
    return apply_edits(build_trial_request(request), edits)


def _list_replay_edits(plan: Plan, request: PlanRequest, *, has_steps: bool) -> Iterator[Edit]:
    for change in plan.changes:
        if change.deposed or change.after is None:
            continue
        observed = _find_observed_object(change, request)
        if observed is None and not has_steps:
            yield RemovedInstance(change.address)
        if change.address.type == MACHINE_ACTION_TYPE:
            yield ArgumentAdjustment(change.address, ("allow_workloads",), value=True)
        if observed is not None and change.before is not None:
            schema = request.registries.resource_types[change.address.type].schema
            before = change.before if has_steps else change.after
            yield from _list_adjustments(
                replace(change, before=before), observed.attributes, schema
            )


def _is_present(replaced: str, plan: Plan, request: PlanRequest) -> bool:
    """Return whether the object to replace, ADDR or ADDR:VM, exists.

    A step of an interrupted apply has possibly replaced it.
    """
    for change in plan.changes:
        address = str(change.address)
        if replaced != address and not replaced.startswith(f"{address}:"):
            continue
        observed = _find_observed_object(change, request)
        name = replaced.removeprefix(address).removeprefix(":")
        return observed is not None and (not name or _has_name(observed.attributes, name))
    return True


def _has_name(value: Any, name: str) -> bool:
    """Return whether a name is a key or a text of the attributes of an object."""
    if isinstance(value, Mapping):
        return name in value or any(_has_name(part, name) for part in value.values())
    return bool(value == name)


def _find_observed_object(change: Change, request: PlanRequest) -> ObjectState | None:
    """Return the object of a change as read now; None if it is missing."""
    for address in (change.previous_address, change.address):
        if address is None:
            continue
        if address in request.refreshed_objects:
            return request.refreshed_objects[address]
        recorded = get_current_object(request.state.instances.get(address))
        if recorded is not None:
            return recorded
    return None


def _list_adjustments(
    change: Change, observed: Mapping[str, Any], schema: BlockSchema
) -> Iterator[ArgumentAdjustment]:
    """Yield an adjustment for each argument with another value than before the plan."""
    before = get_mapping(change.before)
    after = get_mapping(change.after)
    names = [
        name
        for name, attribute in schema.attributes.items()
        if attribute.is_configurable and not attribute.observed
    ]
    for name in (*names, *schema.blocks):
        if observed.get(name) == before.get(name):
            continue
        value = _merge_values(before.get(name), after.get(name), observed.get(name))
        yield ArgumentAdjustment(change.address, (name,), value)
        if name in schema.blocks and schema.blocks[name].nesting is Nesting.MAP:
            order = get_order_attribute(name)
            labels = [label for label in get_list(after, order) if label in get_mapping(value)]
            labels += [label for label in get_mapping(value) if label not in labels]
            yield ArgumentAdjustment(change.address, (order,), labels)


def _merge_values(before: Any, after: Any, observed: Any) -> Any:
    """Return the value of an argument after its step; `observed` is the one before it."""
    if before == after:
        return observed
    if observed == before:
        return after
    if not all(isinstance(value, Mapping) for value in (before, after, observed)):
        return after
    merged = {
        name: _merge_values(
            before.get(name, _ABSENT), after.get(name, _ABSENT), observed.get(name, _ABSENT)
        )
        for name in {**observed, **after}
    }
    return {name: value for name, value in merged.items() if value is not _ABSENT}
