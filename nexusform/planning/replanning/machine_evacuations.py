"""Places of the VMs that a machine action would stop, if they left first: a plan without it."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_first_items
from nexusform.json_data.plain_data import get_text
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import LostMachines, apply_edits
from nexusform.planning.plan_request import PlanRequest, build_trial_request
from nexusform.plans.maintenance import ACTION_WITH_WORKLOADS

_MAXIMUM_NAMED: Final = 4


def add_evacuation_targets(
    request: PlanRequest, result: PlanResult, make_plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """Return the result with the targets of VMs in the errors of actions that would stop them.

    The machine of an action takes no VM in the trial of its error.
    """
    machine_ids = {
        str(change.address): get_text(change.after, "machine_id") for change in result.plan.changes
    }
    trial_request = replace(build_trial_request(request), samples=0, allows_shortage=True)
    diagnostics: list[Diagnostic] = []
    for diagnostic in result.plan.diagnostics:
        if diagnostic.id == ACTION_WITH_WORKLOADS:
            site_id, _, machine = machine_ids[diagnostic.address].split("/")
            lost = LostMachines(site_id, (machine,))
            trial = make_plan(apply_edits(trial_request, [lost]))
            moves = _list_moves(result, trial, machine)
            if moves:
                text = format_first_items(moves, _MAXIMUM_NAMED)
                diagnostic = replace(  # noqa: PLW2901
                    diagnostic, detail=f"{diagnostic.detail} After an evacuation (tested): {text}."
                )
        diagnostics.append(diagnostic)
    return replace(result, plan=replace(result.plan, diagnostics=tuple(diagnostics)))


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
