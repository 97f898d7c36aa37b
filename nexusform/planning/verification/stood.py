"""What a plan stands on: the objects of a state as the plan saw them."""

from __future__ import annotations

from nexusform.address import Address
from nexusform.planning.plan import Plan
from nexusform.planning.preparation.prior import Prior
from nexusform.state.model import InstanceState, ObjectState, State


def prior_of_plan(plan: Plan, state: State) -> Prior:
    """The state with what the plan says was observed, under the addresses to which the plan moves it, and
    with the objects that it takes over.
    """
    instances = dict(state.instances)
    for address, observed in plan.refreshed.items():
        _observe(instances, address, observed)
    moved = [c for c in plan.changes if c.previous_address is not None and not c.deposed]
    taken = {c.address: instances.pop(c.previous_address, None) for c in moved if c.previous_address}
    instances |= {address: instance for address, instance in taken.items() if instance is not None}
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
    instance = instances.get(address)
    if instance is None:
        return
    if observed is None and not instance.deposed:
        del instances[address]
    else:
        instances[address] = InstanceState(observed, instance.deposed)
