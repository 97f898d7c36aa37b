"""Lines about the machine actions of a plan, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.plans.maintenance import PlannedMachineAction
from nexusform.plans.plan import Plan

_MAX_VMS: Final = 6
_MINUTES_PER_HOUR: Final = 60


def describe_machine_actions(plan: Plan) -> Iterator[str]:
    """Yield a line per site with several actions, and a line per action: `Window 1 on lab: Restart ...`."""
    for _, group in groupby(plan.machine_actions, key=lambda action: action.site_id):
        actions = list(group)
        if len(actions) > 1:
            total = _format_minutes(sum(action.minutes for action in actions))
            yield f"Machine actions on {actions[0].site}: {len(actions):,}, one after another, up to {total}."
        for action in actions:
            yield _describe_action(action)


def _describe_action(action: PlannedMachineAction) -> str:
    """Return the window of an action: its VMs before, during and after."""
    limit = _format_minutes(action.minutes)
    sentences = [f"Window {action.window} on {action.site}: {action.action} of {action.machine}, up to {limit}."]
    if action.leaving_vms:
        moves = [f"{vm.name} to {vm.machine}" if vm.machine else f"{vm.name} (removed)" for vm in action.leaving_vms]
        sentences.append(
            f"{_format_list('VM leaves', 'VMs leave', moves)} first. Moved VMs do not return by themselves."
        )
    if action.stopped_vms:
        end = "stay down until a start of the machine" if action.leaves_off else "start again there"
        sentences.append(f"{_format_list('VM stops', 'VMs stop', action.stopped_vms)}. Stopped VMs {end}.")
    if not action.is_disruptive:
        sentences.append("No VM stops. The machine takes no new VM.")
    elif not (action.leaving_vms or action.stopped_vms):
        sentences.append("No VM runs there.")
    return " ".join(sentences)


def _format_list(singular: str, plural: str, names: Sequence[str]) -> str:
    return f"{format_count(len(names), singular, plural)} ({format_first_items(names, _MAX_VMS)})"


def _format_minutes(minutes: int) -> str:
    """Format `40 min`, `3 h` or `3 h 40 min`."""
    hours, rest = divmod(minutes, _MINUTES_PER_HOUR)
    return " ".join([*([f"{hours:,} h"] if hours else []), *([f"{rest} min"] if rest else [])])
