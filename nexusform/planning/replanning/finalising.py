"""Values known only after apply. They are filled in when apply begins: the plan is made once more with
the time and random functions answering; what was known must come out the same. What hangs on the answers of
providers is looked at again when everything is done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import Configuration
from nexusform.configuration.uses import outputs_that_need
from nexusform.diagnostics import Diagnostic, Severity, error, has_errors
from nexusform.exact_numbers import number_text
from nexusform.plain_data import Path, Refined, has_unknown, part_at, to_plain
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.modules.conditions import check_standing
from nexusform.planning.modules.outputs import shown_secrets
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.setting import standing_evaluation
from nexusform.planning.request import PlanRequest
from nexusform.plans.plan import Change, CheckResult, Mode, Plan, Step
from nexusform.ports import Registries
from nexusform.schema import BlockSchema
from nexusform.state import json_text
from nexusform.state.objects import OutputState
from nexusform.value_types import DYNAMIC, ListType, MapType, ObjectType, SetType, TupleType, Type
from nexusform.values import UNKNOWN, Refinement, fulfils, number

# Calls whose results are known only at apply, or that read a file which may call one; what is made of such a
# result may look known all the same.
_LATE_CALLS: Final = re.compile(r"\b(?:timestamp|uuid|templatefile|templatestring)\s*\(")
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
    """The plan with every value known that does not hang on what a provider answers.

    Nothing that was known may change, and nothing may be in error by now: either stops the apply before
    anything is done.
    """
    if not is_unfinished(plan, request.configuration):
        return plan, []
    again = make(replace(request, applying=True, tie_breaks=0, ways_out=False, want_rejected=False)).plan
    if again.errored:
        return plan, [problem for problem in again.diagnostics if problem.severity is Severity.ERROR]
    problems: list[Diagnostic] = []
    changes = _final_changes(plan, again, request.registries, problems)
    steps = tuple(_step(step, changes[step.change]) for step in plan.steps)
    outputs = _final_outputs(plan, again, problems)
    return replace(plan, changes=changes, steps=steps, planned_outputs=outputs), problems


def _final_changes(
    plan: Plan, again: Plan, registries: Registries, problems: list[Diagnostic]
) -> tuple[Change, ...]:
    """The changes, with what was unknown as it came out when planned `again`."""
    finals = {(change.address, change.deposed): change for change in again.changes}
    changes: list[Change] = []
    for change in plan.changes:
        final = finals.get((change.address, change.deposed))
        schema = registries.schemas["managed"].get(change.address.type)
        differing = list(_differing_arguments(change, final, schema))
        problems += differing
        if final is not None and not differing and has_unknown(change.after):
            changes.append(replace(change, after=final.after))
        else:
            changes.append(change)
    return tuple(changes)


def _final_outputs(plan: Plan, again: Plan, problems: list[Diagnostic]) -> dict[str, OutputState]:
    """The outputs, with what was unknown as it came out when planned `again`."""
    outputs: dict[str, OutputState] = {}
    for name, output in plan.planned_outputs.items():
        final = again.planned_outputs.get(name, output)
        problems += inconsistent_output(name, output, final, plan.refined_outputs.get(name, ()))
        outputs[name] = final if has_unknown(output.value) else output
    return outputs


def _step(step: Step, change: Change) -> Step:
    """A step with what its change became, where it was not wholly known."""
    if step.planned is None or not has_unknown(step.planned):
        return step
    return replace(step, planned=change.after)


def _differing_arguments(
    change: Change, final: Change | None, schema: BlockSchema | None
) -> Iterator[Diagnostic]:
    """Arguments that an object would be given otherwise than the plan has shown."""
    if change.after is None:
        return
    if final is None or final.after is None:
        yield _inconsistent(f"{change.address}", "It is not planned any more.", str(change.address))
        return
    for name, value in change.after.items():
        actual = final.after.get(name)
        attribute = schema.attributes.get(name) if schema is not None else None
        kind = attribute.type if attribute is not None else DYNAMIC
        refined = [(path[1:], refinement) for path, refinement in change.refined_after if path[0] == name]
        if not agrees(value, actual, kind) or not _fulfils(actual, refined):
            hidden = any(path[:1] == (name,) or not path for path in _sensitive(change, final))
            words = _planned_and_actual(value, actual, hidden=hidden)
            yield _inconsistent(f'"{name}" of {change.address}', words, str(change.address))


def _sensitive(change: Change, final: Change) -> Sequence[Path]:
    """The paths of values that either plan has as sensitive."""
    return [*change.sensitive_after, *final.sensitive_after]


def inconsistent_output(
    name: str, planned: OutputState, actual: OutputState, refined: Refined = ()
) -> list[Diagnostic]:
    """The error of an output that came out otherwise than planned."""
    if agrees(planned.value, actual.value, planned.type) and _fulfils(actual.value, refined):
        return []
    words = _planned_and_actual(planned.value, actual.value, hidden=planned.sensitive or actual.sensitive)
    return [_inconsistent(f'Output "{name}"', words)]


def agrees(planned: Any, actual: Any, of: Type = DYNAMIC) -> bool:
    """Whether everything known of a planned value of a type came out so. What is unknown in a set may turn
    out to be equal to something else in it, and a number or a bool to be its text.
    """
    if planned is UNKNOWN:
        return True
    if isinstance(planned, Mapping) and isinstance(actual, Mapping):
        if planned.keys() != actual.keys():
            return False
        return all(agrees(value, actual[name], _part_type(of, name)) for name, value in planned.items())
    if isinstance(planned, list) and isinstance(actual, list):
        if isinstance(of, SetType) and planned != actual:
            return _sets_agree(planned, actual, of.element)
        return len(planned) == len(actual) and _elements_agree(planned, actual, of)
    return bool(planned == actual) or (isinstance(actual, str) and _text(planned) == actual)


def _elements_agree(planned: Sequence[Any], actual: Sequence[Any], of: Type) -> bool:
    """Whether two lists of one length agree element by element; `of` is the type of the lists."""
    pairs = enumerate(zip(planned, actual, strict=True))
    return all(agrees(element, came_out, _part_type(of, index)) for index, (element, came_out) in pairs)


def _text(planned: Any) -> str | None:
    """The text that a number or a bool becomes where values of other types join it."""
    if isinstance(planned, bool):
        return "true" if planned else "false"
    return number_text(number(planned).raw) if isinstance(planned, int | float | Fraction) else None


def _fulfils(actual: Any, refined: Iterable[tuple[Path, Refinement]]) -> bool:
    """Whether what is known by now is as was said of it while it was not."""
    for path, refinement in refined:
        value = part_at(actual, path)
        if value is not UNKNOWN and not fulfils(value, refinement):
            return False
    return True


def _part_type(of: Type, key: str | int) -> Type:
    """The type of a value's part; dynamic where it has none."""
    if isinstance(of, ObjectType):
        return of.attribute(str(key)) or DYNAMIC
    if isinstance(of, ListType | SetType | MapType):
        return of.element
    if isinstance(of, TupleType) and isinstance(key, int) and key < len(of.elements):
        return of.elements[key]
    return DYNAMIC


def _sets_agree(planned: Sequence[Any], actual: Sequence[Any], element: Type) -> bool:
    """Whether known elements are there, and every other one is what some unknown element may become;
    `element` is the type of the elements.
    """
    unsure = [value for value in planned if has_unknown(value)]
    certain = [value for value in planned if not has_unknown(value)]
    if not all(_came_out(value, actual, element) for value in certain):
        return False
    unplanned = [value for value in actual if not _agrees_with_one(certain, value, element)]
    if len(unplanned) > len(unsure):
        return False
    return all(_agrees_with_one(unsure, value, element) for value in unplanned)


def _came_out(planned: Any, actual: Sequence[Any], element: Type) -> bool:
    """Whether a planned element is among the actual ones."""
    return any(agrees(planned, value, element) for value in actual)


def _agrees_with_one(planned: Sequence[Any], actual: Any, element: Type) -> bool:
    """Whether an actual element is what one of the planned ones was to become."""
    return any(agrees(value, actual, element) for value in planned)


def _planned_and_actual(planned: Any, actual: Any, *, hidden: bool) -> str:
    if hidden:
        return "Its values are sensitive."
    return f"It was planned as {_shown(planned)} and is {_shown(actual)}."


def _shown(value: Any) -> str:
    def written(inner: Any) -> Any:
        return "(known after apply)" if inner is UNKNOWN else json_text.plain_mapping(inner)

    text = json_text.dumps(value, default=written).decode()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _inconsistent(what: str, words: str, address: str = "") -> Diagnostic:
    detail = f"{what} was known in the plan and came out otherwise. {words} Make a new plan."
    return error("plan-changed-before-it-was-applied", detail, address=address)


# --- when everything is done -------------------------------------------------------------------


class Following(Struct, frozen=True):
    """An output that came out otherwise because a prediction was missed."""

    name: str
    planned: OutputState
    actual: OutputState


class Settled(Struct, frozen=True):
    """What root outputs and conditions are, now that everything is done."""

    outputs: Mapping[str, OutputState]
    checks: tuple[CheckResult, ...]
    following: tuple[Following, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def settled(
    plan: Plan, request: PlanRequest, before: Mapping[str, OutputState], missed: Collection[str]
) -> Settled:
    """Outputs and conditions over what stands (the state of `request`), where the plan does not know them.

    `before` are the outputs as they stood, which stay where nothing can be told; `missed` are the addresses
    of resources, without instance keys, that a provider observed otherwise than predicted.
    """
    partial = bool(plan.targets or plan.excludes) or plan.mode is Mode.REFRESH_ONLY
    if plan.mode is Mode.DESTROY or not (missed or _has_open_ends(plan)):
        return Settled(plan.planned_outputs, plan.checks)
    evaluation = standing_evaluation(replace(request, applying=True))
    outputs = _Outputs(plan, evaluation, outputs_that_need(request.configuration, missed) if missed else ())
    for name in sorted(request.configuration.root.outputs):
        outputs.settle(name, before.get(name), partial=partial)
    if partial:
        return Settled(outputs.values, plan.checks, tuple(outputs.following), tuple(outputs.diagnostics))
    checks, problems = _checked_again(plan, request, evaluation)
    return Settled(outputs.values, checks, tuple(outputs.following), (*outputs.diagnostics, *problems))


def _has_open_ends(plan: Plan) -> bool:
    """Whether the plan leaves an output or a condition to be known after apply."""
    return (
        plan.mode is Mode.REFRESH_ONLY
        or any(has_unknown(output.value) for output in plan.planned_outputs.values())
        or any(check.status == "unknown" for check in plan.checks)
    )


class _Outputs(Struct):
    # Collects the root outputs; `followers` are those that need what was foretold otherwise.
    plan: Plan
    evaluation: Evaluation
    followers: Collection[str]
    values: dict[str, OutputState] = field(default_factory=dict)
    following: list[Following] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def settle(self, name: str, before: OutputState | None, *, partial: bool) -> None:
        """Take in one output: as planned where that is known, else as it is now, else as it stood."""
        planned = self.plan.planned_outputs.get(name)
        if planned is not None and name not in self.followers and not has_unknown(planned.value):
            self.values[name] = planned
            return
        actual, problems = self._output_now(name)
        if actual is None and before is not None:
            self.values[name] = before
        if not partial:
            self.diagnostics += problems
        if actual is None:
            return
        self.values[name] = actual
        if planned is None:
            return
        refined = self.plan.refined_outputs.get(name, ())
        inconsistencies = inconsistent_output(name, planned, actual, refined)
        if inconsistencies and name in self.followers:
            self.following.append(Following(name, planned, actual))
        else:
            self.diagnostics += inconsistencies

    def _output_now(self, name: str) -> tuple[OutputState | None, list[Diagnostic]]:
        """The output over what stands; None where it is in error or still unknown."""
        evaluation = self.evaluation
        declared = evaluation.root.module.outputs[name]
        already_told = len(evaluation.diagnostics)
        value = evaluation.output(evaluation.root, name)
        problems = [*evaluation.diagnostics[already_told:], *shown_secrets(declared, value)]
        if has_errors(problems):
            return None, problems
        if not value.is_wholly_known:
            return None, [*problems, _still_unknown(name)]
        return OutputState(to_plain(value)[0], value.type, declared.sensitive), problems


def _still_unknown(name: str) -> Diagnostic:
    detail = (
        f'Output "{name}" was planned as (known after apply), and what it is cannot be told although '
        "everything was done: something that it refers to is in error or does not stand. The state keeps "
        "its last value. Plan again."
    )
    return error("output-unknown-after-apply", detail, block=f'output "{name}"')


def _checked_again(
    plan: Plan, request: PlanRequest, evaluation: Evaluation
) -> tuple[tuple[CheckResult, ...], list[Diagnostic]]:
    """The conditions over what stands, and what is wrong with those that the plan did not find broken."""
    planned = {(check.kind, check.address): check for check in plan.checks}
    checked_now: dict[tuple[str, str], CheckResult] = {}
    problems: list[Diagnostic] = []
    for checked in check_standing(request, evaluation):
        for check in checked.checks:
            key = (check.kind, check.address)
            checked_now[key] = check
            if key not in planned or planned[key].status != check.status:
                problems += checked.problems
    return tuple(checked_now.get(key, check) for key, check in planned.items()), problems
