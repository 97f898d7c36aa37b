"""Whether a plan that was read from a file means what it shows: its changes are about what stands, its
steps are those of its changes in an order that they allow, and its rows tell where its VMs are placed
(vm_rows.py). Start reading at `problem_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nexusform.address import Address
from nexusform.plain_data import has_unknown
from nexusform.planning.conclusion.changes import drift_between
from nexusform.planning.conclusion.conservation import accounts
from nexusform.planning.conclusion.step_graph import StepGraph, Waits, stuck_steps, waits_for_leaving
from nexusform.planning.conclusion.steps import Values, draft_steps
from nexusform.planning.instances.difference import same
from nexusform.planning.phases import problems_of_rows
from nexusform.planning.plan import (
    Action,
    Change,
    Mode,
    PlacementAction,
    PlacementTotal,
    Plan,
    Step,
    StepKind,
)
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.verification.vm_rows import ChangedVms, changed_vms, makers_of_machines, row_problems
from nexusform.planning.vms.vm_object import ROLLING
from nexusform.ports import ResourceType
from nexusform.scheduling.racks.vms import Placement
from nexusform.schema import order_attribute
from nexusform.state.conformity import misfits
from nexusform.state.objects import InstanceState, ObjectState, State


def problem_of(plan: Plan, state: State, types: Mapping[str, ResourceType]) -> str:
    """The first thing that is wrong with a plan made of this state, "" when nothing is.

    What was read from outside (values of files, what providers observed) cannot be told from here.
    """
    return next(_problems(plan, state, types), "")


def _problems(plan: Plan, state: State, types: Mapping[str, ResourceType]) -> Iterator[str]:
    """Each look relies on those before it, so only the first problem counts."""
    prior = prior_of_plan(plan, state)
    yield from change_problems(plan, prior, types)
    changed = changed_vms(plan, types)
    if plan.mode is not Mode.REFRESH_ONLY:
        yield from row_problems(plan, changed)
    yield from problems_of_rows(plan)
    if plan.mode is not Mode.REFRESH_ONLY and plan.placement_totals != _totals(plan, types):
        yield "What it says becomes of everything that stands does not add up."
    yield from step_problems(plan, prior, changed, makers_of_machines(plan, types), types)
    yield from _output_problems(plan, state)
    if drift_between(state, plan.refreshed) != plan.drift:
        yield "What it shows as changed outside nexusform is not what it takes over."


def _totals(plan: Plan, types: Mapping[str, ResourceType]) -> tuple[PlacementTotal, ...]:
    return accounts(plan.changes, plan.placements, types, shown=plan.shown).totals


def _output_problems(plan: Plan, state: State) -> Iterator[str]:
    """Where the outputs that are shown are not those of the state and of the plan."""
    shown = {output.name: output for output in plan.outputs}
    for name, change in shown.items():
        before, after = state.outputs.get(name), plan.planned_outputs.get(name)
        if change.before != (before.value if before is not None else None):
            yield f'The output "{name}" is not what it was.'
        if change.after != (after.value if after is not None else None):
            yield f'The output "{name}" is shown otherwise than it is planned.'
        if change.action is Action.NO_OP and change.before != change.after:
            yield f'The output "{name}" is said to stay as it is.'
    for name, planned in plan.planned_outputs.items():
        # a partial destroy leaves them all as they are
        if name not in shown and planned != state.outputs.get(name):
            yield f'The output "{name}" is planned and not shown.'


# --- what a plan stands on ---------------------------------------------------------------------


def prior_of_plan(plan: Plan, state: State) -> Prior:
    """The state with what the plan says was observed, under the addresses to which the plan moves it, and
    with the objects that it takes over.
    """
    instances = dict(state.instances)
    for address, observed in plan.refreshed.items():
        _observe(instances, address, observed)
    moved: dict[Address, InstanceState] = {}
    for change in plan.changes:
        if change.previous_address is not None and not change.deposed:
            instance = instances.pop(change.previous_address, None)
            if instance is not None:
                moved[change.address] = instance
    instances |= moved
    for change in plan.changes:
        if change.importing and change.before is not None and not change.deposed:
            imported = ObjectState(
                change.before,
                change.prior_creation,
                change.sensitive_before,
                provider=change.provider,
            )
            instances.setdefault(change.address, InstanceState(imported))
    return Prior(state, instances, {}, {}, {}, ())


def _observe(instances: dict[Address, InstanceState], address: Address, observed: ObjectState | None) -> None:
    """Put what was seen at an address in place of what state has there; None = it is gone."""
    instance = instances.get(address)
    if instance is None:
        return
    if observed is None and not instance.deposed:
        del instances[address]
    else:
        instances[address] = InstanceState(observed, instance.deposed)


_MAKING = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_KEEPING = (Action.NO_OP, Action.UPDATE)
_GOING = (Action.DELETE, Action.FORGET)


def change_problems(plan: Plan, prior: Prior, types: Mapping[str, ResourceType]) -> Iterator[str]:
    """What is wrong with the changes, a sentence each."""
    changed: set[tuple[Address, str]] = set()
    last = max([prior.state.last_creation, *_imported_numbers(plan)])
    for change in plan.changes:
        if (change.address, change.deposed) in changed:
            yield f"{change.address} is changed twice."
        changed.add((change.address, change.deposed))
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
            if instance.current is not None and (address, "") not in changed:
                yield f"It does not say what becomes of {address}."


def _imported_numbers(plan: Plan) -> Iterator[int]:
    """The creation numbers that objects get as they are taken over."""
    return (change.prior_creation for change in plan.changes if change.importing)


def _object_before(prior: Prior, change: Change) -> ObjectState | None:
    """What stands of the object that a change is about: the current one, or a deposed one."""
    if change.deposed:
        return prior.deposed(change.address).get(change.deposed)
    return prior.object(change.address)


def _before_problems(change: Change, standing: ObjectState | None) -> Iterator[str]:
    """Where the side before a change is not what stands."""
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


def _is_the_same(change: Change, resource_type: ResourceType) -> bool:
    """Whether both sides of a change agree. What an earlier version did not know of is missing before."""
    before, after = change.before or {}, change.after or {}
    return before.keys() <= after.keys() and same(resource_type.schema, after, before)


def _after_problems(change: Change, resource_type: ResourceType) -> Iterator[str]:
    """Where the side after a change cannot follow from its action, or cannot be made."""
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
    if action is Action.NO_OP and not _is_the_same(change, resource_type):
        yield f"{address} is said to stay as it is, and has other values afterwards."
    if change.after is not None and action is not Action.NO_OP:
        schema = resource_type.schema
        for problem in misfits(schema, change.after):
            yield f"{address} cannot be made so: {problem.detail}"
        names = {*schema.attributes, *schema.blocks, *map(order_attribute, schema.blocks)}
        for name in sorted(change.after.keys() - names):
            yield f'{address} has nothing of the name "{name}".'


def step_problems(
    plan: Plan,
    prior: Prior,
    changed: Mapping[Address, ChangedVms],
    makers: Mapping[tuple[str, str, str], str],
    types: Mapping[str, ResourceType],
) -> Iterator[str]:
    """What is wrong with the steps, a sentence each. They are drafted again from the changes; what takes
    the room of rolling VMs may wait for these in either order, and all else must be the same.
    """
    remaining = {}
    for vms in changed.values():
        if vms.change.action is Action.UPDATE and vms.makes_room():
            release = _release(plan, vms)
            if release is None:
                yield f"No step makes the room free that {vms.change.address} leaves."
                return
            yield from _release_problems(vms, release, types[vms.change.address.type])
            remaining[vms.change.address] = release
    machines = {address: vms.use(makers) for address, vms in changed.items()}
    graph = draft_steps(plan.changes, remaining, prior, machines, types)
    if [_content(step) for step in graph.steps()] != [_content(step) for step in plan.steps]:
        yield "Its steps are not those of its changes."
        return
    room = waits_for_leaving(graph, machines)
    yield from _order_problems(plan, graph, room, _rolling(graph, changed))


def _content(step: Step) -> tuple[object, ...]:
    """What a step does, without what it waits for."""
    return step.id, step.kind, step.change, step.prior, step.planned, step.main


def _release(plan: Plan, vms: ChangedVms) -> Values | None:
    """What the release step of a change says to be left, None where there is no such step."""
    for step in plan.steps:
        is_of_change = 0 <= step.change < len(plan.changes) and plan.changes[step.change] is vms.change
        if is_of_change and step.kind is StepKind.RELEASE:
            return step.planned
    return None


def _release_problems(vms: ChangedVms, remaining: Values, resource_type: ResourceType) -> Iterator[str]:
    """A release takes the VMs away that leave, and changes nothing that is written by people."""
    family, before = resource_type.vms, vms.change.before
    assert family is not None
    assert before is not None
    if has_unknown(remaining):
        yield f"It does not say what is left of {vms.change.address} while its VMs leave."
        return
    arguments = [
        name for name, attribute in resource_type.schema.attributes.items() if not attribute.computed
    ]
    arguments += list(resource_type.schema.blocks)
    if any(remaining.get(name) != before.get(name) for name in arguments):
        yield f"A step that makes room changes {vms.change.address}."
    leaving = {
        row.object
        for row in vms.rows
        if row.action in (PlacementAction.REMOVE, PlacementAction.MOVE) and row.trigger != ROLLING
    }
    expected = {name: vm for name, vm in vms.before.items() if name not in leaving}
    if {vm.name: vm for vm in family.standing(remaining)} != expected:
        yield f"A step that makes room takes other VMs of {vms.change.address} away than those that leave."


def _rolling(graph: StepGraph, changed: Mapping[Address, ChangedVms]) -> Waits:
    """Who may wait for whom because one takes the room that the rolling VMs of the other give up."""
    rolled: dict[tuple[str, str], set[int]] = {}
    for address, vms in changed.items():
        update = graph.making.get(address)
        for row in vms.rows:
            if row.trigger == ROLLING and isinstance(row.source, Placement) and update is not None:
                rolled.setdefault((vms.site_before, row.source.machine), set()).add(update)
    waits: Waits = {}
    for address, vms in changed.items():
        making = graph.making.get(address)
        for row in vms.rows:
            if (
                making is not None
                and isinstance(row.target, Placement)
                and row.action is not PlacementAction.KEEP
            ):
                owners = rolled.get((vms.site_after, row.target.machine), set())
                waits.setdefault(making, set()).update(owners - {making})
    return waits


def _order_problems(plan: Plan, graph: StepGraph, room: Waits, rolling: Waits) -> Iterator[str]:
    """Where the steps wait for more or for less than their changes ask for."""
    needed = [set(draft.waits) | room.get(draft.id, set()) for draft in graph.drafts]
    for draft in graph.drafts:
        draft.waits = needed[draft.id] | rolling.get(draft.id, set())
    stuck = stuck_steps(graph)
    for step in plan.steps:
        waits = set(step.waits_for)
        allowed = graph.drafts[step.id].waits
        # Where references say the opposite order, nothing waits for room.
        optional = (room.get(step.id, set()) | rolling.get(step.id, set())) & stuck
        spared = optional if step.id in stuck else set()
        if not needed[step.id] - spared <= waits <= allowed or len(waits) != len(step.waits_for):
            yield f"Its step {step.id} waits for other steps than its changes allow."
            return
        graph.drafts[step.id].waits = waits
    if stuck_steps(graph):
        yield "Its steps wait for each other in a circle."
