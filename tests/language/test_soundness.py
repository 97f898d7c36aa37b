"""What is known of an expression before its unknown parts are known must stay true afterwards.

A case is an expression (an entry of tables/, an example of a function, or some of them joined by
operators) in which a few parts are variables. It is evaluated twice: with something of the
variables unknown, and with all of them known. NEXUSFORM_SOUNDNESS_CASES sets how many cases run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
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

_CASES = int(os.environ.get("NEXUSFORM_SOUNDNESS_CASES", "400"))
_TABLES = Path(__file__).parent / "tables"

# Other at every call.
_LEFT_OUT = frozenset({"bcrypt", "plantimestamp", "timestamp", "uuid"})


class _Surroundings:
    # One file, and a clock that nothing asks.
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


_FUNCTIONS = build_functions(_Surroundings(), _Surroundings(), "")
_ON_FILES = (
    *[f'{name}("t/a.txt")' for name in sorted(_FUNCTIONS) if name.startswith("file") and name != "fileset"],
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


class _Names:
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


def _evaluated(text: str, variables: Mapping[str, Value]) -> Value | None:
    expression, problems = parse_expression(SourceFile("case", text))
    if expression is None or has_errors(problems):
        return None
    value, problems = evaluate_expression(expression, _Names(variables))
    return None if has_errors(problems) else value


# --- cases -----------------------------------------------------------------------------------------


@cache
def _corpus() -> tuple[str, ...]:
    texts = [example.call for function in _FUNCTIONS.values() for example in function.examples]
    texts += _ON_FILES
    for table in sorted(_TABLES.glob("*.txt")):
        blocks = table.read_text(encoding="utf-8").split("\n\n")
        texts += [line[5:] for block in blocks for line in block.split("\n") if line.startswith("eval ")]
    called = re.compile(rf"\b(?:{'|'.join(_LEFT_OUT)})\(")
    short = [text for text in texts if len(text) < 400 and not called.search(text)]
    return tuple(dict.fromkeys(text for text in short if _evaluated(text, {}) is not None))


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in list_child_expressions(expression):
        yield from _parts(child)


@st.composite
def _with_variables(draw: Any) -> tuple[str, dict[str, Value]]:
    # An expression some parts of which are variables, and what these stand for.
    texts = [draw(st.sampled_from(_corpus()))]
    for _ in range(draw(st.integers(0, 3))):
        others = draw(st.tuples(*[st.sampled_from(_corpus())] * 2))
        inner = {"X": texts[-1], "Y": others[0], "Z": others[1]}
        joint = draw(st.sampled_from(_JOINTS))
        texts.append(re.sub(r"\b[XYZ]\b", lambda m, inner=inner: f"({inner[m[0]]})", joint))
    # What fails as a whole says nothing.
    text = next(text for text in reversed(texts) if _evaluated(text, {}) is not None)
    expression, _ = parse_expression(SourceFile("case", text))
    assert expression is not None
    parts = list(_parts(expression))
    encoded = text.encode()
    pieces: list[bytes] = []
    variables: dict[str, Value] = {}
    at = 0
    indices = draw(st.sets(st.integers(0, len(parts) - 1), min_size=1, max_size=3))
    for part in sorted([parts[i] for i in indices], key=lambda p: p.span.start.byte):
        start, end = part.span.start.byte, part.span.end.byte
        value = None if start < at else _evaluated(encoded[start:end].decode(), {})
        if value is not None:
            name = f"hidden{len(variables)}"
            variables[name] = value
            pieces += [encoded[at:start], name.encode()]
            at = end
    assume(variables)
    return b"".join([*pieces, encoded[at:]]).decode(), variables


def _hidden(draw: Any, value: Value, *, typed: bool) -> Value:
    # The value with something of it unknown; `typed` when its type must stay.
    inside = isinstance(value.raw, (tuple, dict)) and bool(value.raw)
    kinds = ["typed", "refined", *([] if typed else ["untyped"]), *(["part"] if inside else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "untyped":
        return Value(DYNAMIC, UNKNOWN, value.marks)
    if kind == "typed":
        return Value(value.type, UNKNOWN, value.marks)
    if kind == "refined":
        return add_refinement(Value(value.type, UNKNOWN, value.marks), _loosened(draw, get_refinement(value)))
    keys = list(value.raw) if isinstance(value.raw, dict) else list(range(len(value.raw)))
    key = draw(st.sampled_from(keys))
    fixed = typed or not isinstance(value.type, (TupleType, ObjectType))
    part = _hidden(draw, value.raw[key], typed=fixed)
    if isinstance(value.raw, dict):
        items = {**value.raw, key: part}
        return build_object(items) if isinstance(value.type, ObjectType) else Value(value.type, items)
    elements = [*value.raw[:key], part, *value.raw[key + 1 :]]
    if isinstance(value.type, SetType):
        return build_set(elements, value.type.element)
    return build_tuple(elements) if isinstance(value.type, TupleType) else Value(value.type, tuple(elements))


# --- where Terraform promises too much ---------------------------------------------------------------
# docs/language-differences.md quotes its answers; test_terraform_agreement.py asks it for them.

# Functions that bring values to one type: one of unknown type is taken to agree.
_TAKEN_TO_AGREE = frozenset(
    {"chunklist", "coalesce", "concat", "distinct", "matchkeys", "setintersection", "setproduct"}
    | {"setsubtract", "setunion", "tolist", "tomap", "toset"}
)


class _Part(NamedTuple):
    # What an expression came to inside another, and whether it was in error.
    expression: Expression
    value: Value
    failed: bool


class _Noting(ExpressionRun):
    """An evaluation that passes each value on beside those that it was made of."""

    __slots__ = ("parts",)

    def __init__(self, names: _Names) -> None:
        super().__init__(names, _HANDLERS)
        self.parts: list[_Part] = []

    def evaluate(self, expression: Expression) -> Value:
        if self._is_building_notes:
            return super().evaluate(expression)
        around, self.parts = self.parts, []
        before = len(self.diagnostics)
        value = self.judged(expression, super().evaluate(expression), before)
        around.append(_Part(expression, value, has_errors(self.diagnostics[before:])))
        self.parts = around
        return value

    def judged(self, expression: Expression, value: Value, before: int) -> Value:
        """What the value is taken to be; `before` it there were so many diagnostics."""
        raise NotImplementedError


class _Late(_Noting):
    """Notes what is in error once all is known, and what is never known: `format("%d", null)`."""

    def __init__(self, names: _Names) -> None:
        super().__init__(names)
        self.failing: set[int] = set()
        self.never_known: set[int] = set()

    def judged(self, expression: Expression, value: Value, before: int) -> Value:
        if has_errors(self.diagnostics[before:]):
            self.failing.add(id(expression))
        elif not value.is_wholly_known and all(part.value.is_wholly_known for part in self.parts):
            self.never_known.add(id(expression))
        return value


class _Early(_Noting):
    """Takes what Terraform says too early, and that alone, to be unknown."""

    def __init__(self, names: _Names, late: _Late) -> None:
        super().__init__(names)
        self.late = late

    def judged(self, expression: Expression, value: Value, before: int) -> Value:
        failed = has_errors(self.diagnostics[before:])
        rule = _TOO_EARLY.get(type(expression), _is_sound)
        too_early = rule(expression, _Case(self.parts, value, failed, self.late.failing))
        if not too_early and id(expression) not in self.late.never_known:
            return value
        del self.diagnostics[before:]
        return Value(STRING if isinstance(expression, TemplateFor) else DYNAMIC, UNKNOWN)


class _Case(NamedTuple):
    # An expression whose value is known too early, or not: what its parts and itself came to.
    parts: list[_Part]
    value: Value
    failed: bool
    failing_late: set[int]


def _is_sound(_node: Expression, _case: _Case) -> bool:
    return False


def _arm_of_any_type(node: Conditional, case: _Case) -> bool:
    # An arm that is in error is of no type; as long as it is not, the other is brought to its type.
    arms = [part for part in case.parts if part.expression in (node.then, node.otherwise)]
    return any(_is_open(arm.value) or id(arm.expression) in case.failing_late for arm in arms)


def _argument_of_any_type(node: Call, case: _Case) -> bool:
    return node.name in _TAKEN_TO_AGREE and any(_is_open(part.value) for part in case.parts)


def _searched_in_vain(node: Call, case: _Case) -> bool:
    # Nothing is taken to match as long as something that is searched for may be equal.
    return node.name == "matchkeys" and not case.parts[-1].value.is_wholly_known


def _attempt_fails_later(node: Call, case: _Case) -> bool:
    return (
        node.name in {"try", "can"}
        and case.value.is_wholly_known
        and id(case.parts[-1].expression) in case.failing_late
    )


def _set_may_shrink(_node: Expression, case: _Case) -> bool:
    # Unknown elements may turn out to be equal to others.
    source = case.parts[0].value
    return isinstance(source.type, SetType) and source.is_known and not source.is_wholly_known


def _null_has_no_element(_node: Splat, case: _Case) -> bool:
    # What is unknown and no list is one element, in which something is wrong; as null it is none.
    source = case.parts[0].value
    return case.failed and not source.is_known and not isinstance(source.type, (ListType, SetType, TupleType))


def _error_may_be_forgiven(node: Binary, case: _Case) -> bool:
    # An error on one side is told while the other, which may settle it, is unknown.
    sound = [part.value for part in case.parts if not part.failed]
    return node.operator in {"&&", "||"} and case.failed and any(not value.is_known for value in sound)


_TOO_EARLY: Final[dict[type, Callable[[Any, _Case], bool]]] = {
    Binary: _error_may_be_forgiven,
    Call: lambda node, case: any(
        rule(node, case) for rule in (_argument_of_any_type, _searched_in_vain, _attempt_fails_later)
    ),
    Conditional: _arm_of_any_type,
    ForObject: _set_may_shrink,
    ForTuple: _set_may_shrink,
    Splat: lambda node, case: _set_may_shrink(node, case) or _null_has_no_element(node, case),
    TemplateFor: _set_may_shrink,
}


def _is_open(value: Value) -> bool:
    # Whether it is, or holds, something that may be of any type.
    if value.raw is UNKNOWN:
        return has_dynamic(value.type)
    parts = value.raw.values() if isinstance(value.raw, dict) else value.raw
    return isinstance(value.raw, (dict, tuple)) and any(map(_is_open, parts))


def _loosened(draw: Any, exact: Refinement) -> Refinement:
    # Something that holds of a value, less than all of it.
    def bound(exact_bound: Any, by: int) -> Any:
        if exact_bound is None or draw(st.booleans()):
            return None
        return exact_bound + by * draw(st.integers(0, 2))

    return Refinement(
        exact.not_null,
        exact.prefix[: draw(st.integers(0, 4))],
        bound(exact.lowest, -1),
        bound(exact.highest, 1),
        max(0, exact.shortest - draw(st.integers(0, 2))),
        bound(exact.longest, 1),
    )


# --- what must hold --------------------------------------------------------------------------------


def _holds(before: Value, after: Value) -> bool:
    """Whether everything known of the first value is true of the second."""
    if not _type_holds(before.type, after.type):
        return False
    first, second = before.raw, after.raw
    if first is UNKNOWN:
        return _is_refined(after, get_refinement(before))
    if second is UNKNOWN or first is None or second is None:
        return first is second
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_holds(v, second[k]) for k, v in first.items())
    if isinstance(before.type, SetType):
        return _set_holds(before, after)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(_holds, first, second))
    return bool(first == second)


def _is_refined(value: Value, promised: Refinement) -> bool:
    # Whether a value is as an unknown one was said to be.
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


def _set_holds(before: Value, after: Value) -> bool:
    # Unknown elements may turn out to be equal to others.
    sure = {compute_order_key(v) for v in before.raw if v.is_wholly_known}
    keys = {compute_order_key(v) for v in after.raw}
    rest = [v for v in after.raw if compute_order_key(v) not in sure]
    unsure = [v for v in before.raw if not v.is_wholly_known]
    return sure <= keys and len(rest) <= len(unsure) and all(any(_holds(u, v) for u in unsure) for v in rest)


def _type_holds(before: Type, after: Type) -> bool:
    if before is DYNAMIC or before == after:
        return True
    if before.__class__ is not after.__class__ or isinstance(before, PrimitiveType):
        return False
    if isinstance(before, ObjectType) and isinstance(after, ObjectType):
        names = [[n for n, _ in of.attributes] for of in (before, after)]
        types = zip(before.attributes, after.attributes, strict=False)
        return names[0] == names[1] and all(_type_holds(b, a) for (_, b), (_, a) in types)
    if isinstance(before, TupleType) and isinstance(after, TupleType):
        same = len(before.elements) == len(after.elements)
        return same and all(map(_type_holds, before.elements, after.elements))
    assert isinstance(before, (ListType, SetType, MapType))
    assert isinstance(after, (ListType, SetType, MapType))
    return _type_holds(before.element, after.element)


@settings(
    max_examples=_CASES,
    derandomize=_CASES <= 400,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_what_is_known_early_stays_true(data: st.DataObject) -> None:
    text, variables = data.draw(_with_variables())
    expression, _ = parse_expression(SourceFile("case", text))
    assert expression is not None
    late = _Late(_Names(variables))
    after = late.evaluate(expression)
    assume(not has_errors(late.diagnostics))
    hidden = {name: _hidden(data.draw, value, typed=False) for name, value in variables.items()}
    early = _Early(_Names(hidden), late)
    before = early.evaluate(expression)
    assert not has_errors(early.diagnostics), "an error that does not stay"
    assert _holds(remove_all_marks(before)[0], remove_all_marks(after)[0])


@pytest.mark.parametrize("name", sorted(_FUNCTIONS.keys() - _LEFT_OUT))
def test_the_property_is_about_every_function(name: str) -> None:
    assert any(re.search(rf"\b{name}\(", text) for text in _corpus())
