"""Evaluation of expressions: `evaluate_expression` returns the value in a scope."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, ValueNote, build_error
from nexusform.language.evaluation_run import (
    EvaluationTrace,
    ExpressionRun,
    Handler,
    Requirement,
    Scope,
    TracingEvaluator,
    check_value_size,
    get_element,
)
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.schemas.value_types import NUMBER, STRING
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    NO_MARKS,
    NULL,
    UNKNOWN,
    Value,
    build_boolean,
    build_object,
    build_tuple,
    convert_decimal,
    normalize_number,
)

__all__ = [
    "EvaluationTrace",
    "Scope",
    "build_value_notes",
    "evaluate_expression",
    "trace_expression",
]


def evaluate_expression(
    expression: syntax.Expression, scope: Scope
) -> tuple[Value, list[Diagnostic]]:
    """Evaluate an expression.

    Return its value and all problems. After an error the value is unknown. Its type is DYNAMIC,
    except for expressions with a fixed type (a template).
    """
    run = ExpressionRun(scope, _HANDLERS)
    try:
        return run.evaluate(expression), run.diagnostics
    except MemoryError:
        # Raised by `run` at its limits.
        detail = (
            "The expression produces more elements or text than a configuration can reasonably "
            "need. "
            "Look for nested `for` expressions over large collections, and split it up."
        )
        run.diagnostics.append(build_error("expression-too-large", detail, expression.span))
    except RecursionError:
        detail = (
            "The expression or the value it makes is nested too deeply. Split it up with local "
            "values."
        )
        run.diagnostics.append(build_error("expression-too-deeply-nested", detail, expression.span))
    return DYNAMIC_UNKNOWN, run.diagnostics


def trace_expression(
    expression: syntax.Expression, scope: Scope
) -> tuple[EvaluationTrace, list[Diagnostic]]:
    """Evaluate an expression.

    Return its trace and all problems. Beyond a limit the trace has no parts.
    """
    run = TracingEvaluator(scope, _HANDLERS, expression)
    try:
        run.evaluate(expression)
    except (MemoryError, RecursionError):
        # It reports the limit.
        return EvaluationTrace(expression), evaluate_expression(expression, scope)[1]
    # The only part of the outermost trace is the expression itself.
    return run.current.parts[0], run.diagnostics


def build_value_notes(expression: syntax.Expression, scope: Scope) -> tuple[ValueNote, ...]:
    """Build the notes of an expression: the values of its references."""
    return ExpressionRun(scope, _HANDLERS).build_notes(expression)


def _evaluate_literal(node: syntax.Literal, run: ExpressionRun) -> Value:
    """Return the value of a literal.

    A number with too many digits is reported, and its value is unknown.
    """
    value = node.value
    if value.__class__ is bool:
        return build_boolean(value)
    if value is None:
        return NULL
    try:
        return _build_number(value)
    except OverflowError:
        detail = (
            "The number has too many digits: at most 4000 are allowed before or after the point."
        )
        return run.report_problem("number-too-large", detail, node)


@lru_cache(maxsize=1024)
def _build_number(number: Decimal | int) -> Value:
    return Value(
        NUMBER, convert_decimal(number) if isinstance(number, Decimal) else normalize_number(number)
    )


def _evaluate_index(node: syntax.Index, run: ExpressionRun) -> Value:
    """Evaluate `collection[key]`.

    Report a problem at the part at fault, the collection or the key.
    """
    previous_count = len(run.diagnostics)
    collection = run.evaluate(node.collection)
    key = run.evaluate(node.key)
    if run.has_failed_since(previous_count):
        return DYNAMIC_UNKNOWN
    outcome = get_element(collection, key)
    if isinstance(outcome, Problem):
        # Else the collection is null.
        node_at_fault = node.key if outcome.id == "invalid-index" else node.collection
        return run.report_problem(outcome.id, outcome.detail, node_at_fault, node)
    return outcome


def _evaluate_tuple(node: syntax.TupleCons, run: ExpressionRun) -> Value:
    run.count_work(len(node.items))
    return check_value_size(build_tuple(list(map(run.evaluate, node.items))))


def _evaluate_object(node: syntax.ObjectCons, run: ExpressionRun) -> Value:
    """Evaluate `{ key = value }`.

    The whole object is unknown if one of its keys is unknown or invalid.
    """
    run.count_work(len(node.items))
    items: dict[str, Value] = {}
    marks = NO_MARKS
    is_known = True
    for key, expression in node.items:
        name = _evaluate_object_key(key, run, node)
        value = run.evaluate(expression)
        if name is None or name.raw is UNKNOWN:  # None: reported
            is_known = False
            continue
        marks |= name.marks
        items[name.raw] = value
    if not is_known:
        return DYNAMIC_UNKNOWN.add_marks(marks)
    return check_value_size(build_object(items)).add_marks(marks)


def _evaluate_object_key(
    key: syntax.ObjectKey, run: ExpressionRun, enclosing: syntax.ObjectCons
) -> Value | None:
    """Return the name of an object's item as a string Value, possibly unknown.

    Report an invalid one, return None.
    """
    expression = key.expression
    if key.bare:
        assert isinstance(expression, syntax.Traversal)
        # A bare name is text, not a reference.
        return Value(STRING, expression.root.name)
    if key.is_ambiguous:
        detail = (
            "If this expression is intended to be a reference, wrap it in parentheses. If it's "
            "instead "
            "intended as a literal name containing periods, wrap it in quotes to create a string "
            "literal."
        )
        run.report_problem("ambiguous-attribute-key", detail, expression.span)
        return None
    previous_count = len(run.diagnostics)
    value = run.evaluate(expression)
    if run.has_failed_since(previous_count):
        # Reported during its evaluation.
        return None
    return run.convert_to_required(value, _OBJECT_KEY, expression, enclosing)


_OBJECT_KEY: Final = Requirement(
    STRING,
    null_id="null-value-as-key",
    null_detail="Can't use a null value as a key.",
    type_id="incorrect-key-type",
    lead="Can't use this value as a key:",
)


def _load_template() -> Handler:
    from nexusform.language.template_evaluation import evaluate_template

    return evaluate_template


def _load_template_if() -> Handler:
    from nexusform.language.template_evaluation import evaluate_template_if

    return evaluate_template_if


def _load_conditional() -> Handler:
    from nexusform.language.template_evaluation import evaluate_conditional

    return evaluate_conditional


def _load_template_for() -> Handler:
    from nexusform.language.for_expressions import evaluate_template_for

    return evaluate_template_for


def _load_splat() -> Handler:
    from nexusform.language.for_expressions import evaluate_splat

    return evaluate_splat


def _load_for_tuple() -> Handler:
    from nexusform.language.for_expressions import evaluate_for_tuple

    return evaluate_for_tuple


def _load_for_object() -> Handler:
    from nexusform.language.for_expressions import evaluate_for_object

    return evaluate_for_object


def _load_unary() -> Handler:
    from nexusform.language.operators import evaluate_unary

    return evaluate_unary


def _load_binary() -> Handler:
    from nexusform.language.operators import evaluate_binary

    return evaluate_binary


def _load_call() -> Handler:
    from nexusform.language.functions.function import call_function

    return call_function


class _Handlers(dict[type, Handler]):
    """Evaluating functions by type of node.

    Rare ones are imported for their first node.
    """

    def __missing__(self, node_type: type) -> Handler:
        """Import the handler of a rare class of expressions at its first use."""
        handler = _RARE_HANDLERS[node_type]()
        self[node_type] = handler
        return handler


# Functions that import the handlers of node types without use in small configurations.
_RARE_HANDLERS: Final[Mapping[type, Callable[[], Handler]]] = {
    syntax.Template: _load_template,
    syntax.TemplateIf: _load_template_if,
    syntax.Conditional: _load_conditional,
    syntax.TemplateFor: _load_template_for,
    syntax.Splat: _load_splat,
    syntax.ForTuple: _load_for_tuple,
    syntax.ForObject: _load_for_object,
    syntax.Unary: _load_unary,
    syntax.Binary: _load_binary,
    syntax.Call: _load_call,
}
_HANDLERS: Final = _Handlers(
    {
        syntax.Literal: _evaluate_literal,
        syntax.StringLiteral: lambda node, _run: Value(STRING, node.value),
        syntax.TemplateWrap: lambda node, run: run.evaluate(node.wrapped),
        syntax.Traversal: lambda node, run: run.traverse(node),
        syntax.RelativeTraversal: lambda node, run: run.apply_steps(
            run.evaluate(node.source), node.steps, node
        ),
        syntax.Index: _evaluate_index,
        syntax.TupleCons: _evaluate_tuple,
        syntax.ObjectCons: _evaluate_object,
        syntax.Parentheses: lambda node, run: run.evaluate(node.inner),
        # The current one.
        syntax.SplatElement: lambda _node, run: run.element,
    }
)
