"""Values known only after apply.

They are filled in at the start of apply: the plan is computed again with the results of time and
random functions; known values must not change. Values that depend on provider results are checked
again at the end. No plan has the values of write-only arguments.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.prepared_body import EvaluationResult, PreparedBody
from nexusform.configuration.reference_graph import find_dependent_outputs
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.json_data.plain_data import Path, Refinements, get_part, has_unknown_part
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.modules.module_conditions import check_current_conditions
from nexusform.planning.modules.root_outputs import build_output_state, check_sensitive_output
from nexusform.planning.name_resolution.evaluation_settings import build_state_evaluation
from nexusform.planning.name_resolution.instance_scope import ModuleInstance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.name_resolution.repetition import InstanceView, RepetitionData
from nexusform.planning.plan_request import PlanRequest
from nexusform.plans.plan import Action, Change, CheckResult, Mode, Plan
from nexusform.resources.address import Address, Key
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import (
    DYNAMIC,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
)
from nexusform.state import json_codec
from nexusform.state.objects import OutputState
from nexusform.values.typed_value import (
    UNKNOWN,
    Refinement,
    build_number,
    format_number,
    is_refinement_met,
)

# Calls with results known only at apply, or that read a file with such calls; values derived from
# such a result may appear known nevertheless.
_LATE_CALLS: Final = re.compile(r"\b(?:timestamp|uuid|templatefile|templatestring)\s*\(")
_MAXIMUM_DISPLAY_LENGTH: Final = 80


def has_values_known_after_apply(plan: Plan, configuration: Configuration) -> bool:
    """Return whether any value of the plan is known only after apply.

    Values derived from a call such as timestamp() count as well.
    """
    if any(has_unknown_part(change.after) for change in plan.changes):
        return True
    if any(has_unknown_part(output.value) for output in plan.root_values.planned_outputs.values()):
        return True
    return any(_LATE_CALLS.search(source.text) for source in configuration.files.values())


def finalize_plan(
    plan: Plan, request: PlanRequest, make_plan: Callable[[PlanRequest], PlanResult]
) -> tuple[Plan, list[Diagnostic]]:
    """Plan again at the start of apply.

    Return the plan with the values of the new plan (only values of providers stay unknown), and the
    problems: errors of the new plan, or changes of known values. Any problem prevents the apply.
    """
    if not has_values_known_after_apply(plan, request.configuration):
        return plan, []
    # Only values count.
    options = {"includes_remedies": False, "includes_rejections": False, "includes_losses": False}
    new_plan = make_plan(replace(request, is_applying=True, samples=0, **options)).plan
    # Its values are incomplete.
    if new_plan.errored:
        return plan, list(new_plan.errors)
    problems: list[Diagnostic] = []
    changes = _replace_unknown_values_of_changes(plan, new_plan, request.registries, problems)
    steps = tuple(
        replace(step, planned=changes[step.change].after)
        if has_unknown_part(step.planned)
        else step
        for step in plan.steps
    )
    outputs = _finalize_outputs(plan, new_plan, problems)
    return replace(
        plan,
        changes=changes,
        steps=steps,
        root_values=replace(plan.root_values, planned_outputs=outputs),
    ), problems


def _replace_unknown_values_of_changes(
    plan: Plan, new_plan: Plan, registries: PluginRegistries, problems: list[Diagnostic]
) -> tuple[Change, ...]:
    """Return the changes with unknown values taken from `new_plan`.

    Differences are added to `problems`.
    """
    new_changes = {(change.address, change.deposed): change for change in new_plan.changes}
    changes: list[Change] = []
    for change in plan.changes:
        # None: no longer planned.
        final = new_changes.get((change.address, change.deposed))
        differences = list(_check_arguments(change, final, registries.schemas["managed"]))
        problems += differences
        if final is not None and not differences and has_unknown_part(change.after):
            changes.append(replace(change, after=final.after))
        else:
            changes.append(change)
    return tuple(changes)


def _finalize_outputs(
    plan: Plan, new_plan: Plan, problems: list[Diagnostic]
) -> dict[str, OutputState]:
    """Return the outputs with unknown values taken from `new_plan`.

    Differences are added to `problems`.
    """
    outputs: dict[str, OutputState] = {}
    for name, output in plan.root_values.planned_outputs.items():
        final = new_plan.root_values.planned_outputs.get(name, output)
        problems += check_output(
            name, output, final, plan.root_values.refined_outputs.get(name, ())
        )
        outputs[name] = final if has_unknown_part(output.value) else output
    return outputs


def _check_arguments(
    change: Change, final: Change | None, schemas: Mapping[str, BlockSchema]
) -> Iterator[Diagnostic]:
    """Yield errors for arguments with another value than planned.

    `final` is the same change in a new plan, made with values that were unknown before. It is None
    if the new plan does not have this change.
    """
    # A removal has no values.
    if change.after is None:
        return
    if final is None or final.after is None:
        yield _build_inconsistency_error(
            f"{change.address}", "It is no longer planned.", str(change.address)
        )
        return
    attributes = schemas[change.address.type].attributes
    for name, value in change.after.items():
        actual = final.after.get(name)
        kind = attributes[name].type if name in attributes else DYNAMIC
        # Limits planned for unknown parts of the argument, with the paths below it.
        refinements = [
            (path[1:], refinement) for path, refinement in change.refined_after if path[0] == name
        ]
        if is_consistent_with_plan(value, actual, kind) and _is_within_refinements(
            actual, refinements
        ):
            continue
        sensitive_paths = [*change.sensitive_after, *final.sensitive_after]
        # (): the whole object.
        is_hidden = any(path[:1] in ((name,), ()) for path in sensitive_paths)
        difference = _format_difference(value, actual, is_hidden=is_hidden)
        yield _build_inconsistency_error(
            f'"{name}" of {change.address}', difference, str(change.address)
        )


def check_output(
    name: str, planned: OutputState, actual: OutputState, refinements: Refinements = ()
) -> list[Diagnostic]:
    """Return the error of an output with another value than planned, or []."""
    is_consistent = is_consistent_with_plan(planned.value, actual.value, planned.type)
    if is_consistent and _is_within_refinements(actual.value, refinements):
        return []
    difference = _format_difference(
        planned.value, actual.value, is_hidden=planned.sensitive or actual.sensitive
    )
    return [_build_inconsistency_error(f'Output "{name}"', difference)]


def is_consistent_with_plan(planned: Any, actual: Any, value_type: Type = DYNAMIC) -> bool:
    """Return whether the known parts of a planned value match the actual one.

    [1, unknown] may become [1, 2]. An actual set may be smaller, because unknown elements may
    turn out equal to others. A number or bool may become its text in an argument of type string:
    1 matches "1".
    """
    if planned is UNKNOWN:
        return True
    if isinstance(planned, list) and isinstance(actual, list):
        if isinstance(value_type, SetType) and planned != actual:
            return _is_consistent_set(planned, actual, value_type.element)
        # Lists are compared like mappings.
        planned = dict(enumerate(planned))
        actual = dict(enumerate(actual))
    if isinstance(planned, Mapping) and isinstance(actual, Mapping):
        if planned.keys() != actual.keys():
            return False
        return all(
            is_consistent_with_plan(value, actual[key], _get_part_type(value_type, key))
            for key, value in planned.items()
        )
    if planned == actual:
        return True
    if not isinstance(actual, str):
        return False
    return _convert_number_or_bool_to_text(planned) == actual


def _is_consistent_set(planned: Sequence[Any], actual: Sequence[Any], element: Type) -> bool:
    """Return whether an actual set may be the result of a planned one with unknown elements.

    Each known element must be in the actual set. Every other actual element must match an unknown
    one, and an unknown element becomes at most one of them: {1, unknown} may become {1} or {1, 2},
    but not {2} or {1, 2, 3}.
    """
    unknown_count = 0
    # Of the actual elements that match a known one.
    known_positions: set[int] = set()
    # Of those that match an unknown one.
    possible_positions: set[int] = set()
    for value in planned:
        matches = {
            index
            for index, other in enumerate(actual)
            if is_consistent_with_plan(value, other, element)
        }
        if has_unknown_part(value):
            unknown_count += 1
            possible_positions |= matches
        elif matches:
            known_positions |= matches
        else:
            return False
    other_positions = set(range(len(actual))) - known_positions
    return len(other_positions) <= unknown_count and other_positions <= possible_positions


def _convert_number_or_bool_to_text(planned: Any) -> str | None:
    """Return the text of a number or a bool after conversion to string; None for other values."""
    if isinstance(planned, bool):
        return str(planned).lower()  # "true", "false"
    if isinstance(planned, int | float | Fraction):
        return format_number(build_number(planned).raw)
    return None


def _is_within_refinements(actual: Any, refinements: Iterable[tuple[Path, Refinement]]) -> bool:
    """Return whether known values match the refinements made while they were unknown."""
    for path, refinement in refinements:
        value = get_part(actual, path)
        # A value still unknown may match.
        if value is not UNKNOWN and not is_refinement_met(value, refinement):
            return False
    return True


def _get_part_type(value_type: Type, key: str | int) -> Type:
    """Return the type of a value's part; dynamic by default."""
    if isinstance(value_type, ObjectType):
        return value_type.get_attribute(str(key)) or DYNAMIC
    if isinstance(value_type, ListType | SetType | MapType):
        return value_type.element
    if isinstance(value_type, TupleType) and isinstance(key, int):
        types = value_type.elements  # by position
        return types[key] if key < len(types) else DYNAMIC
    return DYNAMIC


def _format_difference(planned: Any, actual: Any, *, is_hidden: bool) -> str:
    """Format a planned and an actual value, unless they are sensitive."""
    if is_hidden:
        return "Its values are sensitive."
    return f"It was planned as {_format_value(planned)} and is {_format_value(actual)}."


def _format_value(value: Any) -> str:
    """Format a value as JSON, without the end of a long text."""
    text = json_codec.render_json(
        value,
        default=lambda part: (
            "(known after apply)" if part is UNKNOWN else json_codec.convert_mapping(part)
        ),
    ).decode()
    return (
        text
        if len(text) <= _MAXIMUM_DISPLAY_LENGTH
        else f"{text[: _MAXIMUM_DISPLAY_LENGTH - 3]}..."
    )


def _build_inconsistency_error(subject: str, difference: str, address: str = "") -> Diagnostic:
    detail = (
        f"{subject} was known in the plan and has another value after apply. {difference} Create "
        "a new plan."
    )
    return build_error("plan-changed-before-apply", detail, address=address)


class WrongOutput(Struct, frozen=True):
    """Output that differs from the plan because of a wrong prediction."""

    name: str
    planned: OutputState
    actual: OutputState


class FinalResults(Struct, frozen=True):
    """Root outputs and conditions after apply."""

    outputs: Mapping[str, OutputState]
    checks: tuple[CheckResult, ...]
    changed_outputs: tuple[WrongOutput, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def evaluate_final_results(
    plan: Plan,
    request: PlanRequest,
    before: Mapping[str, OutputState],
    wrong_addresses: Collection[str],
) -> FinalResults:
    """Evaluate the outputs and conditions unknown in the plan, now with the objects after apply.

    These objects are in the state of `request`. An output still unknown keeps its value in
    `before`. `wrong_addresses` are resources with attributes other than predicted, without instance
    keys. Outputs based on them are evaluated again.
    """
    has_unknown_output = any(
        has_unknown_part(output.value) for output in plan.root_values.planned_outputs.values()
    )
    has_unknown_check = any(check.status == "unknown" for check in plan.verdicts.checks)
    # Such a plan evaluates all outputs again.
    is_refresh_only = plan.options.mode is Mode.REFRESH_ONLY
    is_needed = wrong_addresses or has_unknown_output or has_unknown_check or is_refresh_only
    if plan.options.mode is Mode.DESTROY or not is_needed:
        return FinalResults(plan.root_values.planned_outputs, plan.verdicts.checks)
    is_selection = bool(plan.options.targets or plan.options.excludes)
    # Problems of outputs and conditions are then not reported.
    is_partial = is_selection or is_refresh_only
    evaluation = build_state_evaluation(replace(request, is_applying=True))
    dependent_names = find_dependent_outputs(request.configuration, wrong_addresses)
    outputs = _FinalOutputs(plan, evaluation, dependent_names)
    names = set(request.configuration.root.outputs)
    # Other outputs keep the value from before the plan.
    if is_selection:
        planned_names = {change.name for change in plan.root_values.outputs}
        names &= planned_names
        outputs.values |= {
            name: kept
            for name, kept in plan.root_values.planned_outputs.items()
            if name not in planned_names
        }
    for name in sorted(names):
        outputs.add_output(name, before.get(name), is_partial=is_partial)
    results = FinalResults(
        outputs=outputs.values,
        checks=plan.verdicts.checks,
        changed_outputs=tuple(outputs.changed_outputs),
        diagnostics=tuple(outputs.diagnostics),
    )
    # Conditions keep their results from the plan.
    if is_partial:
        return results
    checks, problems = _evaluate_conditions_after_apply(plan, request, evaluation)
    return replace(results, checks=checks, diagnostics=(*outputs.diagnostics, *problems))


class _FinalOutputs(Struct):
    # Collects the root outputs; `dependent_names` are those that depend on a wrong prediction.
    plan: Plan
    evaluation: Evaluation
    dependent_names: Collection[str]
    values: dict[str, OutputState] = field(default_factory=dict)
    changed_outputs: list[WrongOutput] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def add_output(self, name: str, before: OutputState | None, *, is_partial: bool) -> None:
        """Add an output: as planned, as evaluated now, or `before`.

        It stays as planned if it is known and based on no wrong prediction.
        """
        planned = self.plan.root_values.planned_outputs.get(name)
        if (
            planned is not None
            and name not in self.dependent_names
            and not has_unknown_part(planned.value)
        ):
            self.values[name] = planned
            return
        actual, problems = self._evaluate_output(name)
        if actual is None and before is not None:
            self.values[name] = before
        # A partial apply may leave outputs without their objects.
        if not is_partial:
            self.diagnostics += problems
        # On errors, or still unknown.
        if actual is None:
            return
        self.values[name] = actual
        # Nothing to compare with.
        if planned is None:
            return
        refinements = self.plan.root_values.refined_outputs.get(name, ())
        inconsistencies = check_output(name, planned, actual, refinements)
        # A wrong prediction explains them.
        if inconsistencies and name in self.dependent_names:
            self.changed_outputs.append(WrongOutput(name, planned, actual))
        else:
            self.diagnostics += inconsistencies

    def _evaluate_output(self, name: str) -> tuple[OutputState | None, list[Diagnostic]]:
        """Evaluate the output against current objects; None on errors or if it is still unknown."""
        evaluation = self.evaluation
        declared = evaluation.root.module.outputs[name]
        reported_count = len(evaluation.diagnostics)
        value = evaluation.get_output(evaluation.root, name)
        problems = [
            *evaluation.diagnostics[reported_count:],
            *check_sensitive_output(declared, value),
        ]
        if has_errors(problems):
            return None, problems
        if not value.is_wholly_known:
            detail = (
                f'Output "{name}" was planned as (known after apply), and is still unknown after '
                "apply: an object that it refers to failed or does not exist. The state keeps its "
                "last value. Plan again."
            )
            unknown_output_error = build_error(
                "output-unknown-after-apply", detail, block=f'output "{name}"'
            )
            return None, [*problems, unknown_output_error]
        return build_output_state(declared, value), problems


def _evaluate_conditions_after_apply(
    plan: Plan, request: PlanRequest, evaluation: Evaluation
) -> tuple[tuple[CheckResult, ...], list[Diagnostic]]:
    """Return the results of the plan's conditions with current objects.

    The problems of conditions with a new status are returned, too.
    """
    planned = {(check.kind, check.address): check for check in plan.verdicts.checks}
    # By kind and address.
    current_checks: dict[tuple[str, str], CheckResult] = {}
    problems: list[Diagnostic] = []
    for results in check_current_conditions(request, evaluation):
        for check in results.checks:
            key = (check.kind, check.address)
            current_checks[key] = check
            if key not in planned or planned[key].status != check.status:
                problems += results.problems
    return tuple(current_checks.get(key, check) for key, check in planned.items()), problems


_WRITTEN = frozenset({Action.CREATE, Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST})
# Write-only arguments by the address of their object.
WriteOnlyValues: TypeAlias = Mapping[str, Mapping[str, Any]]


def evaluate_write_only(
    plan: Plan, request: PlanRequest
) -> tuple[WriteOnlyValues, list[Diagnostic]]:
    """Return the write-only arguments of the objects to create or update.

    The key is the address. Unknown arguments give errors.
    """
    types = request.registries.resource_types
    changes = [
        change
        for change in plan.changes
        if change.action in _WRITTEN
        and types[change.address.type].split_write_only_body is not None
    ]
    if not changes:
        return {}, []
    evaluation: Evaluation = build_state_evaluation(replace(request, is_applying=True))
    for change in plan.changes:
        # Other arguments may refer to it.
        if change.after is not None and not change.deposed:
            resource_type = types[change.address.type]
            view = InstanceView(
                change.after, change.sensitive_after, resource_type.schema, resource_type.present
            )
            evaluation.get_resource_view(change.address).items[change.address.key] = view
    blocks: dict[Address, _WriteOnlyBlock | None] = {}
    values: dict[str, Mapping[str, Any]] = {}
    problems: list[Diagnostic] = []
    for change in changes:
        resource = change.address.resource
        if resource not in blocks:
            blocks[resource] = _find_write_only_block(resource, evaluation)
        block_in_module = blocks[resource]
        if block_in_module is None:
            continue
        arguments = block_in_module.evaluate(change.address.key, evaluation)
        if has_unknown_part(arguments):
            detail = (
                f"A write-only argument of {change.address} is known only after apply. Use "
                "variables, literals, or "
                "attributes that nexusform computes in the plan."
            )
            name = str(change.address)
            block = change.block
            error = build_error(
                "write-only-argument-unknown", detail, change.source, address=name, block=block
            )
            problems.append(error)
        elif arguments:
            values[str(change.address)] = arguments
    return values, problems


class _WriteOnlyBlock(Struct, frozen=True):
    """Block that sets write-only arguments (`names`), in one instance of its module.

    `repetitions` are its instances by key.
    """

    instance: ModuleInstance
    body: PreparedBody
    names: tuple[str, ...]
    repetitions: Mapping[Key, RepetitionData]

    def evaluate(self, key: Key, evaluation: Evaluation) -> dict[str, Any]:
        """Return the write-only arguments of one object with a value, {} if it is missing."""
        if key not in self.repetitions:
            return {}
        scope = evaluation.build_scope(self.instance, self.repetitions[key])
        arguments = self.body.fill(scope, EvaluationResult())
        return {name: arguments[name] for name in self.names if arguments[name] is not None}


def _find_write_only_block(address: Address, evaluation: Evaluation) -> _WriteOnlyBlock | None:
    """Return the block of objects at an address without a key.

    Return None if the block or the instance of its module is missing, or sets
    no write-only argument.
    """
    static_path = tuple(step.name for step in address.module)
    for instance in evaluation.list_module_instances(static_path):
        if instance.path != address.module:
            continue
        block = instance.module.resources[address.mode, address.type, address.name]
        body = evaluation.settings.get_body(block)
        assert body is not None, "the type of a planned object is known"
        write_only_names = evaluation.settings.schemas["managed"][address.type].write_only_names
        names = tuple(name for name in write_only_names if body.is_configured(name))
        if not names:
            return None
        repetitions = evaluation.list_repetitions(instance, block)
        return _WriteOnlyBlock(
            instance, body, names, {repetition.key: repetition for repetition in repetitions}
        )
    return None
