"""Values known only after apply, filled in when apply begins: the plan is made once more with the
time and random functions answering; what was known must come out the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nexusform.configuration.model import Configuration
from nexusform.diagnostics import Diagnostic, error
from nexusform.plain_data import Path, has_unknown
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.plan import Change, Plan, Step
from nexusform.planning.request import PlanRequest
from nexusform.state.model import OutputState
from nexusform.values import UNKNOWN

# Calls whose results are known only at apply; what is made of one may look known all the same.
_LATE_CALLS: Final = re.compile(r"\b(?:timestamp|uuid)\s*\(")
_LONGEST_SHOWN: Final = 80


def is_unfinished(plan: Plan, configuration: Configuration) -> bool:
    """Whether anything of the plan is known only after apply, or was made of something that is."""
    if any(has_unknown(change.after) for change in plan.changes):
        return True
    if any(has_unknown(output.value) for output in plan.planned_outputs.values()):
        return True
    return any(_LATE_CALLS.search(source.text) for source in configuration.files.values())


def finalised(
    plan: Plan, request: PlanRequest, make: Callable[[PlanRequest], PlanResult]
) -> tuple[Plan, list[Diagnostic]]:
    """The plan with every value known. Nothing that was known may change: that is an error."""
    if not is_unfinished(plan, request.configuration):
        return plan, []
    again = make(replace(request, applying=True, tie_breaks=0, ways_out=False, want_rejected=False)).plan
    known = {(change.address, change.deposed): change for change in again.changes}
    problems: list[Diagnostic] = []
    changes: list[Change] = []
    for change in plan.changes:
        final = known.get((change.address, change.deposed))
        differing = _differing_arguments(change, final)
        problems += differing
        fills = final is not None and not differing and has_unknown(change.after)
        changes.append(replace(change, after=final.after) if fills and final is not None else change)
    steps = tuple(_step(step, changes[step.change]) for step in plan.steps)
    outputs: dict[str, OutputState] = {}
    for name, output in plan.planned_outputs.items():
        final_output = again.planned_outputs.get(name, output)
        problems += inconsistent_output(name, output, final_output)
        outputs[name] = final_output
    return replace(plan, changes=tuple(changes), steps=steps, planned_outputs=outputs), problems


def _step(step: Step, change: Change) -> Step:
    if step.planned is None or not has_unknown(step.planned):
        return step
    return replace(step, planned=change.after)


def _differing_arguments(change: Change, final: Change | None) -> Iterator[Diagnostic]:
    if change.after is None:
        return
    if final is None or final.after is None:
        yield _inconsistent(f"{change.address}", "It is not planned any more.", str(change.address))
        return
    for name, value in change.after.items():
        actual = final.after.get(name)
        if not agrees(value, actual):
            hidden = any(path[:1] == (name,) or not path for path in _sensitive(change, final))
            words = _planned_and_actual(value, actual, hidden=hidden)
            yield _inconsistent(f'"{name}" of {change.address}', words, str(change.address))


def _sensitive(change: Change, final: Change) -> Sequence[Path]:
    return [*change.sensitive_after, *final.sensitive_after]


def inconsistent_output(name: str, planned: OutputState, actual: OutputState) -> list[Diagnostic]:
    """The error of an output that came out otherwise than planned."""
    if agrees(planned.value, actual.value):
        return []
    words = _planned_and_actual(planned.value, actual.value, hidden=planned.sensitive or actual.sensitive)
    return [_inconsistent(f'Output "{name}"', words)]


def agrees(planned: Any, actual: Any) -> bool:
    """Whether everything known of a planned value came out so."""
    if planned is UNKNOWN:
        return True
    if isinstance(planned, Mapping) and isinstance(actual, Mapping):
        if planned.keys() != actual.keys():
            return False
        return all(agrees(part, actual[name]) for name, part in planned.items())
    if isinstance(planned, list) and isinstance(actual, list):
        return len(planned) == len(actual) and all(map(agrees, planned, actual))
    return bool(planned == actual)


def _planned_and_actual(planned: Any, actual: Any, *, hidden: bool) -> str:
    if hidden:
        return "Its values are sensitive."
    return f"It was planned as {_shown(planned)} and is {_shown(actual)}."


def _shown(value: Any) -> str:
    def unknown(part: Any) -> Any:
        return "(known after apply)" if part is UNKNOWN else str(part)

    text = json.dumps(value, ensure_ascii=False, default=unknown)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _inconsistent(what: str, words: str, address: str = "") -> Diagnostic:
    detail = f"{what} was known in the plan and came out otherwise. {words} Make a new plan."
    return error("plan-changed-before-it-was-applied", detail, address=address)
