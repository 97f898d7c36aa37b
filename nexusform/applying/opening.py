"""What an apply records before any provider is asked.

That is: a new serial, moves, adopted drift, imports, and what state only notes about objects that
stay.
"""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.applying.standing import remembered, with_current
from nexusform.planning.plan import Action, Change, Plan
from nexusform.state.draft import StateDraft
from nexusform.state.journal import Begun, Done, Moved, Record
from nexusform.state.objects import InstanceState, State


def opening_records(plan: Plan, state: State, lineage: str, plan_digest: str = "") -> list[Record]:
    """The records in order.

    `lineage` is for a state that has none yet; `plan_digest` that of the saved plan, "" when there
    is none.
    """
    draft = StateDraft(state)
    records: list[Record] = [
        Begun(
            state.lineage or lineage,
            state.serial + 1,
            plan.nexusform_version,
            plan.catalogue,
            plan_digest,
        )
    ]
    moves = _moves(plan, state)
    if moves:
        records.append(Moved(moves))
        draft.take(records[-1])
    for address, current in plan.refreshed.items():
        instance = draft.instance(address)
        if instance is None or current != instance.current:
            creation = current.creation if current else _creation(instance)
            records.append(Done(address, creation, with_current(instance, current)))
            draft.take(records[-1])
    for change in plan.changes:
        annotated = _annotated(change, draft.instance(change.address))
        if annotated is not None:
            records.append(Done(change.address, change.creation, annotated))
    return records


def _moves(plan: Plan, state: State) -> tuple[tuple[Address, Address], ...]:
    pairs = dict.fromkeys(plan.moved)
    for change in plan.changes:
        if change.previous_address:
            pairs[change.previous_address, change.address] = None
    return tuple((old, new) for old, new in pairs if old in state.instances and old != new)


def _creation(instance: InstanceState | None) -> int:
    return instance.current.creation if instance and instance.current else 0


def _annotated(change: Change, instance: InstanceState | None) -> InstanceState | None:
    """What stands after noting a change that needs no provider, or None when nothing is noted."""
    if change.deposed:
        return None
    current = instance.current if instance else None
    if change.importing and change.before is not None and current is None:
        # What is replaced at once is taken over as it stands first.
        taken = replace(remembered(change, change.before), creation=change.prior_creation)
        return with_current(instance, taken)
    if current is None or change.action is not Action.NO_OP:
        return None
    annotated = replace(
        current,
        sensitive=change.sensitive_after,
        dependencies=change.dependencies,
        create_before_destroy=change.create_before_destroy,
        private=change.private if change.private is not None else current.private,
    )
    return with_current(instance, annotated) if annotated != current else None
