"""Conditions outside managed resources.

Variable validations, output preconditions, data and check blocks. They are checked after everything
is planned, in every instance of every module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Check, Configuration, Variable
from nexusform.diagnostics.diagnostic import Diagnostic, Severity, build_error, has_errors
from nexusform.planning.instances.condition_checks import ConditionSubject, evaluate_conditions
from nexusform.planning.modules.root_outputs import iterate_module_instances
from nexusform.planning.name_resolution.instance_scope import ModuleInstance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.name_resolution.repetition import SINGLE_INSTANCE
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.target_selection import Selection, find_selected_outputs
from nexusform.plans.plan import CheckResult, Mode
from nexusform.resources.address import Address
from nexusform.resources.address import Mode as BlockMode

_DATA: tuple[BlockMode, ...] = ("data",)
_ALL: tuple[BlockMode, ...] = ("managed", "data")


class ConditionResults(Struct):
    """Problems, and a result for every object with conditions."""

    problems: list[Diagnostic] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)

    def add_all(self, parts: Iterable[ConditionResults]) -> None:
        """Add the results of several objects."""
        for part in parts:
            self.problems += part.problems
            self.checks += part.checks


def check_all_conditions(
    request: PlanRequest, evaluation: Evaluation, selection: Selection
) -> ConditionResults:
    """Check the conditions outside of managed resources.

    A destroy plan checks those of variables only. A partial plan (-target, -exclude) adds
    those of its root outputs, and of outputs of other modules rejected while the plan read
    them, by a failed precondition.
    """
    configuration = request.configuration
    results = check_variable_validations(configuration, evaluation)
    if request.mode is Mode.DESTROY:
        return results
    selected_outputs = find_selected_outputs(selection, configuration)
    if selected_outputs is not None:
        for instance in iterate_module_instances(configuration, evaluation):
            # Names of outputs of the root module.
            names: Iterable[str] = selected_outputs
            if instance.path:
                outputs = instance.module.outputs
                rejected = evaluation.rejected_values
                names = [name for name in outputs if (instance.path, f"output.{name}") in rejected]
            results.add_all(_check_output_preconditions(instance, evaluation, names))
        return results
    for instance in iterate_module_instances(configuration, evaluation):
        results.add_all(_check_conditions_of_resources(instance, evaluation, modes=_DATA))
        results.add_all(_check_output_preconditions(instance, evaluation, instance.module.outputs))
    for instance in iterate_module_instances(configuration, evaluation):
        results.add_all(
            _evaluate_check_block(check, instance, evaluation) for check in instance.module.checks
        )
    return results


def check_variable_validations(
    configuration: Configuration, evaluation: Evaluation
) -> ConditionResults:
    """Check the validation rules of all variables."""
    results = ConditionResults()
    for instance in iterate_module_instances(configuration, evaluation):
        for variable in instance.module.variables.values():
            results.add_all([check_validations(instance, variable, evaluation)])
    return results


def check_validations(
    instance: ModuleInstance, variable: Variable, evaluation: Evaluation
) -> ConditionResults:
    """Check the validation rules of a variable in one module instance."""
    subject = ConditionSubject(
        "input_variable",
        _build_address(instance, f"var.{variable.name}"),
        f'variable "{variable.name}"',
    )
    scope = evaluation.build_scope(instance)
    value = evaluation.get_variable(instance, variable)
    # A rejected value reads as unknown elsewhere; its rules need the value itself.
    rejected_value = evaluation.rejected_values.get((instance.path, variable.name))
    if rejected_value is not None:
        evaluation.set_variable(instance, variable.name, rejected_value)
    conditions = [("variable", condition, scope) for condition in variable.validations]
    variable_problems, checks = evaluate_conditions(subject, conditions, evaluation)
    evaluation.set_variable(instance, variable.name, value)
    problems = [
        _move_problem_to_call(problem, variable, subject, instance) for problem in variable_problems
    ]
    return ConditionResults(problems, checks)


def check_current_conditions(
    request: PlanRequest, evaluation: Evaluation
) -> Iterator[ConditionResults]:
    """Yield the results of all conditions with the current objects.

    Validations of variables are excepted.
    """
    for instance in iterate_module_instances(request.configuration, evaluation):
        yield from _check_conditions_of_resources(instance, evaluation, modes=_ALL)
        yield from _check_output_preconditions(instance, evaluation, instance.module.outputs)
        for check in instance.module.checks:
            yield _evaluate_check_block(check, instance, evaluation)


def _build_address(instance: ModuleInstance, name: str) -> str:
    return ".".join([*map(str, instance.path), name])


def _move_problem_to_call(
    problem: Diagnostic, variable: Variable, subject: ConditionSubject, instance: ModuleInstance
) -> Diagnostic:
    """Return a failed validation at the source of the value (module call or variable).

    Its text names the rule.
    """
    span = problem.subject
    assert span is not None, "a failed condition has a position"
    rule = f"{span.filename}:{span.start.line},{span.start.column}-{span.end.column}"
    call = instance.call
    source_span = variable.span
    block = subject.header
    if call is not None and variable.name in call.inputs:
        # Its expression, and the span.
        _, source_span = call.inputs[variable.name]
        block = f'module "{call.name}"'
    return build_error(
        problem.id,
        f"{problem.detail}\n\nThis was checked by the validation rule at {rule}.",
        source_span,
        address=".".join(map(str, instance.path)) or subject.address,
        block=block,
        values=problem.values,
    )


def _check_conditions_of_resources(
    instance: ModuleInstance, evaluation: Evaluation, modes: Collection[BlockMode]
) -> Iterator[ConditionResults]:
    """Yield the results of pre- and postconditions of the blocks of these modes, per instance.

    The modes are data and managed.
    """
    for block in instance.module.resources.values():
        if block.mode in modes and (
            block.lifecycle.preconditions or block.lifecycle.postconditions
        ):
            # Problems with the repetition were reported when the block was read: this
            # copy drops them.
            listed = evaluation.create_reporting_copy().list_repetitions(instance, block)
            repetitions = {repetition.key: repetition for repetition in listed}
            for key, item in evaluation.get_resource(instance, block).items.items():
                address = Address(instance.path, block.mode, block.type, block.name, key)
                # An instance only in state has none.
                repetition = repetitions.get(key, SINGLE_INSTANCE)
                before = evaluation.build_scope(instance, repetition)
                after = evaluation.build_scope(instance, repetition, item)  # with `self`
                conditions = [
                    ("precondition", condition, before)
                    for condition in block.lifecycle.preconditions
                ]
                conditions += [
                    ("postcondition", condition, after)
                    for condition in block.lifecycle.postconditions
                ]
                subject = ConditionSubject("resource", str(address), block.header)
                yield ConditionResults(*evaluate_conditions(subject, conditions, evaluation))


def _check_output_preconditions(
    instance: ModuleInstance, evaluation: Evaluation, names: Iterable[str]
) -> Iterator[ConditionResults]:
    """Yield the results of the preconditions of these outputs of a module instance."""
    scope = evaluation.build_scope(instance)
    for name in names:
        output = instance.module.outputs[name]
        subject = ConditionSubject(
            "output_value", _build_address(instance, f"output.{name}"), f'output "{name}"'
        )
        conditions = [("output", condition, scope) for condition in output.preconditions]
        yield ConditionResults(*evaluate_conditions(subject, conditions, evaluation))


def _evaluate_check_block(
    check: Check, instance: ModuleInstance, evaluation: Evaluation
) -> ConditionResults:
    """Evaluate a check block: all its problems are warnings.

    If its data block cannot be read, the status is error.
    """
    inner_evaluation = evaluation.create_reporting_copy()
    module = instance
    if check.data is not None:
        block = check.data
        # Only this check block may refer to its data block.
        resources = {**instance.module.resources, (block.mode, block.type, block.name): block}
        module = replace(instance, module=replace(instance.module, resources=resources))
        inner_evaluation.get_resource(module, check.data)
    # Whether reading the data block failed.
    is_unread = has_errors(inner_evaluation.diagnostics)
    subject = ConditionSubject(
        "check", _build_address(instance, f"check.{check.name}"), f'check "{check.name}"'
    )
    scope = inner_evaluation.build_scope(module)
    conditions = [("check", condition, scope) for condition in check.asserts]
    assert_problems, results = evaluate_conditions(subject, conditions, inner_evaluation)
    problems = [*inner_evaluation.diagnostics, *assert_problems]
    return ConditionResults(
        [replace(problem, severity=Severity.WARNING) for problem in problems],
        [replace(result, status="error") if is_unread else result for result in results],
    )
