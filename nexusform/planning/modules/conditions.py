"""Conditions that stand in no managed resource: variable validations, output preconditions, data and
check blocks. They are looked at when everything is planned, in every instance of every module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.configuration.model import Check, Condition, Configuration, ResourceBlock, Variable
from nexusform.diagnostics import Diagnostic, Severity, error, has_errors
from nexusform.planning.instances.conditions import evaluate_condition, failure, worse
from nexusform.planning.names.evaluation import Evaluation, InstanceScope, ModuleInstance
from nexusform.planning.names.repetition import ONCE, expand
from nexusform.planning.plan import CheckResult
from nexusform.planning.preparation.order import modules


class Verdicts(Struct):
    """Problems to tell, and a verdict for everything that has conditions."""

    problems: list[Diagnostic] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)

    def judge(self, subject: Subject, conditions: Iterable[tuple[str, Condition, InstanceScope]]) -> None:
        """Look at the conditions of one thing: (kind of condition, condition, names it sees)."""
        worst, messages, some = "pass", [], False
        for kind, condition, scope in conditions:
            some = True
            status, message = evaluate_condition(condition, scope.evaluation, scope, subject.address)
            worst = worse(worst, status)
            if status == "fail":
                self.problems.append(
                    failure(condition, kind, message, subject.address, subject.header, scope)
                )
                messages.append(message)
        if some:
            self.checks.append(CheckResult(subject.kind, subject.address, worst, tuple(messages)))


class Subject(Struct, frozen=True):
    """What conditions are about: its kind and address in results, and the header of its block."""

    kind: str
    address: str
    header: str


def check_variables(configuration: Configuration, evaluation: Evaluation) -> Verdicts:
    """The validations of all variables."""
    found = Verdicts()
    for instance in _instances(configuration, evaluation):
        for variable in instance.module.variables.values():
            evaluation.variable(instance, variable)  # of its type, also when nothing reads it
            _variable(variable, instance, evaluation, found)
    return found


def check_modules(configuration: Configuration, evaluation: Evaluation) -> Verdicts:
    """The conditions of data blocks, which have been read, and of outputs; then all check blocks,
    which only ever warn.
    """
    found = Verdicts()
    for instance in _instances(configuration, evaluation):
        for block in instance.module.resources.values():
            if block.mode == "data":
                _data(block, instance, evaluation, found)
        for name, output in instance.module.outputs.items():
            subject = Subject("output_value", _within(instance, f"output.{name}"), f'output "{name}"')
            scope = evaluation.scope(instance)
            found.judge(subject, [("output", condition, scope) for condition in output.preconditions])
    for instance in _instances(configuration, evaluation):
        for check in instance.module.checks:
            _check(check, instance, evaluation, found)
    return found


def _instances(configuration: Configuration, evaluation: Evaluation) -> Iterator[ModuleInstance]:
    for module in modules(configuration.root):
        yield from evaluation.module_instances(module.path)


def _within(instance: ModuleInstance, name: str) -> str:
    return ".".join([*(str(step) for step in instance.path), name])


def _variable(variable: Variable, instance: ModuleInstance, evaluation: Evaluation, found: Verdicts) -> None:
    address = _within(instance, f"var.{variable.name}")
    subject = Subject("input_variable", address, f'variable "{variable.name}"')
    scope = evaluation.scope(instance)
    before = len(found.problems)
    found.judge(subject, [("variable", condition, scope) for condition in variable.validations])
    call = instance.call
    given = call.inputs.get(variable.name) if call is not None else None
    place, header = (variable.span, subject.header) if given is None else (given[1], _header(instance))
    for index in range(before, len(found.problems)):
        told = found.problems[index]
        rule = f"This was checked by the validation rule at {_place(told)}."
        detail = f"{told.detail}\n\n{rule}"
        owner = _owner(instance) or address
        found.problems[index] = error(told.id, detail, place, address=owner, block=header, values=told.values)


def _header(instance: ModuleInstance) -> str:
    return f'module "{instance.call.name}"' if instance.call is not None else ""


def _owner(instance: ModuleInstance) -> str:
    return ".".join(str(step) for step in instance.path)


def _place(found: Diagnostic) -> str:
    span = found.subject
    return f"{span.filename}:{span.start.line},{span.start.column}-{span.end.column}" if span else "?"


def _data(block: ResourceBlock, instance: ModuleInstance, evaluation: Evaluation, found: Verdicts) -> None:
    lifecycle = block.lifecycle
    if not lifecycle.preconditions and not lifecycle.postconditions:
        return
    scope = evaluation.scope(instance)
    expansion, _ = expand(block.count, block.for_each, lambda e: evaluation.evaluated(e, scope), block.header)
    repetitions = {r.key: r for r in expansion.repetitions} if expansion is not None else {}
    for key, item in evaluation.resource(instance, block).items.items():
        address = str(Address(instance.path, "data", block.type, block.name, key))
        before = evaluation.scope(instance, repetitions.get(key, ONCE))
        after = evaluation.scope(instance, repetitions.get(key, ONCE), item)
        found.judge(
            Subject("resource", address, block.header),
            [
                *(("precondition", condition, before) for condition in lifecycle.preconditions),
                *(("postcondition", condition, after) for condition in lifecycle.postconditions),
            ],
        )


def _check(check: Check, instance: ModuleInstance, evaluation: Evaluation, found: Verdicts) -> None:
    known = len(evaluation.diagnostics)
    inner = Verdicts()
    seen = instance
    if check.data is not None:
        seen = _with_data(instance, check.data)
        evaluation.resource(seen, check.data)
    unread = has_errors(evaluation.diagnostics[known:])
    subject = Subject("check", _within(instance, f"check.{check.name}"), f'check "{check.name}"')
    scope = evaluation.scope(seen)
    inner.judge(subject, [("check", condition, scope) for condition in check.asserts])
    told = [*evaluation.diagnostics[known:], *inner.problems]
    del evaluation.diagnostics[known:]
    found.problems += [replace(d, severity=Severity.WARNING) for d in told]
    found.checks += [replace(c, status="error") if unread else c for c in inner.checks]


def _with_data(instance: ModuleInstance, block: ResourceBlock) -> ModuleInstance:
    """The module as the check's asserts see it: with the check's own data block."""
    resources = {**instance.module.resources, (block.mode, block.type, block.name): block}
    return replace(instance, module=replace(instance.module, resources=resources))
