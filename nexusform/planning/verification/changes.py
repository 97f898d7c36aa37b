"""Whether the changes of a plan are about what stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nexusform.planning.plan import Action, Change, Mode, Plan
from nexusform.planning.preparation.prior import Prior
from nexusform.ports import ResourceType
from nexusform.schema import order_attribute
from nexusform.state.conformity import misfits
from nexusform.state.model import ObjectState

_MAKING = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_KEEPING = (Action.NO_OP, Action.UPDATE)
_GOING = (Action.DELETE, Action.FORGET)


def change_problems(plan: Plan, prior: Prior, types: Mapping[str, ResourceType]) -> Iterator[str]:
    """What is wrong with the changes, a sentence each."""
    seen = set()
    last = max([prior.state.last_creation, *_imported_numbers(plan)])
    for change in plan.changes:
        if (change.address, change.deposed) in seen:
            yield f"{change.address} is changed twice."
        seen.add((change.address, change.deposed))
        if change.address.type not in types:
            yield f"{change.address} is of an unknown type."
            continue
        if change.block not in ("", f'resource "{change.address.type}" "{change.address.name}"'):
            yield f"{change.address} is not what its block is called."
        if change.action in _MAKING:
            last += 1
            if change.creation != last:
                yield f"The new object at {change.address} has the creation number {change.creation}."
        yield from _before_problems(change, _object_before(prior, change))
        yield from _after_problems(change, types[change.address.type])
    if plan.mode is not Mode.REFRESH_ONLY:
        for address, instance in prior.instances.items():
            if instance.current is not None and (address, "") not in seen:
                yield f"It does not say what becomes of {address}."


def _imported_numbers(plan: Plan) -> Iterator[int]:
    return (change.prior_creation for change in plan.changes if change.importing)


def _object_before(prior: Prior, change: Change) -> ObjectState | None:
    return (
        prior.deposed(change.address).get(change.deposed) if change.deposed else prior.object(change.address)
    )


def _before_problems(change: Change, standing: ObjectState | None) -> Iterator[str]:
    address = change.address
    if standing is None:
        if change.before is not None or change.prior_creation:
            yield f"No such object stands at {address}."
        return
    if change.before != standing.attributes or change.prior_creation != standing.creation:
        yield f"{address} is not what stands there."
        return
    if change.sensitive_before != standing.sensitive or change.tainted_before != standing.tainted:
        yield f"{address} is not marked as what stands there."
    if change.action in _GOING and change.provider != standing.provider:
        yield f'{address} was made by the provider "{standing.provider}".'
    if change.action in _GOING and change.dependencies != standing.dependencies:
        yield f"{address} has other dependencies than what stands there."


def _after_problems(change: Change, resource_type: ResourceType) -> Iterator[str]:
    action, address = change.action, change.address
    has_after = action in _MAKING or action in _KEEPING
    has_before = action is not Action.CREATE
    sides = (change.before is not None, change.after is not None)
    if action is Action.READ or sides != (has_before, has_after):
        yield f'"{action.value}" is not what happens to {address}.'
        return
    if action in _KEEPING and change.creation != change.prior_creation:
        yield f"{address} is kept under another creation number."
    if action in _GOING and change.creation not in (0, change.prior_creation):
        yield f"{address} goes, and is given another creation number."
    if action is Action.NO_OP and change.before != change.after:
        yield f"{address} is said to stay as it is, and has other values afterwards."
    if change.after is not None and action is not Action.NO_OP:
        schema = resource_type.schema
        for problem in misfits(schema, change.after):
            yield f"{address} cannot be made so: {problem.detail}"
        names = {*schema.attributes, *schema.blocks, *map(order_attribute, schema.blocks)}
        for name in change.after.keys() - names:
            yield f'{address} has nothing of the name "{name}".'
