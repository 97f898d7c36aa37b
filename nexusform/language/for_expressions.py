"""Evaluation of `for` and splat expressions: one expression applied to every element."""

from collections.abc import Callable, Iterator
from typing import Final

from nexusform.diagnostics.diagnostic import has_errors
from nexusform.language.evaluation_run import (
    UNKNOWN_STRING,
    ExpressionRun,
    Requirement,
    check_value_size,
)
from nexusform.language.syntax.syntax_nodes import (
    ForObject,
    ForTuple,
    Splat,
    SplatElement,
    TemplateFor,
)
from nexusform.language.template_evaluation import join_parts
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    describe_type,
    has_dynamic,
)
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    EMPTY_TUPLE,
    NO_MARKS,
    NOT_NULL,
    UNKNOWN,
    Refinement,
    Value,
    add_refinement,
    build_object,
    build_tuple,
    get_refinement,
)

_Pairs = Iterator[tuple[Value, Value]]
_ITERABLE = frozenset({ListType, SetType, TupleType, MapType, ObjectType})


def _evaluate_iterated_collection(
    node: ForTuple | ForObject | TemplateFor, run: ExpressionRun
) -> Value:
    """Evaluate the collection of a `for`.

    After an error the value is unknown.
    """
    collection = run.evaluate(node.collection)
    if collection.raw is None:
        detail = "A null value cannot be used as the collection in a 'for' expression."
        return run.report_problem("iteration-over-null-value", detail, node.collection, node)
    if collection.type is not DYNAMIC and collection.type.__class__ not in _ITERABLE:
        detail = (
            f"A value of type {describe_type(collection.type)} cannot be used as the collection "
            "in a 'for' expression."
        )
        return run.report_problem(
            "iteration-over-non-iterable-value", detail, node.collection, node
        )
    return collection


def list_key_value_pairs(collection: Value) -> _Pairs:
    """Return pairs of key and value.

    The keys of a list or tuple are its indices, those of a set its elements.
    """
    if isinstance(collection.type, (MapType, ObjectType)):
        return ((Value(STRING, k), v) for k, v in collection.raw.items())
    if isinstance(collection.type, SetType):
        return ((v, v) for v in collection.raw)
    return ((Value(NUMBER, i), v) for i, v in enumerate(collection.raw))


def _set_loop_names(
    names: dict[str, Value], node: ForTuple | ForObject | TemplateFor, key: Value, element: Value
) -> None:
    """Set the loop's names to the current key and element."""
    if node.key_name is not None:
        names[node.key_name] = key
    # Hides a key of the same name.
    names[node.value_name] = element


class _ForCondition:
    # The `if` clause of one `for`: selects elements, collects marks and unknown results, and
    # reports an error once.
    def __init__(self, node: ForTuple | ForObject, run: ExpressionRun) -> None:
        """Start without evaluated conditions, so all are known and free of marks so far."""
        self.clause = node.condition
        self.node = node
        self.run = run
        # Of all conditions so far.
        self.marks = NO_MARKS
        # Whether all of them are known.
        self.is_known = True
        self.has_failed = False

    def check_type(self, names: dict[str, Value]) -> None:
        """Report a clause of another type than bool, even if the collection is empty.

        Use an unknown element for it. Other errors are ignored, because they may not occur for the
        elements of the collection.
        """
        if self.clause is None:
            return
        _set_loop_names(names, self.node, DYNAMIC_UNKNOWN, DYNAMIC_UNKNOWN)
        outcome, diagnostics = self.run.evaluate_separately(self.clause)
        if not has_errors(diagnostics):
            decision = self.run.convert_to_required(outcome, _FOR_CONDITION, self.clause, self.node)
            self.has_failed = decision is None

    def should_include(self) -> bool:
        """Check whether the current element is included.

        It is not if the clause is unknown or has an error.
        """
        if self.clause is None:
            return True
        before = len(self.run.diagnostics)
        outcome = self.run.evaluate(self.clause)
        if self.run.has_failed_since(before):
            self.has_failed = True
            return False
        self.marks |= outcome.marks
        decision = self.run.convert_to_required(outcome, _FOR_CONDITION, self.clause, self.node)
        if decision is None:
            self.has_failed = True
            return False
        if decision.raw is UNKNOWN:
            # The whole result is unknown, too.
            self.is_known = False
            return False
        return bool(decision.raw)


_FOR_CONDITION: Final = Requirement(
    BOOL,
    null_id="condition-is-null",
    null_detail="The value of the 'if' clause must not be null.",
    type_id="invalid-for-condition",
    lead="The 'if' clause value is invalid:",
)


def _visit_included_elements(
    conditions: _ForCondition, collection: Value, add: Callable[[], None]
) -> None:
    """Call `add` for every selected element, with the loop's names set.

    Stop at the first error (`has_failed`).
    """
    node = conditions.node
    run = conditions.run
    with run.extend_names() as names:
        conditions.check_type(names)
        if conditions.has_failed:
            return
        before = len(run.diagnostics)
        for key, element in list_key_value_pairs(collection):
            run.count_work(1)
            _set_loop_names(names, node, key, element)
            # Evaluates the `if` clause with these names.
            if conditions.should_include():
                add()
            if conditions.has_failed or run.has_failed_since(before):
                conditions.has_failed = True
                # The other elements would repeat the error.
                break


def evaluate_for_tuple(node: ForTuple, run: ExpressionRun) -> Value:
    """Evaluate `[for k, v in c : value if x]` to a tuple.

    It is unknown if `c` or an `x` is, or after an error.
    """
    collection = _evaluate_iterated_collection(node, run)
    if collection.raw is UNKNOWN:
        return DYNAMIC_UNKNOWN.add_marks(collection.marks)
    conditions = _ForCondition(node, run)
    results: list[Value] = []
    _visit_included_elements(
        conditions, collection, lambda: results.append(run.evaluate(node.value))
    )
    marks = collection.marks | conditions.marks
    if conditions.has_failed or not conditions.is_known:
        return DYNAMIC_UNKNOWN.add_marks(marks)
    return check_value_size(build_tuple(results)).add_marks(marks)


def evaluate_for_object(node: ForObject, run: ExpressionRun) -> Value:
    """Evaluate `{for k, v in c : key => value if x}`.

    It is unknown if `c`, a key or an `x` is, or after an error.
    """
    collection = _evaluate_iterated_collection(node, run)
    if collection.raw is UNKNOWN:
        return DYNAMIC_UNKNOWN.add_marks(collection.marks)
    conditions = _ForCondition(node, run)
    builder = _ObjectBuilder(node, run)
    _visit_included_elements(conditions, collection, builder.add)
    marks = collection.marks | conditions.marks | builder.marks
    if conditions.has_failed or not conditions.is_known or not builder.is_known:
        return DYNAMIC_UNKNOWN.add_marks(marks)
    items = builder.items
    # `...` after the value: each key has a tuple of values.
    if node.group:
        items = {key: build_tuple(values) for key, values in builder.groups.items()}
    return check_value_size(build_object(items)).add_marks(marks)


class _ObjectBuilder:
    # Collects the items of a ForObject.
    def __init__(self, node: ForObject, run: ExpressionRun) -> None:
        """Start an empty object; `groups` is filled in place of `items` if the value has `...`."""
        self.node = node
        self.run = run
        # Of all keys so far.
        self.marks = NO_MARKS
        # False: the whole object is unknown, because of a key.
        self.is_known = True
        self.items: dict[str, Value] = {}
        # In place of `items` if the value has `...`.
        self.groups: dict[str, list[Value]] = {}

    def add(self) -> None:
        """Add the current element by its key.

        An unknown, invalid or repeated key makes the whole object unknown.
        """
        node = self.node
        run = self.run
        before = len(run.diagnostics)
        key = run.evaluate(node.key)
        if run.has_failed_since(before):
            self.is_known = False
            return
        self.marks |= key.marks
        converted_key = run.convert_to_required(key, _FOR_KEY, node.key, node)
        if converted_key is None or converted_key.raw is UNKNOWN:
            self.is_known = False
            return
        name = converted_key.raw
        value = run.evaluate(node.value)
        # `...` after the value.
        if node.group:
            self.groups.setdefault(name, []).append(value)
        elif name in self.items:
            description = "a sensitive key" if key.marks else f'the key "{name}"'
            detail = (
                f"Two different items produced {description} in this 'for' expression. If "
                "duplicates are "
                "expected, use the ellipsis (...) after the value expression to enable grouping "
                "by key."
            )
            run.report_problem("duplicate-object-key", detail, node.key, node)
            self.is_known = False
        else:
            self.items[name] = value


_FOR_KEY: Final = Requirement(
    STRING,
    null_id="invalid-object-key",
    null_detail="Key expression in 'for' expression must not produce a null value.",
    type_id="invalid-object-key",
    lead="The key expression produced an invalid result:",
)


def evaluate_template_for(node: TemplateFor, run: ExpressionRun) -> Value:
    """Evaluate `%{ for }` to the joined texts of all elements.

    It is unknown if the collection or a text is.
    """
    collection = _evaluate_iterated_collection(node, run)
    if collection.raw is UNKNOWN:
        return UNKNOWN_STRING.add_marks(collection.marks)
    pieces: list[Value] = []
    before = len(run.diagnostics)
    with run.extend_names() as names:
        for key, element in list_key_value_pairs(collection):
            run.count_work(1)
            _set_loop_names(names, node, key, element)
            pieces.append(join_parts(node.body, run, node))
            if run.has_failed_since(before):
                # The other elements would repeat the error.
                break
    marks = collection.marks.union(*[p.marks for p in pieces])
    if any(p.raw is UNKNOWN for p in pieces):
        return UNKNOWN_STRING.add_marks(marks)
    result = Value(STRING, "".join([p.raw for p in pieces]), marks)
    run.count_result(result)
    return result


def evaluate_splat(node: Splat, run: ExpressionRun) -> Value:
    """Evaluate `source[*].x` for every element.

    A value other than a sequence is one element, and null is none.
    """
    source = run.evaluate(node.source)
    is_sequence = isinstance(source.type, (ListType, SetType, TupleType))
    if source.raw is None:
        if not is_sequence:
            return EMPTY_TUPLE.add_marks(source.marks)
        detail = "Splat expressions (with the * symbol) cannot be applied to null sequences."
        return run.report_problem("splat-of-null-value", detail, node.source, node)
    if source.type is DYNAMIC:
        return DYNAMIC_UNKNOWN.add_marks(source.marks)
    if not is_sequence:
        single = build_tuple([_evaluate_splat_element(node, source, run)])
        # An unknown value may be null, with no element.
        is_certain = get_refinement(source).not_null
        return (single if is_certain else DYNAMIC_UNKNOWN).add_marks(source.marks)
    if source.raw is UNKNOWN and isinstance(source.type, TupleType):
        results = [
            _evaluate_splat_element(node, Value(t, UNKNOWN), run) for t in source.type.elements
        ]
        # Of known length and types.
        return Value(build_tuple(results).type, UNKNOWN, source.marks, NOT_NULL)
    return check_value_size(_evaluate_splat_sequence(node, source, run)).add_marks(source.marks)


def _evaluate_splat_sequence(node: Splat, source: Value, run: ExpressionRun) -> Value:
    """Evaluate a splat over a tuple to a tuple, over a list or set to a list.

    It is unknown after a problem.
    """
    results: list[Value] = []
    if source.raw is not UNKNOWN:
        before = len(run.diagnostics)
        for element in source.raw:
            run.count_work(1)
            results.append(_evaluate_splat_element(node, element, run))
            # The first element with an error ends the loop: the others would repeat it.
            if run.has_failed_since(before):
                return DYNAMIC_UNKNOWN
    if isinstance(source.type, TupleType):
        return build_tuple(results)
    assert isinstance(source.type, (ListType, SetType))
    # A list needs results of one type.
    if results:
        first_type = results[0].type
        if all(r.type == first_type for r in results):
            return Value(ListType(first_type), tuple(results))
        if any(has_dynamic(r.type) for r in results):
            # It is unknown whether they have one type, and therefore form a list.
            return DYNAMIC_UNKNOWN
        detail = (
            "Some values are null, so the second splat gives lists of different lengths. Use a for "
            "expression instead: [for x in list : x.name[*]]."
        )
        return run.report_problem("invalid-nested-splat-expressions", detail, node.element, node)
    # The source is empty or unknown: the splat of an unknown element gives the type of results.
    element_type = _evaluate_splat_element(node, Value(source.type.element, UNKNOWN), run).type
    if source.raw is not UNKNOWN:
        return Value(ListType(element_type), ())
    # The result has the length of the source.
    known = get_refinement(source)
    bounds = Refinement(not_null=True, shortest=known.shortest, longest=known.longest)
    return add_refinement(Value(ListType(element_type), UNKNOWN), bounds)


def _evaluate_splat_element(node: Splat, element: Value, run: ExpressionRun) -> Value:
    """Evaluate the steps after `[*]` for one element."""
    if isinstance(node.element, SplatElement):
        return element  # no steps
    outer = run.element
    run.element = element
    try:
        return run.evaluate(node.element)
    finally:
        run.element = outer
