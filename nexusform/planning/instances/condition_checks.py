"""Conditions: evaluation, and the pre- and postconditions of resources."""

from collections.abc import Sequence

from msgspec import Struct

from nexusform.configuration.declarations.configuration import Condition
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.evaluator import Scope, build_value_notes
from nexusform.language.syntax.syntax_nodes import Expression
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.planning.instances.instance import Instance
from nexusform.planning.name_resolution.instance_scope import InstanceScope
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.plans.plan import CheckResult
from nexusform.schemas.value_types import STRING

ID_OF_CONDITION = {
    "precondition": "resource-precondition-failed",
    "postcondition": "resource-postcondition-failed",
    "output": "module-output-value-precondition-failed",
    "variable": "invalid-value-for-variable",
    "check": "check-block-assertion-failed",
    "assert": "test-assertion-failed",
}


def evaluate_condition(
    condition: Condition, evaluation: Evaluation, scope: Scope, address: str
) -> tuple[str, str]:
    """Return the status of one condition, and the message of a failed one, else "".

    Pass, fail, error, unknown. A condition may be text: "true" is true. An invalid error message is
    an error even if the condition is met.
    """
    value = evaluation.evaluate_expression(condition.condition, scope)
    message = _evaluate_error_message(condition.error_message, evaluation, scope, address)
    # The error of the condition is reported.
    if value is None:
        return "error", ""
    if not value.is_known:
        return "unknown", ""
    if value.raw is True or value.raw == "true":
        has_valid_message = message is not None
        return ("pass", "") if has_valid_message else ("error", "")
    if value.raw is not False and value.raw != "false":
        detail = "A condition must be true or false."
        span = condition.condition.span
        evaluation.diagnostics.append(
            build_error("invalid-condition-result", detail, span, address=address)
        )
        return "error", ""
    return "fail", message or "This check failed. Its error message cannot be shown."


def _evaluate_error_message(
    expression: Expression, evaluation: Evaluation, scope: Scope, address: str
) -> str | None:
    """Return the text of an error message.

    It is "" if unknown, and None, with a diagnostic, if invalid.
    """
    value = evaluation.evaluate_expression(expression, scope)
    if value is None:
        return None
    try:
        text = convert_value(value, STRING)
        reason = "it must not be null" if text.raw is None else ""
    except ConversionProblem as problem:
        text = value
        reason = describe_problem(problem)
    if reason:
        detail = f"Unsuitable value for error message: {reason}."
        problem_of_message = build_error(
            "invalid-error-message", detail, expression.span, address=address
        )
        evaluation.diagnostics.append(problem_of_message)
        return None
    if value.has_ephemeral:
        return (
            "The message refers to ephemeral values, so it is not shown. Wrap them in "
            "ephemeralasnull()."
        )
    if value.has_marks:
        return "(sensitive value)"
    return str(text.raw).strip() if text.is_known else ""


def build_failure(
    condition: Condition, kind: str, message: str, address: str, block: str, scope: Scope
) -> Diagnostic:
    """Build the diagnostic of a failed condition, with the values that it refers to."""
    values = build_value_notes(condition.condition, scope)
    subject = condition.condition.span
    return build_error(
        ID_OF_CONDITION[kind], message, subject, address=address, block=block, values=values
    )


def check_conditions(
    instance: Instance, evaluation: Evaluation
) -> tuple[list[Diagnostic], list[CheckResult]]:
    """Check the pre- and postconditions of an instance with planned values.

    Return problems and the worst result.
    """
    lifecycle = instance.lifecycle
    assert instance.module is not None
    assert instance.repetition is not None
    before = evaluation.build_scope(instance.module, instance.repetition)
    after = evaluation.build_scope(
        instance.module, instance.repetition, instance.view
    )  # with `self`
    conditions = [("precondition", condition, before) for condition in lifecycle.preconditions]
    conditions += [("postcondition", condition, after) for condition in lifecycle.postconditions]
    subject = ConditionSubject("resource", str(instance.address), instance.block_header)
    return evaluate_conditions(subject, conditions, evaluation)


class ConditionSubject(Struct, frozen=True):
    """Subject of conditions: its kind and address in results, and the header of its block."""

    kind: str
    address: str
    header: str


def evaluate_conditions(
    subject: ConditionSubject,
    conditions: Sequence[tuple[str, Condition, InstanceScope]],
    evaluation: Evaluation,
) -> tuple[list[Diagnostic], list[CheckResult]]:
    """Evaluate the conditions of one subject, each with its kind and scope.

    Return the problems and one result, the worst of all conditions; no result without conditions.
    """
    if not conditions:
        return [], []
    problems: list[Diagnostic] = []
    positions: list[Span] = []
    worst_status = "pass"
    for kind, condition, scope in conditions:
        status, message = evaluate_condition(condition, evaluation, scope, subject.address)
        # "error" is the worst.
        worst_status = max(worst_status, status, key=_RANK.index)
        if status in _BROKEN_STATUSES:
            positions.append(condition.condition.span)
        if status == "fail":
            problems.append(
                build_failure(condition, kind, message, subject.address, subject.header, scope)
            )
    messages = tuple(problem.detail for problem in problems)
    return problems, [
        CheckResult(subject.kind, subject.address, worst_status, messages, tuple(positions))
    ]


_BROKEN_STATUSES = ("fail", "error")
# From the best status to the worst.
_RANK = ("pass", "unknown", *_BROKEN_STATUSES)
