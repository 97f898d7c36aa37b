"""The objects that questions are asked of: those of a state, or those that a plan will leave."""

from __future__ import annotations

from nexusform.planning.plan import Plan
from nexusform.planning.room.ground import Thing
from nexusform.state.model import State


def things_of_state(state: State) -> tuple[Thing, ...]:
    """What stands according to a state."""
    return tuple(
        Thing(address, instance.current.attributes, instance.current.creation)
        for address, instance in state.instances.items()
        if instance.current is not None
    )


def things_after(plan: Plan, prior: State) -> tuple[Thing, ...]:
    """What will stand when a plan has been applied to its prior state."""
    things = {thing.address: thing for thing in things_of_state(prior)}
    for address, refreshed in plan.refreshed.items():
        things.pop(address, None)
        if refreshed is not None:
            things[address] = Thing(address, refreshed.attributes, refreshed.creation)
    for old, _ in plan.moved:
        things.pop(old, None)
    for change in plan.changes:
        if change.deposed:
            continue
        things.pop(change.address, None)
        if change.after is not None:
            things[change.address] = Thing(change.address, change.after, change.creation)
    return tuple(things.values())
