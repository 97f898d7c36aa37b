"""`for` and splat expressions: one expression applied to every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nexusform.diagnostics import has_errors
from nexusform.language.conversion import convert, describe
from nexusform.language.evaluation import UNKNOWN_STRING, ExpressionRun, bounded
from nexusform.language.syntax.nodes import Expression, ForObject, ForTuple, Splat, SplatElement, TemplateFor
from nexusform.language.templates import joined_text
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    friendly_name,
    has_dynamic,
)
from nexusform.values import (
    DYNAMIC_UNKNOWN,
    EMPTY_TUPLE,
    NO_MARKS,
    NOT_NULL,
    UNKNOWN,
    Refinement,
    Value,
    object_value,
    refined,
    refinement_of,
    tuple_value,
)

_Pairs = Iterator[tuple[Value, Value]]


def _collection(node: ForTuple | ForObject | TemplateFor, run: ExpressionRun) -> Value | None:
    # The collection, its own marks still on it; None after a diagnostic.
    collection = run.value(node.collection)
    if collection.raw is None:
        run.problem(
            "iteration-over-null-value",
            "A null value cannot be used as the collection in a 'for' expression.",
            node.collection,
            node,
        )
        return None
    if collection.type is not DYNAMIC and collection.type.__class__ not in _ITERABLE:
        run.problem(
            "iteration-over-non-iterable-value",
            f"A value of type {friendly_name(collection.type)} cannot be used as the collection in a "
            "'for' expression.",
            node.collection,
            node,
        )
        return None
    return collection


_ITERABLE = frozenset({ListType, SetType, TupleType, MapType, ObjectType})


def _pairs(collection: Value) -> _Pairs:
    if isinstance(collection.type, (MapType, ObjectType)):
        return ((Value(STRING, k), v) for k, v in collection.raw.items())
    if isinstance(collection.type, SetType):
        return ((v, v) for v in collection.raw)
    return ((Value(NUMBER, i), v) for i, v in enumerate(collection.raw))


class _Conditions:
    # The `if` clause over the elements of one `for`: includes an element, keeps track of marks
    # and of whether every answer was known, and reports a mistake once.
    def __init__(self, node: ForTuple | ForObject, run: ExpressionRun) -> None:
        self.clause = node.condition
        self.node = node
        self.run = run
        self.marks = NO_MARKS
        self.known = True
        self.failed = False

    def check_type(self, names: dict[str, Value]) -> None:
        # Even with no element at all, a clause that can only be wrong is told.
        if self.clause is None:
            return
        names[self.node.value_name] = DYNAMIC_UNKNOWN
        if self.node.key_name is not None:
            names[self.node.key_name] = DYNAMIC_UNKNOWN
        outcome, diagnostics = self.run.attempt(self.clause)
        if not has_errors(diagnostics):
            self._decide(outcome)
        self.known = True
        self.marks = NO_MARKS

    def include(self) -> bool:
        """Whether the element that is looked at now is taken in."""
        if self.clause is None:
            return True
        before = len(self.run.diagnostics)
        outcome = self.run.value(self.clause)
        if self.run.failed_since(before):
            self.failed = True
            return False
        return self._decide(outcome)

    def _decide(self, outcome: Value) -> bool:
        """What the value of the `if` clause says; unknown ones make the whole result unknown."""
        assert self.clause is not None
        self.marks |= outcome.marks
        if outcome.raw is None:
            detail = "The value of the 'if' clause must not be null."
            return self._refuse("condition-is-null", detail)
        try:
            decision = convert(outcome, BOOL).raw
        except ConversionProblem as problem:
            return self._refuse(
                "invalid-for-condition", f"The 'if' clause value is invalid: {problem.message}."
            )
        if decision is UNKNOWN:
            self.known = False
            return False
        return bool(decision)

    def _refuse(self, kind: str, detail: str) -> bool:
        assert self.clause is not None
        self.failed = True
        self.run.problem(kind, detail, self.clause, self.node)
        return False


def _each_included(conditions: _Conditions, collection: Value, add: Callable[[], None]) -> None:
    # Calls `add` for every element that the clause includes, with the loop's names set. Ends at the
    # first mistake, which `conditions.failed` tells.
    node, run = conditions.node, conditions.run
    with run.local_names() as names:
        conditions.check_type(names)
        before = len(run.diagnostics)
        for key, element in () if conditions.failed else _pairs(collection):
            run.charge(1)
            names[node.value_name] = element
            if node.key_name is not None:
                names[node.key_name] = key
            if conditions.include():
                add()
            # The first element with an error ends the loop: the others would repeat it.
            if conditions.failed or run.failed_since(before):
                conditions.failed = True
                break


def for_tuple(node: ForTuple, run: ExpressionRun) -> Value:
    """`[for k, v in c : value if condition]`: a tuple."""
    collection = _collection(node, run)
    if collection is None:
        return DYNAMIC_UNKNOWN
    if collection.raw is UNKNOWN:
        return DYNAMIC_UNKNOWN.with_marks(collection.marks)
    conditions = _Conditions(node, run)
    results: list[Value] = []
    _each_included(conditions, collection, lambda: results.append(run.value(node.value)))
    marks = collection.marks | conditions.marks
    if conditions.failed or not conditions.known:
        return DYNAMIC_UNKNOWN.with_marks(marks)
    result = bounded(tuple_value(results))
    return result.with_marks(marks) if marks else result


def for_object(node: ForObject, run: ExpressionRun) -> Value:
    """`{for k, v in c : key => value}`: an object; with `...` a tuple for every key."""
    collection = _collection(node, run)
    if collection is None:
        return DYNAMIC_UNKNOWN
    if collection.raw is UNKNOWN:
        return DYNAMIC_UNKNOWN.with_marks(collection.marks)
    conditions = _Conditions(node, run)
    builder = _ObjectBuilder(node, run)
    _each_included(conditions, collection, builder.add)
    marks = collection.marks | conditions.marks | builder.marks
    if conditions.failed or not conditions.known or not builder.known:
        return DYNAMIC_UNKNOWN.with_marks(marks)
    return bounded(builder.result()).with_marks(marks)


class _ObjectBuilder:
    # Collects the items of a ForObject.
    def __init__(self, node: ForObject, run: ExpressionRun) -> None:
        self.node = node
        self.run = run
        self.marks = NO_MARKS
        self.known = True
        self.items: dict[str, Value] = {}
        self.groups: dict[str, list[Value]] = {}

    def add(self) -> None:
        """Take the element that is looked at now, by its key."""
        node, run = self.node, self.run
        before = len(run.diagnostics)
        key = run.value(node.key)
        if len(run.diagnostics) > before:
            self.known = False
            return
        self.marks |= key.marks
        name = self._name(key)
        if name is None:
            self.known = False
            return
        value = run.value(node.value)
        if node.group:
            self.groups.setdefault(name, []).append(value)
        elif name in self.items:
            shown = "a sensitive key" if key.marks else f'the key "{name}"'
            run.problem(
                "duplicate-object-key",
                f"Two different items produced {shown} in this 'for' expression. If duplicates are "
                "expected, use the ellipsis (...) after the value expression to enable grouping by key.",
                node.key,
                node,
            )
            self.known = False
        else:
            self.items[name] = value

    def _name(self, key: Value) -> str | None:
        if key.raw is None:
            detail = "Key expression in 'for' expression must not produce a null value."
            self.run.problem("invalid-object-key", detail, self.node.key, self.node)
            return None
        try:
            name = convert(key, STRING).raw
        except ConversionProblem as problem:
            detail = f"The key expression produced an invalid result: {describe(problem)}."
            self.run.problem("invalid-object-key", detail, self.node.key, self.node)
            return None
        return None if name is UNKNOWN else name

    def result(self) -> Value:
        if self.node.group:
            return object_value({k: tuple_value(v) for k, v in self.groups.items()})
        return object_value(self.items)


def template_for(node: TemplateFor, run: ExpressionRun) -> Value:
    """`%{ for }`: the bodies, one after the other."""
    collection = _collection(node, run)
    if collection is None:
        return UNKNOWN_STRING
    if collection.raw is UNKNOWN:
        return UNKNOWN_STRING.with_marks(collection.marks)
    pieces: list[Value] = []
    before = len(run.diagnostics)
    with run.local_names() as names:
        for key, element in _pairs(collection):
            run.charge(1)
            names[node.value_name] = element
            if node.key_name is not None:
                names[node.key_name] = key
            pieces.append(joined_text(node.body, run, node))
            # The first element with an error ends the loop: the others would repeat it.
            if run.failed_since(before):
                break
    marks = collection.marks.union(*[p.marks for p in pieces])
    if any(p.raw is UNKNOWN for p in pieces):
        return UNKNOWN_STRING.with_marks(marks)
    result = Value(STRING, "".join([p.raw for p in pieces]), marks)
    run.charge_result(result)
    return result


def splat(node: Splat, run: ExpressionRun) -> Value:
    """`source[*].x`: the same taken of every element."""
    source = run.value(node.source)
    sequence = isinstance(source.type, (ListType, SetType, TupleType))
    if source.raw is None:
        if not sequence:
            return EMPTY_TUPLE.with_marks(source.marks)
        return run.problem(
            "splat-of-null-value",
            "Splat expressions (with the * symbol) cannot be applied to null sequences.",
            node.source,
            node,
        )
    if source.type is DYNAMIC:
        return DYNAMIC_UNKNOWN.with_marks(source.marks)
    if not sequence:
        only = tuple_value([_apply_each(node, source, run)])
        # As null it has no element.
        is_there = refinement_of(source).not_null
        return (only if is_there else DYNAMIC_UNKNOWN).with_marks(source.marks)
    if source.raw is UNKNOWN and isinstance(source.type, TupleType):
        results = [_apply_each(node, Value(t, UNKNOWN), run) for t in source.type.elements]
        return Value(tuple_value(results).type, UNKNOWN, source.marks, NOT_NULL)
    return bounded(_splat_sequence(node, source, run)).with_marks(source.marks)


def _splat_sequence(node: Splat, source: Value, run: ExpressionRun) -> Value:
    """A splat over a sequence: a tuple gives a tuple, anything else a list of one type."""
    results: list[Value] = []
    if source.raw is not UNKNOWN:
        before = len(run.diagnostics)
        for element in source.raw:
            run.charge(1)
            results.append(_apply_each(node, element, run))
            # The first element with an error ends the loop: the others would repeat it.
            if run.failed_since(before):
                return DYNAMIC_UNKNOWN
    if isinstance(source.type, TupleType):
        return tuple_value(results)
    assert isinstance(source.type, (ListType, SetType))
    if results:
        kind = results[0].type
        if any(has_dynamic(r.type) for r in results) and any(r.type != kind for r in results):
            return DYNAMIC_UNKNOWN  # whether they come to be of one type, and so a list, is open
        if all(r.type == kind for r in results):
            return Value(ListType(kind), tuple(results))
        return run.problem(
            "invalid-nested-splat-expressions",
            "The second splat gives lists of different lengths, for some of the values are null, so the "
            "first one has no list to give. Use a for expression instead: [for x in list : x.name[*]].",
            node.each,
            node,
        )
    of_element = _apply_each(node, Value(source.type.element, UNKNOWN), run).type
    if source.raw is not UNKNOWN:
        return Value(ListType(of_element), ())
    length = refinement_of(source)
    bounds = Refinement(not_null=True, shortest=length.shortest, longest=length.longest)
    return refined(Value(ListType(of_element), UNKNOWN), bounds)


def _apply_each(node: Splat, element: Value, run: ExpressionRun) -> Value:
    if isinstance(node.each, SplatElement):
        return element
    outer, run.element = run.element, element
    try:
        return run.value(node.each)
    finally:
        run.element = outer


def splat_element(_node: Expression, run: ExpressionRun) -> Value:
    """The element at hand."""
    return run.element
