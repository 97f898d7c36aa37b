"""Whether a plan that was read from a file means what it shows: its changes are about what stands, its
steps are those of its changes, and its rows tell where its VMs are placed. Start reading at `problem_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nexusform.address import Address
from nexusform.planning.conclusion.changes import drift_between
from nexusform.planning.plan import Action, Plan
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.verification.changes import change_problems
from nexusform.planning.verification.steps import step_problems
from nexusform.planning.verification.vm_rows import changed_vms, makers_of_machines, row_problems
from nexusform.ports import ResourceType
from nexusform.state.model import InstanceState, ObjectState, State


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
    yield from row_problems(plan, changed)
    yield from step_problems(plan, prior, changed, makers_of_machines(plan, types), types)
    yield from _output_problems(plan, state)
    if drift_between(state, plan.refreshed) != plan.drift:
        yield "What it shows as changed outside nexusform is not what it takes over."


def _output_problems(plan: Plan, state: State) -> Iterator[str]:
    shown = {output.name: output for output in plan.outputs}
    for name, change in shown.items():
        before, after = state.outputs.get(name), plan.planned_outputs.get(name)
        if change.before != (before.value if before is not None else None):
            yield f'The output "{name}" is not what it was.'
        if change.after != (after.value if after is not None else None):
            yield f'The output "{name}" is shown otherwise than it is planned.'
        if change.action is Action.NO_OP and change.before != change.after:
            yield f'The output "{name}" is said to stay as it is.'
    for name in plan.planned_outputs:
        if name not in shown:
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
    instance = instances.get(address)
    if instance is None:
        return
    if observed is None and not instance.deposed:
        del instances[address]
    else:
        instances[address] = InstanceState(observed, instance.deposed)
