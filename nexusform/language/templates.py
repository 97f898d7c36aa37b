"""Templates: text with values in it."""

from __future__ import annotations

from functools import partial

from nexusform.exact_numbers import number_text
from nexusform.language.conditionals import condition_of
from nexusform.language.conversion import convert, describe
from nexusform.language.evaluation import UNKNOWN_STRING, ExpressionRun
from nexusform.language.syntax import Expression, StringLiteral, Template, TemplateIf
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import STRING
from nexusform.values import NO_MARKS, UNKNOWN, Value, beginning, refinement_of


def template(node: Template, run: ExpressionRun) -> Value:
    """A template of several parts: always a string."""
    return joined_text(node.parts, run, node)


def joined_text(parts: tuple[Expression, ...], run: ExpressionRun, whole: Expression) -> Value:
    """The parts as one string, unknown when one of them is."""
    pieces: list[str] = []
    marks = NO_MARKS
    known = True
    prefix = ""
    for part in parts:
        if part.__class__ is StringLiteral:
            pieces.append(part.value)
            continue
        value = run.value(part)
        if value.marks:
            marks |= value.marks
        text = _text_of(value, part, run, whole)
        if text is None:
            prefix = "".join(pieces) + refinement_of(value).prefix if known else prefix
            known = False
        else:
            pieces.append(text)
    if not known:
        return Value(STRING, UNKNOWN, marks, beginning(prefix))
    result = Value(STRING, "".join(pieces), marks)
    run.charge_result(result)
    return result


def _text_of(value: Value, part: Expression, run: ExpressionRun, whole: Expression) -> str | None:
    # The text of an interpolated value; None when it is unknown or cannot be shown.
    raw = value.raw
    kind = raw.__class__
    if kind is str:
        return str(raw)
    if kind is int:
        return number_text(raw)
    if raw is None:
        run.problem(
            "invalid-template-interpolation-value",
            "The expression result is null. Cannot include a null value in a string template.",
            part,
            whole,
        )
        return None
    try:
        converted = convert(value, STRING).raw
    except ConversionProblem as problem:
        run.problem(
            "invalid-template-interpolation-value",
            f"Cannot include the given value in a string template: {describe(problem)}.",
            part,
            whole,
        )
        return None
    return None if converted is UNKNOWN else converted


def template_if(node: TemplateIf, run: ExpressionRun) -> Value:
    """`%{ if }`: the text of one of the branches."""
    condition = condition_of(node.condition, run, node)
    if condition is None:
        return UNKNOWN_STRING
    # Marks are those of both branches, so that they do not depend on what the condition turns out to be.
    branches = [run.attempt_all(partial(joined_text, b, run, node)) for b in (node.then, node.otherwise)]
    marks = condition.marks.union(*[text.marks for text, _ in branches])
    if condition.raw is UNKNOWN:
        return UNKNOWN_STRING.with_marks(marks)
    chosen, diagnostics = branches[0 if condition.raw else 1]
    run.diagnostics.extend(diagnostics)
    return chosen.with_marks(marks)
