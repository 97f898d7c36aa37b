"""Soundness tests: known facts of an expression with unknown parts stay true.

They must stay true once all parts are known. A case is an expression (an entry of tables/, an
example of a function, or some of them joined by operators) with variables as some of its parts. It
is evaluated twice: with some facts of the variables unknown, and with all of them known.
NEXUSFORM_SOUNDNESS_CASES sets the number of cases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.language.evaluation_run import ExpressionRun, FileProblem
from nexusform.language.evaluator import _HANDLERS, evaluate_expression
from nexusform.language.functions.registry import build_functions
from nexusform.language.parser import parse_expression
from nexusform.language.references import list_child_expressions
from nexusform.language.syntax.syntax_nodes import (
    Binary,
    Call,
    Conditional,
    Expression,
    ForObject,
    ForTuple,
    Splat,
    TemplateFor,
    Traversal,
)
from nexusform.schemas.value_types import (
    DYNAMIC,
    STRING,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
    has_dynamic,
)
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    UNKNOWN,
    Refinement,
    Value,
    add_refinement,
    build_object,
    build_set,
    build_tuple,
    compute_order_key,
    get_refinement,
    remove_all_marks,
)
from tests.kill_points import scale_count

_CASES = int(os.environ.get("NEXUSFORM_SOUNDNESS_CASES") or scale_count(1600))
_TABLES = Path(__file__).parent / "tables"

# They return a different value on every call.
_LEFT_OUT = frozenset({"bcrypt", "plantimestamp", "timestamp", "uuid"})


class _FakeContext:
    # One file, and an unused clock.
    def read(self, path: str) -> bytes:
        if path != "t/a.txt":
            raise FileProblem(f"There is no file {path}.")
        return b"a ${name} b"

    def is_file(self, path: str) -> bool:
        return path == "t/a.txt"

    def find_files(self, base: str, pattern: str) -> list[str]:
        return ["a.txt"] if (base, pattern) == ("t", "*.txt") else []

    def resolve_path(self, path: str) -> str:
        return f"/{path}"

    def expand_home(self, path: str) -> str:
        return path

    def read_time(self) -> datetime:
        raise AssertionError

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


_FUNCTIONS = build_functions(_FakeContext(), _FakeContext(), "")
_ON_FILES = (
    *[
        f'{name}("t/a.txt")'
        for name in sorted(_FUNCTIONS)
        if name.startswith("file") and name != "fileset"
    ],
    'abspath("t/a.txt")',
    'fileset("t", "*.txt")',
    'pathexpand("t/a.txt")',
    'templatefile("t/a.txt", { name = "x" })',
)

_JOINTS = (
    "X ? Y : Z",
    "true ? X : Y",
    "false ? X : Y",
    "X == Y",
    "X != Y",
    "X < Y",
    "X <= Y",
    "X > Y",
    "X >= Y",
    "X + Y",
    "X - Y",
    "X * Y",
    "X / Y",
    "X % Y",
    "-X",
    "!X",
    "X && Y",
    "X || Y",
    "X[Y]",
    "X[0]",
    "X.a",
    "X[*]",
    "X[*].a",
    "X.*.a",
    "[X]",
    "[X, Y]",
    "{ a = X, b = Y }",
    "{ (X) = Y }",
    '"${X}"',
    '"a-${X}-b"',
    '"%{ if X }${Y}%{ else }${Z}%{ endif }"',
    '"%{ for x in X }${x}%{ endfor }"',
    "[for x in X : x]",
    "[for k, v in X : k if v != null]",
    "{ for k, v in X : k => v }",
    "{ for k, v in X : v => k... }",
    "[for x in X : Y]",
    "length(X)",
    "length(X) > 0 ? Y : Z",
    "X == null",
    "try(X, Y)",
    "can(X)",
    "tolist(X)",
    "toset(X)",
    "tomap(X)",
    "tostring(X)",
    "tonumber(X)",
    "tobool(X)",
    "type(X)",
    "keys(X)",
    "values(X)",
    "concat(X, Y)",
    "merge(X, Y)",
    "flatten(X)",
    "contains(X, Y)",
    "coalesce(X, Y)",
    "lookup(X, Y, Z)",
    "element(X, 0)",
    "jsonencode(X)",
    "join(Y, X)",
    'format("%v", X)',
    'formatlist("%v-%v", X, Y)',
    "setunion(X, Y)",
    "setintersection(X, Y)",
    "setsubtract(X, Y)",
    "setproduct(X, Y)",
    "zipmap(X, Y)",
    "one(X)",
    "reverse(X)",
    "distinct(X)",
    "sort(X)",
    "slice(X, 0, 1)",
    "max(X...)",
    "concat(X...)",
    "alltrue(X)",
)


class _VariableScope:
    functions = _FUNCTIONS

    def __init__(self, variables: Mapping[str, Value]) -> None:
        self.variables = variables

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        value = self.variables.get(traversal.root.name)
        if value is not None:
            return value, 0, []
        return (
            DYNAMIC_UNKNOWN,
            len(traversal.steps),
            [build_error("reference-to-undeclared-local-value", "", traversal.span)],
        )


def _evaluate(text: str, variables: Mapping[str, Value]) -> Value | None:
    expression, problems = parse_expression(SourceFile("case", text))
    if expression is None or has_errors(problems):
        return None
    value, problems = evaluate_expression(expression, _VariableScope(variables))
    return None if has_errors(problems) else value


# --- cases
# -----------------------------------------------------------------------------------------


@cache
def _build_corpus() -> tuple[str, ...]:
    texts = [example.call for function in _FUNCTIONS.values() for example in function.examples]
    texts += _ON_FILES
    for table in sorted(_TABLES.glob("*.txt")):
        blocks = table.read_text(encoding="utf-8").split("\n\n")
        texts += [
            line[5:] for block in blocks for line in block.split("\n") if line.startswith("eval ")
        ]
    called = re.compile(rf"\b(?:{'|'.join(_LEFT_OUT)})\(")
    short = [text for text in texts if len(text) < 400 and not called.search(text)]
    return tuple(dict.fromkeys(text for text in short if _evaluate(text, {}) is not None))


def _list_nested_expressions(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in list_child_expressions(expression):
        yield from _list_nested_expressions(child)


@st.composite
def _expressions_with_variables(draw: Any) -> tuple[str, dict[str, Value]]:
    # An expression with variables as some of its parts, and the values of the variables.
    texts = [draw(st.sampled_from(_build_corpus()))]
    for _ in range(draw(st.integers(0, 3))):
        others = draw(st.tuples(*[st.sampled_from(_build_corpus())] * 2))
        inner = {"X": texts[-1], "Y": others[0], "Z": others[1]}
        joint = draw(st.sampled_from(_JOINTS))
        texts.append(re.sub(r"\b[XYZ]\b", lambda m, inner=inner: f"({inner[m[0]]})", joint))
    # An expression with an error has no facts to check.
    text = next(text for text in reversed(texts) if _evaluate(text, {}) is not None)
    expression, _ = parse_expression(SourceFile("case", text))
    assert expression is not None
    parts = list(_list_nested_expressions(expression))
    encoded = text.encode()
    pieces: list[bytes] = []
    variables: dict[str, Value] = {}
    at = 0
    indices = draw(st.sets(st.integers(0, len(parts) - 1), min_size=1, max_size=3))
    for part in sorted([parts[i] for i in indices], key=lambda p: p.span.start.byte):
        start = part.span.start.byte
        end = part.span.end.byte
        value = None if start < at else _evaluate(encoded[start:end].decode(), {})
        if value is not None:
            name = f"hidden{len(variables)}"
            variables[name] = value
            pieces += [encoded[at:start], name.encode()]
            at = end
    assume(variables)
    return b"".join([*pieces, encoded[at:]]).decode(), variables


def _hide_facts(draw: Any, value: Value, *, typed: bool) -> Value:
    # Return the value with some of its facts unknown; `typed` keeps its type.
    inside = isinstance(value.raw, (tuple, dict)) and bool(value.raw)
    kinds = ["typed", "refined", *([] if typed else ["untyped"]), *(["part"] if inside else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "untyped":
        return Value(DYNAMIC, UNKNOWN, value.marks)
    if kind == "typed":
        return Value(value.type, UNKNOWN, value.marks)
    if kind == "refined":
        return add_refinement(
            Value(value.type, UNKNOWN, value.marks), _loosen_refinement(draw, get_refinement(value))
        )
    keys = list(value.raw) if isinstance(value.raw, dict) else list(range(len(value.raw)))
    key = draw(st.sampled_from(keys))
    fixed = typed or not isinstance(value.type, (TupleType, ObjectType))
    part = _hide_facts(draw, value.raw[key], typed=fixed)
    if isinstance(value.raw, dict):
        items = {**value.raw, key: part}
        return (
            build_object(items) if isinstance(value.type, ObjectType) else Value(value.type, items)
        )
    elements = [*value.raw[:key], part, *value.raw[key + 1 :]]
    if isinstance(value.type, SetType):
        return build_set(elements, value.type.element)
    return (
        build_tuple(elements)
        if isinstance(value.type, TupleType)
        else Value(value.type, tuple(elements))
    )


# --- where Terraform promises too much
# --------------------------------------------------------------- docs/language-differences.md and
# tables/early_values.md quote its answers for test_terraform_agreement.py.

# Conversions to a common type: an argument of unknown type is assumed to have it.
_TAKEN_TO_AGREE = frozenset(
    {"chunklist", "coalesce", "concat", "distinct", "matchkeys", "setintersection", "setproduct"}
    | {"setsubtract", "setunion", "tolist", "tomap", "toset"}
)


class _PartResult(NamedTuple):
    # Result of an expression inside another one, with or without an error.
    expression: Expression
    value: Value
    failed: bool


class _RecordingRun(ExpressionRun):
    """Evaluation with a check of each value against the values of its parts."""

    __slots__ = ("parts",)

    def __init__(self, names: _VariableScope) -> None:
        super().__init__(names, _HANDLERS)
        self.parts: list[_PartResult] = []

    def evaluate(self, expression: Expression) -> Value:
        if self._is_building_notes:
            return super().evaluate(expression)
        around = self.parts
        self.parts = []
        before = len(self.diagnostics)
        value = self.judged(expression, super().evaluate(expression), before)
        around.append(_PartResult(expression, value, has_errors(self.diagnostics[before:])))
        self.parts = around
        return value

    def judged(self, expression: Expression, value: Value, before: int) -> Value:
        """Return the value to use for an expression.

        `before` is the number of earlier diagnostics.
        """
        raise NotImplementedError


class _KnownRun(_RecordingRun):
    """Record errors once all values are known, and expressions never known.

    An example of the latter is `timestamp()`.
    """

    def __init__(self, names: _VariableScope) -> None:
        super().__init__(names)
        self.failing: set[int] = set()
        self.never_known: set[int] = set()

    def judged(self, expression: Expression, value: Value, before: int) -> Value:
        if has_errors(self.diagnostics[before:]):
            self.failing.add(id(expression))
        elif not value.is_wholly_known and all(part.value.is_wholly_known for part in self.parts):
            self.never_known.add(id(expression))
        return value


class _UnknownRun(_RecordingRun):
    """Treat values known too early in Terraform, and only those, as unknown."""

    def __init__(self, names: _VariableScope, late: _KnownRun) -> None:
        super().__init__(names)
        self.late = late

    def judged(self, expression: Expression, value: Value, before: int) -> Value:
        failed = has_errors(self.diagnostics[before:])
        rule = _TOO_EARLY.get(type(expression), _is_never_early)
        too_early = rule(expression, _EarlyCase(self.parts, value, failed, self.late.failing))
        if not too_early and id(expression) not in self.late.never_known:
            return value
        del self.diagnostics[before:]
        return Value(STRING if isinstance(expression, TemplateFor) else DYNAMIC, UNKNOWN)


class _EarlyCase(NamedTuple):
    # Expression with a value possibly known too early: the results of its parts and its own result.
    parts: list[_PartResult]
    value: Value
    failed: bool
    failing_late: set[int]


def _is_never_early(_node: Expression, _case: _EarlyCase) -> bool:
    return False


def _has_arm_of_unknown_type(node: Conditional, case: _EarlyCase) -> bool:
    # An arm with an error has no type; without the error, the other arm is converted to its type.
    arms = [part for part in case.parts if part.expression in (node.then, node.otherwise)]
    return any(_has_open_type(arm.value) or id(arm.expression) in case.failing_late for arm in arms)


def _has_argument_of_unknown_type(node: Call, case: _EarlyCase) -> bool:
    return node.name in _TAKEN_TO_AGREE and any(_has_open_type(part.value) for part in case.parts)


def _has_unknown_search_value(node: Call, case: _EarlyCase) -> bool:
    # The result is empty as long as an unknown search value may still be equal.
    return node.name == "matchkeys" and not case.parts[-1].value.is_wholly_known


def _has_attempt_failing_later(node: Call, case: _EarlyCase) -> bool:
    return (
        node.name in {"try", "can"}
        and case.value.is_wholly_known
        and id(case.parts[-1].expression) in case.failing_late
    )


def _set_may_shrink(_node: Expression, case: _EarlyCase) -> bool:
    # Unknown elements may turn out to be equal to others.
    source = case.parts[0].value
    return isinstance(source.type, SetType) and source.is_known and not source.is_wholly_known


def _is_possibly_null_splat(_node: Splat, case: _EarlyCase) -> bool:
    # An unknown value other than a list counts as one element, here with an error; as null it
    # has no elements.
    source = case.parts[0].value
    return (
        case.failed
        and not source.is_known
        and not isinstance(source.type, (ListType, SetType, TupleType))
    )


def _has_early_error(node: Binary, case: _EarlyCase) -> bool:
    # An error on one side is reported while the other side, possibly decisive, is unknown.
    sound = [part.value for part in case.parts if not part.failed]
    return (
        node.operator in {"&&", "||"} and case.failed and any(not value.is_known for value in sound)
    )


_TOO_EARLY: Final[dict[type, Callable[[Any, _EarlyCase], bool]]] = {
    Binary: _has_early_error,
    Call: lambda node, case: any(
        rule(node, case)
        for rule in (
            _has_argument_of_unknown_type,
            _has_unknown_search_value,
            _has_attempt_failing_later,
        )
    ),
    Conditional: _has_arm_of_unknown_type,
    ForObject: _set_may_shrink,
    ForTuple: _set_may_shrink,
    Splat: lambda node, case: _set_may_shrink(node, case) or _is_possibly_null_splat(node, case),
    TemplateFor: _set_may_shrink,
}


def _has_open_type(value: Value) -> bool:
    # Return whether the value or a part of it may still have any type.
    if value.raw is UNKNOWN:
        return has_dynamic(value.type)
    parts = value.raw.values() if isinstance(value.raw, dict) else value.raw
    return isinstance(value.raw, (dict, tuple)) and any(map(_has_open_type, parts))


def _loosen_refinement(draw: Any, exact: Refinement) -> Refinement:
    # Return a weaker refinement, still true of the value.
    def loosen_bound(exact_bound: Any, by: int) -> Any:
        if exact_bound is None or draw(st.booleans()):
            return None
        return exact_bound + by * draw(st.integers(0, 2))

    return Refinement(
        exact.not_null,
        exact.prefix[: draw(st.integers(0, 4))],
        loosen_bound(exact.lowest, -1),
        loosen_bound(exact.highest, 1),
        max(0, exact.shortest - draw(st.integers(0, 2))),
        loosen_bound(exact.longest, 1),
    )


# --- invariants
# ------------------------------------------------------------------------------------


def _is_consistent(before: Value, after: Value) -> bool:
    """Return whether everything known of the first value is true of the second."""
    if not _is_consistent_type(before.type, after.type):
        return False
    first = before.raw
    second = after.raw
    if first is UNKNOWN:
        return _meets_refinement(after, get_refinement(before))
    if second is UNKNOWN or first is None or second is None:
        return first is second
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            _is_consistent(v, second[k]) for k, v in first.items()
        )
    if isinstance(before.type, SetType):
        return _is_consistent_set(before, after)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(_is_consistent, first, second))
    return bool(first == second)


def _meets_refinement(value: Value, promised: Refinement) -> bool:
    # Return whether a known value meets the refinement of the earlier unknown value.
    known = get_refinement(value)
    if value.raw is UNKNOWN or value.raw is None:
        return not promised.not_null or value.raw is UNKNOWN
    return (
        known.prefix.startswith(promised.prefix)
        and (promised.lowest is None or known.lowest >= promised.lowest)
        and (promised.highest is None or known.highest <= promised.highest)
        and promised.shortest <= known.shortest
        and (promised.longest is None or (known.longest or 0) <= promised.longest)
    )


def _is_consistent_set(before: Value, after: Value) -> bool:
    # Unknown elements may turn out to be equal to others.
    sure = {compute_order_key(v) for v in before.raw if v.is_wholly_known}
    keys = {compute_order_key(v) for v in after.raw}
    rest = [v for v in after.raw if compute_order_key(v) not in sure]
    unsure = [v for v in before.raw if not v.is_wholly_known]
    return (
        sure <= keys
        and len(rest) <= len(unsure)
        and all(any(_is_consistent(u, v) for u in unsure) for v in rest)
    )


def _is_consistent_type(before: Type, after: Type) -> bool:
    if before is DYNAMIC or before == after:
        return True
    if before.__class__ is not after.__class__ or isinstance(before, PrimitiveType):
        return False
    if isinstance(before, ObjectType) and isinstance(after, ObjectType):
        names = [[n for n, _ in of.attributes] for of in (before, after)]
        types = zip(before.attributes, after.attributes, strict=False)
        return names[0] == names[1] and all(_is_consistent_type(b, a) for (_, b), (_, a) in types)
    if isinstance(before, TupleType) and isinstance(after, TupleType):
        same = len(before.elements) == len(after.elements)
        return same and all(map(_is_consistent_type, before.elements, after.elements))
    assert isinstance(before, (ListType, SetType, MapType))
    assert isinstance(after, (ListType, SetType, MapType))
    return _is_consistent_type(before.element, after.element)


@settings(
    max_examples=_CASES,
    derandomize=_CASES <= 400,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_facts_known_early_stay_true(data: st.DataObject) -> None:
    text, variables = data.draw(_expressions_with_variables())
    expression, _ = parse_expression(SourceFile("case", text))
    assert expression is not None
    late = _KnownRun(_VariableScope(variables))
    after = late.evaluate(expression)
    assume(not has_errors(late.diagnostics))
    hidden = {name: _hide_facts(data.draw, value, typed=False) for name, value in variables.items()}
    early = _UnknownRun(_VariableScope(hidden), late)
    before = early.evaluate(expression)
    assert not has_errors(early.diagnostics), "an error that does not stay"
    assert _is_consistent(remove_all_marks(before)[0], remove_all_marks(after)[0])


def test_corpus_covers_every_function() -> None:
    corpus = "\n".join(_build_corpus())
    names = sorted(_FUNCTIONS.keys() - _LEFT_OUT)
    assert [name for name in names if not re.search(rf"\b{name}\(", corpus)] == []
