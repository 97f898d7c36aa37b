"""Places of the VMs that a machine action would stop, if they left first: a plan without it."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.phrases import enclose, format_first_items
from nexusform.json_data.plain_data import get_text
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import LostMachines
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.replanning.trials import plan_trial
from nexusform.plans.maintenance import ACTION_WITH_WORKLOADS

_MAXIMUM_NAMED: Final = 4
_MAX_TRIALS: Final = 12


def add_evacuation_targets(
    request: PlanRequest, result: PlanResult, make_plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """Return the result with the targets of VMs in the errors of actions that would stop them.

    The machine of an action takes no VM in the trial of its error. Errors beyond the limit of
    trials stay as they are.
    """
    machine_ids = {
        str(change.address): get_text(change.after, "machine_id") for change in result.plan.changes
    }
    errors = [problem for problem in result.plan.errors if problem.id == ACTION_WITH_WORKLOADS]
    # Of the first errors: each trial is a whole plan.
    details: dict[str, str] = {}
    for error in errors[:_MAX_TRIALS]:
        site_id, _, machine = machine_ids[error.address].split("/")
        trial = plan_trial(request, make_plan, [LostMachines(site_id, (machine,))])
        moves = format_first_items(_list_moves(result, trial, machine), _MAXIMUM_NAMED)
        details[error.address] = enclose(
            f"{error.detail} After an evacuation (tested): ", moves, "."
        )
    diagnostics = tuple(
        replace(diagnostic, detail=details.get(diagnostic.address) or diagnostic.detail)
        if diagnostic.id == ACTION_WITH_WORKLOADS
        else diagnostic
        for diagnostic in result.plan.diagnostics
    )
    return replace(result, plan=replace(result.plan, diagnostics=diagnostics))


def _list_moves(result: PlanResult, trial: PlanResult, machine: str) -> list[str]:
    """Return a clause per VM on the machine after the plan: its machine in the trial."""
    moves: list[str] = []
    for address, vm_object in result.objects.items():
        trial_object = trial.objects[address]
        for key, vm in vm_object.placements.vms.items():
            if vm.placement.machine != machine:
                continue
            is_missing = key in trial_object.placements.failures
            target = None if is_missing else trial_object.placements.vms.get(key)
            if target is None or target.placement.machine == machine:
                moves.append(f"{vm.name} fits on no other machine")
            else:
                moves.append(f"{vm.name} moves to {target.placement.machine}")
    return moves
