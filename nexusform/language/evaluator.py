"""The tree to a value: `evaluate` gives an expression its value in a scope."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache, partial
from typing import Final

from nexusform.diagnostics import Diagnostic, Problem, ValueNote, did_you_mean, error, has_errors
from nexusform.exact_numbers import number_from_decimal
from nexusform.language.comprehension import for_object, for_tuple, splat, splat_element, template_for
from nexusform.language.conversion import convert, describe, unify
from nexusform.language.evaluation import (
    CALL_UNITS,
    ExpressionRun,
    Handler,
    Scope,
    Trace,
    Tracing,
    bounded,
)
from nexusform.language.functions.function import (
    Function,
    FunctionProblem,
    call,
    converted_argument,
    signature,
    without_secrets,
)
from nexusform.language.numbers import normalised
from nexusform.language.operators import (
    OperationProblem,
    apply_binary,
    apply_unary,
    index,
    operand_type,
    result_type,
)
from nexusform.language.syntax import (
    Binary,
    Call,
    Conditional,
    Expression,
    ForObject,
    ForTuple,
    Index,
    Literal,
    ObjectCons,
    ObjectKey,
    Parentheses,
    RelativeTraversal,
    Splat,
    SplatElement,
    StringLiteral,
    Template,
    TemplateFor,
    TemplateIf,
    TemplateWrap,
    Traversal,
    TupleCons,
    Unary,
)
from nexusform.language.templates import condition_of, template, template_if
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    ObjectType,
    SetType,
    TupleType,
    Type,
    friendly_name,
)
from nexusform.values import (
    DYNAMIC_UNKNOWN,
    FALSE,
    NO_MARKS,
    NOT_NULL,
    NULL,
    TRUE,
    UNKNOWN,
    Refinement,
    Value,
    either,
    object_value,
    refined,
    refinement_of,
    tuple_value,
)

__all__ = ["Scope", "Trace", "evaluate", "notes_on", "traced"]


def evaluate(expression: Expression, scope: Scope) -> tuple[Value, list[Diagnostic]]:
    """The value of an expression and everything that was wrong with it.

    After an error the value is unknown, of the open type unless the expression's own is plain.
    """
    run = ExpressionRun(scope, _HANDLERS)
    try:
        return run.value(expression), run.diagnostics
    except MemoryError:
        detail = (
            "The expression produces more elements or text than a configuration can reasonably need. "
            "Look for nested `for` expressions over large collections, and split it up."
        )
        run.diagnostics.append(error("expression-too-large", detail, expression.span))
    except RecursionError:
        detail = "The expression or the value it makes is nested too deeply. Split it up with local values."
        run.diagnostics.append(error("expression-too-deeply-nested", detail, expression.span))
    return DYNAMIC_UNKNOWN, run.diagnostics


def traced(expression: Expression, scope: Scope) -> tuple[Trace, list[Diagnostic]]:
    """What an expression and each of its parts came to, and everything that was wrong with it."""
    run = Tracing(scope, _HANDLERS, expression)
    try:
        run.value(expression)
    except (MemoryError, RecursionError):
        return Trace(expression), evaluate(expression, scope)[1]
    return run.at.parts[0], run.diagnostics


def notes_on(expression: Expression, scope: Scope) -> tuple[ValueNote, ...]:
    """What the references of an expression stand for, to be shown beside it."""
    return ExpressionRun(scope, _HANDLERS).notes(expression)


# --- literals ----------------------------------------------------------------------------------


def _literal(node: Literal, run: ExpressionRun) -> Value:
    value = node.value
    if value.__class__ is bool:
        return TRUE if value else FALSE
    if value is None:
        return NULL
    try:
        return _number(value)
    except OverflowError:
        detail = "The number has too many digits: at most 4000 may stand before or after the point."
        return run.problem("number-too-large", detail, node)


@lru_cache(maxsize=1024)
def _number(number: Decimal | int) -> Value:
    return Value(NUMBER, number_from_decimal(number) if isinstance(number, Decimal) else normalised(number))


def _string_literal(node: StringLiteral, _run: ExpressionRun) -> Value:
    return Value(STRING, node.value)


def _template_wrap(node: TemplateWrap, run: ExpressionRun) -> Value:
    return run.value(node.wrapped)


def _parentheses(node: Parentheses, run: ExpressionRun) -> Value:
    return run.value(node.inner)


# --- references --------------------------------------------------------------------------------


def _traversal(node: Traversal, run: ExpressionRun) -> Value:
    return run.traverse(node)


def _relative_traversal(node: RelativeTraversal, run: ExpressionRun) -> Value:
    return run.follow(run.value(node.source), node.steps, node)


def _index(node: Index, run: ExpressionRun) -> Value:
    before = len(run.diagnostics)
    collection, key = run.value(node.collection), run.value(node.key)
    if len(run.diagnostics) > before and has_errors(run.diagnostics[before:]):
        return DYNAMIC_UNKNOWN
    outcome = index(collection, key)
    if isinstance(outcome, Problem):
        at = node.key if outcome.id == "invalid-index" else node.collection
        return run.problem(outcome.id, outcome.detail, at, node)
    return outcome


# --- operators ---------------------------------------------------------------------------------


def _unary(node: Unary, run: ExpressionRun) -> Value:
    before = len(run.diagnostics)
    operand = run.value(node.operand)
    required = operand_type(node.operator) or DYNAMIC
    failed = Value(required, UNKNOWN, operand.marks)
    if len(run.diagnostics) > before and has_errors(run.diagnostics[before:]):
        return failed
    try:
        return apply_unary(node.operator, convert(operand, required))
    except ConversionProblem as problem:
        detail = f"Unsuitable value for unary operand: {describe(problem)}."
        run.problem("invalid-operand", detail, node.operand, node)
    except OperationProblem as problem:
        run.problem(problem.kind, f"Error during operation: {problem.message}.", node)
    return failed


def _operand(
    node: Binary, expression: Expression, side: str, run: ExpressionRun
) -> tuple[Value, list[Diagnostic]]:
    # The value as the operator takes it and the errors in it. That it is of the wrong type is told at once.
    value, problems = run.attempt(expression)
    required = operand_type(node.operator)
    if required is None or value.type is required:
        return value, problems
    try:
        return convert(value, required), problems
    except ConversionProblem as problem:
        detail = f"Unsuitable value for {side} operand: {describe(problem)}."
        run.problem("invalid-operand", detail, expression, node)
        return Value(required, UNKNOWN, value.marks), problems


def _binary(node: Binary, run: ExpressionRun) -> Value:
    before = len(run.diagnostics)
    left, left_problems = _operand(node, node.left, "left", run)
    right, right_problems = _operand(node, node.right, "right", run)
    marks = left.marks | right.marks
    failed = len(run.diagnostics) > before
    decisive = _DECISIVE.get(node.operator)
    if decisive is not None and not failed:
        left_failed, right_failed = has_errors(left_problems), has_errors(right_problems)
        if left.raw is decisive and not left_failed:
            run.diagnostics.extend(left_problems)
            return left.with_marks(marks)
        if right.raw is decisive and not right_failed:
            # The right side settles it, so what is wrong or unknown on the left does not matter.
            run.diagnostics.extend(right_problems)
            return right.with_marks(marks)
        if not left_failed and _may_be_settled(left, right, right_failed=right_failed):
            return _UNDECIDED.with_marks(marks)
    problems = left_problems + right_problems
    run.diagnostics.extend(problems)
    if failed or has_errors(problems):
        return Value(result_type(node.operator), UNKNOWN, marks)
    try:
        return apply_binary(node.operator, left, right)
    except OperationProblem as problem:
        run.problem(problem.kind, f"Error during operation: {problem.message}.", node)
        return Value(result_type(node.operator), UNKNOWN, marks)


_DECISIVE: Final = {"&&": False, "||": True}
_UNDECIDED: Final = Value(BOOL, UNKNOWN, refinement=NOT_NULL)


def _may_be_settled(left: Value, right: Value, *, right_failed: bool) -> bool:
    # Whether one side, once it is known, may make up for what the other is: the left one for an error or
    # a null, the right one for a null. An error on the left is told, as in HCL.
    if left.raw is UNKNOWN:
        return right_failed or right.raw is None
    return left.raw is None and right.raw is UNKNOWN and not right_failed


# --- conditionals ------------------------------------------------------------------------------


def _conditional(node: Conditional, run: ExpressionRun) -> Value:
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
        if then.raw is None and otherwise.raw is None:
            return Value(kind, None, marks)
        known = either(refinement_of(then), refinement_of(otherwise))
        if then.type != otherwise.type:
            # One of them is converted: of its text nothing is known, but how many elements there are.
            known = Refinement(known.not_null, shortest=min(known.shortest, 1), longest=known.longest)
        return refined(Value(kind, UNKNOWN, marks), known)
    chosen, problems, word = (
        (then, then_problems, "true") if condition.raw else (otherwise, otherwise_problems, "false")
    )
    run.diagnostics.extend(problems)
    try:
        return convert(chosen, kind).with_marks(marks)
    except ConversionProblem as problem:
        part = node.then if condition.raw else node.otherwise
        detail = f"The {word} result value has the wrong type: {describe(problem)}."
        return run.problem("inconsistent-conditional-result-types", detail, part, node)


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
    for name, kind in then.attributes:
        other = otherwise.attribute(name)
        if other is None:
            return f"The 'true' value includes object attribute \"{name}\", absent in the 'false' value."
        if unify([kind, other]) is None:
            return f'Type mismatch for object attribute "{name}": {_difference(kind, other)}'
    extra = next((n for n, _ in otherwise.attributes if then.attribute(n) is None), "")
    return f"The 'false' value includes object attribute \"{extra}\", absent in the 'true' value."


# --- constructors ------------------------------------------------------------------------------


def _tuple_cons(node: TupleCons, run: ExpressionRun) -> Value:
    run.charge(len(node.items))
    return bounded(tuple_value([run.value(item) for item in node.items]))


def _object_cons(node: ObjectCons, run: ExpressionRun) -> Value:
    run.charge(len(node.items))
    items: dict[str, Value] = {}
    marks = NO_MARKS
    known = True
    for key, expression in node.items:
        name = _key_text(key, run, node)
        value = run.value(expression)
        if name is None or name.raw is UNKNOWN:
            known = False
            continue
        marks |= name.marks
        items[name.raw] = value
    if not known:
        return DYNAMIC_UNKNOWN.with_marks(marks)
    return bounded(object_value(items)).with_marks(marks)


def _key_text(key: ObjectKey, run: ExpressionRun, whole: ObjectCons) -> Value | None:
    # The name of an item as a string Value; None after a diagnostic.
    expression = key.expression
    if key.bare and isinstance(expression, Traversal) and not expression.steps:
        return Value(STRING, expression.root.name)
    if key.is_ambiguous:
        detail = (
            "If this expression is intended to be a reference, wrap it in parentheses. If it's instead "
            "intended as a literal name containing periods, wrap it in quotes to create a string literal."
        )
        run.problem("ambiguous-attribute-key", detail, expression.span)
        return None
    if isinstance(expression, Literal) and expression.value is None:
        return Value(STRING, "null")
    before = len(run.diagnostics)
    value = run.value(expression)
    if len(run.diagnostics) > before and has_errors(run.diagnostics[before:]):
        return None
    if value.raw is None:
        run.problem("null-value-as-key", "Can't use a null value as a key.", expression, whole)
        return None
    try:
        return convert(value, STRING)
    except ConversionProblem as problem:
        detail = f"Can't use this value as a key: {describe(problem)}."
        run.problem("incorrect-key-type", detail, expression, whole)
        return None


# --- calls -------------------------------------------------------------------------------------


def _call(node: Call, run: ExpressionRun) -> Value:
    # `core::` names the functions of the language, as distinct from those of a provider.
    function = run.scope.functions.get(node.name.removeprefix("core::"))
    if function is None:
        hint = did_you_mean(node.name, run.scope.functions)
        detail = f'There is no function named "{node.name}".{hint}'
        return run.problem("call-to-unknown-function", detail, node.name_span, node)
    if function.lazy:
        return _call_lazily(node, function, run)
    before = len(run.diagnostics)
    places: list[Expression] = list(node.arguments)
    arguments = [run.value(a) for a in node.arguments]
    marks = NO_MARKS
    if node.expand:
        expanded = _expanded(node, function, arguments[-1], run)
        if expanded is None or expanded.raw is UNKNOWN:
            return DYNAMIC_UNKNOWN.with_marks(arguments[-1].marks)
        marks = expanded.marks
        arguments[-1:] = expanded.raw
        places[-1:] = [node.arguments[-1]] * len(expanded.raw)
    if not _count_fits(node, function, len(arguments), run):
        return DYNAMIC_UNKNOWN
    if len(run.diagnostics) > before and has_errors(run.diagnostics[before:]):
        return DYNAMIC_UNKNOWN
    return _invoke(node, function, arguments, places, run).with_marks(marks)


def _expanded(node: Call, function: Function, last: Value, run: ExpressionRun) -> Value | None:
    if last.raw is None:
        detail = "The expanding argument (indicated by ...) must not be null."
    elif last.type is DYNAMIC or isinstance(last.type, (ListType, SetType, TupleType)):
        return last
    else:
        detail = "The expanding argument (indicated by ...) must be of a tuple, list, or set type."
    at = node.arguments[-1]
    run.problem("invalid-expanding-argument-value", detail, at, node, function=signature(function))
    return None


def _count_fits(node: Call, function: Function, count: int, run: ExpressionRun) -> bool:
    expected = len(function.parameters)
    if count < expected:
        at_least = "at least " if function.variadic else ""
        missing = function.parameters[count].name
        detail = (
            f'Function "{node.name}" expects {at_least}{expected} argument(s). Missing value for "{missing}".'
        )
        run.problem("not-enough-function-arguments", detail, node, function=signature(function))
        return False
    if count > expected and function.variadic is None:
        detail = f'Function "{node.name}" expects only {expected} argument(s).'
        position = min(expected, len(node.arguments) - 1)
        run.problem(
            "too-many-function-arguments",
            detail,
            node.arguments[position],
            node,
            function=signature(function),
        )
        return False
    return True


def _invoke(
    node: Call, function: Function, arguments: list[Value], places: list[Expression], run: ExpressionRun
) -> Value:
    try:
        converted = [converted_argument(function, i, a) for i, a in enumerate(arguments)]
        result = call(function, converted)
    except FunctionProblem as caught:
        problem = without_secrets(caught, arguments)
        if problem.argument is not None and problem.argument < len(places):
            name = function.parameter(problem.argument).name
            detail = f'Invalid value for "{name}" parameter: {problem.message}.'
            at = places[problem.argument]
            return run.problem("invalid-function-argument", detail, at, node, function=signature(function))
        detail = f'Call to function "{node.name}" failed: {problem.message}.'
        return run.problem("error-in-function-call", detail, node, function=signature(function))
    run.charge(CALL_UNITS)
    run.charge_result(result)
    return result


def _call_lazily(node: Call, function: Function, run: ExpressionRun) -> Value:
    thunks = [partial(run.attempt, e) for e in node.arguments]
    try:
        return function.body(*thunks)
    except FunctionProblem as problem:
        detail = f'Call to function "{node.name}" failed: {problem.message}.'
        return run.problem("error-in-function-call", detail, node, function=signature(function))


_HANDLERS: Final[Mapping[type, Handler]] = {
    Literal: _literal,
    StringLiteral: _string_literal,
    Template: template,
    TemplateWrap: _template_wrap,
    TemplateIf: template_if,
    TemplateFor: template_for,
    Traversal: _traversal,
    RelativeTraversal: _relative_traversal,
    Index: _index,
    Splat: splat,
    SplatElement: splat_element,
    Unary: _unary,
    Binary: _binary,
    Conditional: _conditional,
    Call: _call,
    TupleCons: _tuple_cons,
    ObjectCons: _object_cons,
    ForTuple: for_tuple,
    ForObject: for_object,
    Parentheses: _parentheses,
}
