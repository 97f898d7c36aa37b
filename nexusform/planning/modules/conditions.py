"""Conditions that stand in no managed resource: variable validations, output preconditions, data and
check blocks. They are looked at when everything is planned, in every instance of every module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.address import Mode as BlockMode
from nexusform.configuration.declared.configuration import (
    Check,
    Condition,
    Configuration,
    ResourceBlock,
    Variable,
)
from nexusform.diagnostics import Diagnostic, Severity, error, has_errors
from nexusform.planning.instances.condition_verdicts import evaluate_condition, failure, worse
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.repetition import ONCE
from nexusform.planning.names.scope import InstanceScope, ModuleInstance
from nexusform.planning.preparation.order import modules
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.request import PlanRequest
from nexusform.plans.plan import CheckResult, Mode

_DATA: tuple[BlockMode, ...] = ("data",)
_ALL: tuple[BlockMode, ...] = ("managed", "data")


class Subject(Struct, frozen=True):
    """What conditions are about: its kind and address in results, and the header of its block."""

    kind: str
    address: str
    header: str


class Checked(Struct):
    """Problems to tell, and a verdict for everything that has conditions."""

    problems: list[Diagnostic] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)

    def add(self, other: Checked) -> None:
        """Take in what else was checked."""
        self.problems += other.problems
        self.checks += other.checks


def check_conditions(request: PlanRequest, evaluation: Evaluation, selection: Selection) -> Checked:
    """All of them. Only variables are checked when everything is to go, or when what the others refer to
    may be left out.
    """
    configuration = request.configuration
    checked = Checked()
    for instance in _instances(configuration, evaluation):
        for variable in instance.module.variables.values():
            evaluation.variable(instance, variable)  # of its type, also when nothing reads it
            checked.add(_of_variable(variable, instance, evaluation))
    if request.mode is Mode.DESTROY or selection.partial:
        return checked
    for instance in _instances(configuration, evaluation):
        for part in _resources(instance, evaluation, modes=_DATA):
            checked.add(part)
        for part in _outputs(instance, evaluation):
            checked.add(part)
    for instance in _instances(configuration, evaluation):
        for check in instance.module.checks:
            checked.add(_check(check, instance, evaluation))
    return checked


def check_standing(request: PlanRequest, evaluation: Evaluation) -> Iterator[Checked]:
    """Everything that has conditions besides variables, over what stands; one by one."""
    for instance in _instances(request.configuration, evaluation):
        yield from _resources(instance, evaluation, modes=_ALL)
        yield from _outputs(instance, evaluation)
        for check in instance.module.checks:
            yield _check(check, instance, evaluation)


def standing_verdicts(request: PlanRequest, evaluation: Evaluation) -> Checked:
    """All of them over what stands. A plan that changes nothing is not held up by them: it may be the way to
    where they hold.
    """
    already_told = len(evaluation.diagnostics)
    checked = Checked()
    for each in check_standing(request, evaluation):
        checked.add(each)
    problems = [*checked.problems, *evaluation.diagnostics[already_told:]]
    checked.problems = [replace(problem, severity=Severity.WARNING) for problem in problems]
    return checked


def _instances(configuration: Configuration, evaluation: Evaluation) -> Iterator[ModuleInstance]:
    for module in modules(configuration.root):
        yield from evaluation.module_instances(module.path)


def _judged(
    subject: Subject, conditions: Sequence[tuple[str, Condition, InstanceScope]], evaluation: Evaluation
) -> Checked:
    """The conditions of one thing: (kind of condition, condition, names it sees)."""
    if not conditions:
        return Checked()
    problems: list[Diagnostic] = []
    worst = "pass"
    for kind, condition, scope in conditions:
        status, message = evaluate_condition(condition, evaluation, scope, subject.address)
        worst = worse(worst, status)
        if status == "fail":
            problems.append(failure(condition, kind, message, subject.address, subject.header, scope))
    messages = tuple(problem.detail for problem in problems)
    return Checked(problems, [CheckResult(subject.kind, subject.address, worst, messages)])


def _within(instance: ModuleInstance, name: str) -> str:
    return ".".join([*(str(step) for step in instance.path), name])


# --- variables ---------------------------------------------------------------------------------


def _of_variable(variable: Variable, instance: ModuleInstance, evaluation: Evaluation) -> Checked:
    subject = Subject(
        "input_variable", _within(instance, f"var.{variable.name}"), f'variable "{variable.name}"'
    )
    scope = evaluation.scope(instance)
    checked = _judged(
        subject, [("variable", condition, scope) for condition in variable.validations], evaluation
    )
    problems = [_where_it_was_passed(problem, variable, subject, instance) for problem in checked.problems]
    return Checked(problems, checked.checks)


def _where_it_was_passed(
    problem: Diagnostic, variable: Variable, subject: Subject, instance: ModuleInstance
) -> Diagnostic:
    """A broken validation is told where the value comes from, with the place of the rule behind it."""
    span = problem.subject
    rule = f"{span.filename}:{span.start.line},{span.start.column}-{span.end.column}" if span else "?"
    call = instance.call
    passed = call.inputs.get(variable.name) if call is not None else None
    return error(
        problem.id,
        f"{problem.detail}\n\nThis was checked by the validation rule at {rule}.",
        variable.span if passed is None else passed[1],
        address=".".join(str(step) for step in instance.path) or subject.address,
        block=subject.header if passed is None or call is None else f'module "{call.name}"',
        values=problem.values,
    )


# --- blocks and outputs ------------------------------------------------------------------------


def _resources(
    instance: ModuleInstance, evaluation: Evaluation, modes: Collection[BlockMode]
) -> Iterator[Checked]:
    for block in instance.module.resources.values():
        if block.mode in modes and (block.lifecycle.preconditions or block.lifecycle.postconditions):
            yield from _of_resource(block, instance, evaluation)


def _of_resource(block: ResourceBlock, instance: ModuleInstance, evaluation: Evaluation) -> Iterator[Checked]:
    """The conditions of each instance of a block that has been read or stands."""
    # What is wrong with the repetition was told when the block was read.
    expansion, _ = evaluation.reporting().expansion(block, evaluation.scope(instance))
    repetitions = (
        {repetition.key: repetition for repetition in expansion.repetitions} if expansion is not None else {}
    )
    for key, item in evaluation.resource(instance, block).items.items():
        address = Address(instance.path, block.mode, block.type, block.name, key)
        before = evaluation.scope(instance, repetitions.get(key, ONCE))
        after = evaluation.scope(instance, repetitions.get(key, ONCE), item)
        conditions = [("precondition", condition, before) for condition in block.lifecycle.preconditions]
        conditions += [("postcondition", condition, after) for condition in block.lifecycle.postconditions]
        yield _judged(Subject("resource", str(address), block.header), conditions, evaluation)


def _outputs(instance: ModuleInstance, evaluation: Evaluation) -> Iterator[Checked]:
    scope = evaluation.scope(instance)
    for name, output in instance.module.outputs.items():
        subject = Subject("output_value", _within(instance, f"output.{name}"), f'output "{name}"')
        yield _judged(
            subject, [("output", condition, scope) for condition in output.preconditions], evaluation
        )


# --- check blocks ------------------------------------------------------------------------------


def _check(check: Check, instance: ModuleInstance, evaluation: Evaluation) -> Checked:
    """A check block only ever warns, also of what is in error within it."""
    inside = evaluation.reporting()
    module = instance
    if check.data is not None:
        module = _with_data(instance, check.data)
        inside.resource(module, check.data)
    unread = has_errors(inside.diagnostics)
    subject = Subject("check", _within(instance, f"check.{check.name}"), f'check "{check.name}"')
    scope = inside.scope(module)
    checked = _judged(subject, [("check", condition, scope) for condition in check.asserts], inside)
    problems = [*inside.diagnostics, *checked.problems]
    return Checked(
        [replace(problem, severity=Severity.WARNING) for problem in problems],
        [replace(result, status="error") if unread else result for result in checked.checks],
    )


def _with_data(instance: ModuleInstance, block: ResourceBlock) -> ModuleInstance:
    """The module as the check's asserts see it: with the check's own data block."""
    resources = {**instance.module.resources, (block.mode, block.type, block.name): block}
    return replace(instance, module=replace(instance.module, resources=resources))
