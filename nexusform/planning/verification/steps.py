"""Whether the steps of a plan are those of its changes, in an order that they allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nexusform.address import Address
from nexusform.plain_data import has_unknown
from nexusform.planning.conclusion.step_graph import StepGraph, Waits, stuck_steps, waits_for_leaving
from nexusform.planning.conclusion.steps import Values, draft_steps
from nexusform.planning.plan import Action, PlacementAction, Plan, Step, StepKind
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.verification.vm_rows import ChangedVms
from nexusform.planning.vms.vm_object import ROLLING
from nexusform.ports import ResourceType
from nexusform.scheduling.racks.model import Placement


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
    return step.id, step.kind, step.change, step.prior, step.planned, step.main


def _release(plan: Plan, vms: ChangedVms) -> Values | None:
    """What the release step of a change says to be left, None where there is no such step."""
    for step in plan.steps:
        of_this = 0 <= step.change < len(plan.changes) and plan.changes[step.change] is vms.change
        if of_this and step.kind is StepKind.RELEASE:
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
