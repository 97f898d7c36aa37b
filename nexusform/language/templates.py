"""Conditionals (`a ? b : c`, and conditions), and templates: text with values in it."""

from __future__ import annotations

from functools import partial

from nexusform.exact_numbers import number_text
from nexusform.language.conversion import convert, describe
from nexusform.language.evaluation import UNKNOWN_STRING, ExpressionRun
from nexusform.language.syntax.nodes import Conditional, Expression, StringLiteral, Template, TemplateIf
from nexusform.language.unification import unify
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import BOOL, DYNAMIC, STRING, ObjectType, TupleType, Type, friendly_name
from nexusform.values import (
    DYNAMIC_UNKNOWN,
    NO_MARKS,
    UNKNOWN,
    Refinement,
    Value,
    beginning,
    either,
    refined,
    refinement_of,
)


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


def conditional(node: Conditional, run: ExpressionRun) -> Value:
    """The value of the chosen arm, as the type that both agree on; what is wrong in the other is let pass."""
    then, then_problems = run.attempt(node.then)
    otherwise, otherwise_problems = run.attempt(node.otherwise)
    kind = _common_type(then, otherwise)
    if kind is None:
        return run.problem(
            "inconsistent-conditional-result-types",
            "The true and false result expressions must have consistent types. "
            + _difference(then.type, otherwise.type),
            node,
        )
    condition = condition_of(node.condition, run, node)
    if condition is None:
        return Value(kind, UNKNOWN)
    # Of both arms, so that it does not depend on when the condition becomes known.
    marks = condition.marks | then.marks | otherwise.marks
    if condition.raw is UNKNOWN:
        return _undecided(then, otherwise, kind).with_marks(marks)
    if condition.raw:
        word, part, chosen, problems = "true", node.then, then, then_problems
    else:
        word, part, chosen, problems = "false", node.otherwise, otherwise, otherwise_problems
    run.diagnostics.extend(problems)
    try:
        return convert(chosen, kind).with_marks(marks)
    except ConversionProblem as problem:
        detail = f"The {word} result value has the wrong type: {describe(problem)}."
        return run.problem("inconsistent-conditional-result-types", detail, part, node)


def _undecided(then: Value, otherwise: Value, kind: Type) -> Value:
    # What is known before the condition is: what both arms have in common.
    if then.raw is None and otherwise.raw is None:
        return Value(kind, None)
    known = either(refinement_of(then), refinement_of(otherwise))
    if then.type != otherwise.type:
        # One of them is converted: of its text nothing is known, but how many elements there are.
        known = Refinement(known.not_null, shortest=min(known.shortest, 1), longest=known.longest)
    return refined(Value(kind, UNKNOWN), known)


def _common_type(then: Value, otherwise: Value) -> Type | None:
    # A null takes the type of the other arm. Beside an arm that may still be of any type there is
    # nothing to agree on: what is chosen stays as it is, and if the choice is open, so is the type.
    if then.type is DYNAMIC and then.raw is None:
        return otherwise.type
    if otherwise.type is DYNAMIC and otherwise.raw is None:
        return then.type
    if then.type is DYNAMIC or otherwise.type is DYNAMIC:
        return DYNAMIC
    if then.type is otherwise.type:
        return then.type
    return unify([then.type, otherwise.type])


def _difference(then: Type, otherwise: Type) -> str:
    # One sentence on where two types that have nothing in common part.
    if isinstance(then, ObjectType) and isinstance(otherwise, ObjectType):
        return _object_difference(then, otherwise)
    if isinstance(then, TupleType) and isinstance(otherwise, TupleType):
        first, second = len(then.elements), len(otherwise.elements)
        if first != second:
            return f"The 'true' tuple has length {first}, but the 'false' tuple has length {second}."
        for position, (one, other) in enumerate(zip(then.elements, otherwise.elements, strict=True)):
            if unify([one, other]) is None:
                return f"Type mismatch for tuple element {position}: {_difference(one, other)}"
    return f"The 'true' value is {friendly_name(then)}, but the 'false' value is {friendly_name(otherwise)}."


def _object_difference(then: ObjectType, otherwise: ObjectType) -> str:
    """A sentence on where two types of objects part."""
    for name, kind in then.attributes:
        other = otherwise.attribute(name)
        if other is None:
            return f"The 'true' value includes object attribute \"{name}\", absent in the 'false' value."
        if unify([kind, other]) is None:
            return f'Type mismatch for object attribute "{name}": {_difference(kind, other)}'
    extra = next((n for n, _ in otherwise.attributes if then.attribute(n) is None), "")
    return f"The 'false' value includes object attribute \"{extra}\", absent in the 'true' value."


def condition_of(expression: Expression, run: ExpressionRun, whole: Expression) -> Value | None:
    """A condition as a bool, perhaps unknown; None after a diagnostic."""
    before = len(run.diagnostics)
    condition = run.value(expression)
    if len(run.diagnostics) > before and condition == DYNAMIC_UNKNOWN:
        return None
    if condition.raw is None:
        run.problem(
            "null-condition",
            "The condition value is null. Conditions must either be true or false.",
            expression,
            whole,
        )
        return None
    try:
        return convert(condition, BOOL)
    except ConversionProblem as problem:
        run.problem(
            "incorrect-condition-type",
            f"The condition expression must be of type bool: {problem.message}.",
            expression,
            whole,
        )
        return None
