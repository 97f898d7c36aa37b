"""Functions that create lists from lists, tuples and sets."""

from collections.abc import Sequence
from typing import Any, Final

from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.functions.elements import SEQUENCES, build_list_parameter
from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    get_first_argument_type,
)
from nexusform.language.type_conversion import convert_value as _convert
from nexusform.language.type_unification import compare_values, unify_types
from nexusform.schemas.value_types import (
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    SetType,
    TupleType,
    Type,
    describe_type,
)
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    NO_MARKS,
    UNKNOWN,
    Refinement,
    Value,
    add_refinement,
    build_tuple,
    compute_order_key,
    get_refinement,
    normalize_number,
)

MAX_RANGE: Final = 1024
_ANY_LIST: Final = ListType(DYNAMIC)


def _split_chunks(sequence: Value, size: Value) -> Value:
    """Split a list into lists of `size` elements; the last one has the rest.

    Size 0 makes one list of all elements.
    """
    if not isinstance(size.raw, int) or size.raw < 0:
        raise FixedProblem(
            "the size argument must be a whole number that is not negative", argument=1
        )
    # range() needs a step above 0.
    step = size.raw or max(len(sequence.raw), 1)
    pieces = [
        Value(sequence.type, sequence.raw[i : i + step]) for i in range(0, len(sequence.raw), step)
    ]
    return Value(ListType(sequence.type), tuple(pieces))


def _remove_empty_strings(strings: Value) -> Value:
    """Evaluate `compact`.

    With unknown parts the result is unknown.
    """
    if not strings.is_wholly_known:
        return Value(ListType(STRING), UNKNOWN)
    return Value(ListType(STRING), tuple([v for v in strings.raw if v.raw]))


def _find_concat_result_type(arguments: Sequence[Value]) -> Type:
    """Return the type of `concat`: a list for lists with a common element type, otherwise a tuple.

    The type of a tuple has one part for each element. It is DYNAMIC if the elements of a
    list are unknown.
    """
    if not arguments:
        raise FixedProblem("at least one argument is required")
    # Of the lists among the arguments.
    element_types: list[Type] = []
    for position, argument in enumerate(arguments):
        if isinstance(argument.type, ListType):
            element_types.append(argument.type.element)
        elif not isinstance(argument.type, TupleType):
            raise FixedProblem("all arguments must be lists or tuples", position)
    if len(element_types) == len(arguments):  # lists only
        common = unify_types(element_types)
        if common is not None:
            return ListType(common)
    parts: list[Type] = []
    for argument in arguments:
        if isinstance(argument.type, TupleType):
            parts.extend(argument.type.elements)
        elif argument.raw is UNKNOWN:
            # A list of unknown length.
            return DYNAMIC
        else:
            parts.extend(v.type for v in argument.raw)
    return TupleType(tuple(parts))


def _join_lists(*arguments: Value) -> Value:
    """Evaluate `concat` of known arguments.

    A list with converted elements if there is a common type, else a tuple.
    """
    result_type = _find_concat_result_type(arguments)
    elements: list[Value] = []
    for argument in arguments:
        elements += argument.raw
    if isinstance(result_type, ListType):
        return Value(
            result_type, tuple([_convert(element, result_type.element) for element in elements])
        )
    return Value(result_type, tuple(elements))


def _remove_duplicates(sequence: Value) -> Value:
    """Keep the first of equal elements.

    With unknown parts the result is unknown.
    """
    if not sequence.is_wholly_known:
        return Value(sequence.type, UNKNOWN)
    unique_items: dict[Any, Value] = {}
    for item in sequence.raw:
        # Equal elements have equal keys.
        unique_items.setdefault(compute_order_key(item), item)
    return Value(sequence.type, tuple(unique_items.values()))


def _flatten_sequence(sequence: Value) -> Value:
    """Evaluate `flatten` to a tuple.

    It is unknown if the number of its elements is. Raises FunctionProblem.
    """
    if not isinstance(sequence.type, SEQUENCES):
        raise FixedProblem("can only flatten lists, sets and tuples", argument=0)
    elements: list[Value] = []
    marks: list[frozenset[str]] = []
    is_known = _collect_flat_elements(sequence, elements, marks)
    return (build_tuple(elements) if is_known else DYNAMIC_UNKNOWN).add_marks(
        NO_MARKS.union(*marks)
    )


def _collect_flat_elements(
    sequence: Value, elements: list[Value], marks: list[frozenset[str]]
) -> bool:
    """Add the elements of a sequence and of sequences inside of it to `elements`.

    Add the marks of these sequences to `marks`. Return False if the number of elements is unknown.
    """
    marks.append(sequence.marks)
    if isinstance(sequence.type, SetType) and not sequence.is_wholly_known:
        # Unknown elements may be equal, and then count as one.
        return False
    is_known = True
    for item in sequence.raw:
        is_sequence = isinstance(item.type, SEQUENCES)
        if item.raw is UNKNOWN and (item.type is DYNAMIC or is_sequence):
            marks.append(item.marks)
            is_known = False
        elif is_sequence and item.raw is not None:
            is_known = _collect_flat_elements(item, elements, marks) and is_known
        else:
            # Also a null sequence.
            elements.append(item)
    return is_known


def _select_matching_keys(values: Value, keys: Value, searchset: Value) -> Value:
    """Evaluate `matchkeys`: the elements of `values` whose keys are in `searchset`.

    `keys` has a key for each value: values [1, 2], keys ["a", "b"] and searchset ["b"] give [2].
    """
    if len(values.raw) != len(keys.raw):
        raise FixedProblem("length of keys and values should be equal")
    assert isinstance(keys.type, ListType)
    assert isinstance(searchset.type, ListType)
    common = unify_types([keys.type.element, searchset.type.element])
    if common is None:
        raise FixedProblem("keys and searchset must be of the same type")
    if not searchset.raw:
        return Value(values.type, ())
    if not (values.is_wholly_known and keys.is_wholly_known):
        return Value(values.type, UNKNOWN)
    try:
        # Some may be unknown.
        search_keys = [_convert(key, common) for key in searchset.raw]
        value_keys = [_convert(key, common) for key in keys.raw]
    except ConversionProblem as problem:
        raise FunctionProblem(problem.message) from None
    # First position of each known key in the search set.
    first_indices = _index_known_keys(search_keys)
    unknown_keys = [
        (index, key) for index, key in enumerate(search_keys) if not key.is_wholly_known
    ]
    # In place of an index.
    no_match = len(search_keys)
    chosen = []
    for key, value in zip(value_keys, values.raw, strict=True):
        match_index = first_indices.get(compute_order_key(key), no_match)
        # As in Terraform, the result is empty if an unknown search key before the match may be
        # equal to the key.
        earlier_keys = [unknown_key for index, unknown_key in unknown_keys if index < match_index]
        if any(compare_values(key, unknown_key).raw is UNKNOWN for unknown_key in earlier_keys):
            return Value(values.type, ())
        if match_index != no_match:
            chosen.append(value)
    return Value(values.type, tuple(chosen))


def _index_known_keys(keys: Sequence[Value]) -> dict[Any, int]:
    """Return the first index of each known key, by its order key.

    compute_order_key gives equal results for equal keys.
    """
    indices: dict[Any, int] = {}
    for index, key in enumerate(keys):
        if key.is_wholly_known:
            indices.setdefault(compute_order_key(key), index)
    return indices


def _generate_range(*limits: Value) -> Value:
    """List numbers for the arguments `end`, `start, end` or `start, end, step`.

    `end` itself is excluded.
    """
    if not 1 <= len(limits) <= 3:
        raise FixedProblem("must have one, two, or three arguments")
    numbers: list[Any] = [limit.raw for limit in limits]
    start, end = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    direction = -1 if end < start else 1
    step = numbers[2] if len(numbers) == 3 else direction
    if start < end and step < 0:
        raise FixedProblem("end must be less than start when step is negative", argument=2)
    if end < start and step > 0:
        raise FixedProblem("end must be greater than start when step is positive", argument=2)
    elements: list[Value] = []
    current = start
    while (end - current) * direction > 0:
        # Always reached with the step 0.
        if len(elements) == MAX_RANGE:
            raise FunctionProblem(
                f"more than {MAX_RANGE} values were generated; either decrease the difference "
                "between "
                "start and end or use a smaller step"
            )
        elements.append(Value(NUMBER, current))
        current = normalize_number(current + step)
    return Value(ListType(NUMBER), tuple(elements))


def _find_reverse_result_type(arguments: Sequence[Value]) -> Type:
    """Return the type of `reverse`: the reversed tuple type, or a list.

    Raises FunctionProblem.
    """
    sequence_type = arguments[0].type
    if isinstance(sequence_type, TupleType):
        return TupleType(sequence_type.elements[::-1])
    if isinstance(sequence_type, (ListType, SetType)):
        return ListType(sequence_type.element)
    raise FunctionProblem(
        f"can only reverse list or tuple values, not {describe_type(sequence_type)}", argument=0
    )


def _compute_reversed_list(sequence: Value) -> Value:
    """Return the elements in reverse order; a set becomes a list."""
    result_type = _find_reverse_result_type([sequence])
    if isinstance(sequence.type, SetType) and not sequence.is_wholly_known:
        # Only the length is known.
        return add_refinement(Value(result_type, UNKNOWN), get_refinement(sequence))
    return Value(result_type, sequence.raw[::-1])


def _find_slice_result_type(arguments: Sequence[Value]) -> Type:
    """Return the type of `slice`.

    For a list it is the list's own type, for a tuple the types of the elements between the
    indices. With an unknown index, the type of a tuple is DYNAMIC. Raises FunctionProblem for
    indices out of range.
    """
    sequence, start, end = arguments
    if isinstance(sequence.type, SetType):
        raise FixedProblem(
            "cannot slice a set, because its elements do not have indices", argument=0
        )
    if not isinstance(sequence.type, (ListType, TupleType)):
        raise FixedProblem("must be a list or tuple value", argument=0)
    if _is_unsuitable_index(start):
        raise FixedProblem("start index must be a whole number that is not negative", argument=1)
    if _is_unsuitable_index(end):
        raise FixedProblem("end index must be a whole number that is not negative", argument=2)
    is_list = isinstance(sequence.type, ListType)
    has_unknown_index = not isinstance(start.raw, int) or not isinstance(end.raw, int)
    if has_unknown_index:
        # Which elements remain in the tuple is open.
        return sequence.type if is_list else DYNAMIC
    # The length of a tuple is known from its type, that of a list only from its value.
    elements = sequence.raw if is_list else sequence.type.parts
    if elements is not UNKNOWN and end.raw > len(elements):
        raise FixedProblem("end index must not be greater than the length of the list", argument=2)
    if start.raw > end.raw:
        raise FixedProblem("start index must not be greater than end index", argument=1)
    if is_list:
        return sequence.type
    return TupleType(sequence.type.parts[start.raw : end.raw])


def _is_unsuitable_index(index: Value) -> bool:
    """Check for a known number other than a whole one from 0."""
    return index.raw is not UNKNOWN and (not isinstance(index.raw, int) or index.raw < 0)


def _slice_sequence(sequence: Value, start: Value, end: Value) -> Value:
    """Return the elements from `start` up to `end`, exclusive.

    Raises FunctionProblem for indices out of range.
    """
    return Value(_find_slice_result_type([sequence, start, end]), sequence.raw[start.raw : end.raw])


def _sort_strings(strings: Value) -> Value:
    """Sort by code points.

    Raises FunctionProblem for null.
    """
    if strings.raw is UNKNOWN:
        # The length is kept, and the result is never null.
        known = get_refinement(strings)
        return add_refinement(
            strings, Refinement(not_null=True, shortest=known.shortest, longest=known.longest)
        )
    if any(v.raw is None for v in strings.raw):
        raise FixedProblem("given list element is null; a null string cannot be sorted", argument=0)
    if not strings.is_wholly_known:
        # Only the number is certain.
        return Value(strings.type, (Value(STRING, UNKNOWN),) * len(strings.raw))
    return Value(strings.type, tuple(sorted(strings.raw, key=lambda v: str(v.raw))))


FUNCTIONS: Final = (
    Function(
        "chunklist",
        "The list split into lists of limited size.",
        (
            Parameter("list", _ANY_LIST, "a list", inner_marks=True),
            Parameter("size", NUMBER, "elements per list, 0 for all"),
        ),
        lambda arguments: ListType(arguments[0].type),
        _split_chunks,
        (Example('chunklist(["a", "b", "c"], 2)[1][0]', '"c"'),),
    ),
    Function(
        "compact",
        "The list without null and empty strings.",
        (Parameter("list", ListType(STRING), "a list of strings"),),
        ListType(STRING),
        _remove_empty_strings,
        (Example('compact(["a", "", "b", null])', 'tolist(["a", "b"])'),),
    ),
    Function(
        "concat",
        "The concatenated lists.",
        (),
        _find_concat_result_type,
        _join_lists,
        (Example('concat(["a"], ["b", "c"])', '["a", "b", "c"]'),),
        Parameter("seqs", DYNAMIC, "lists or tuples", inner_marks=True),
    ),
    Function(
        "distinct",
        "The list without duplicates.",
        (Parameter("list", _ANY_LIST, "a list"),),
        get_first_argument_type,
        _remove_duplicates,
        (Example('distinct(["a", "b", "a"])', 'tolist(["a", "b"])'),),
    ),
    Function(
        "flatten",
        "All elements of nested lists as one tuple.",
        (build_list_parameter("a list of lists", inner_marks=True),),
        DYNAMIC,
        _flatten_sequence,
        (Example('flatten([["a", "b"], [], ["c", ["d"]]])', '["a", "b", "c", "d"]'),),
    ),
    Function(
        "matchkeys",
        "The elements of a list with matching keys.",
        (
            Parameter("values", _ANY_LIST, "the elements"),
            Parameter("keys", _ANY_LIST, "a key per element"),
            Parameter("searchset", _ANY_LIST, "the keys to select"),
        ),
        get_first_argument_type,
        _select_matching_keys,
        (Example('matchkeys(["a", "b"], ["east", "west"], ["west"])', 'tolist(["b"])'),),
    ),
    Function(
        "range",
        (
            "Numbers before a limit: range(limit), (start, limit) or (start, limit, step); at "
            f"most {MAX_RANGE}."
        ),
        (),
        ListType(NUMBER),
        _generate_range,
        (
            Example("range(3)", "tolist([0, 1, 2])"),
            Example("range(1, 8, 2)", "tolist([1, 3, 5, 7])"),
        ),
        Parameter("params", NUMBER, "limit; or start and limit; or start, limit and step"),
    ),
    Function(
        "reverse",
        "The list in reverse order.",
        (build_list_parameter(inner_marks=True),),
        _find_reverse_result_type,
        _compute_reversed_list,
        (Example("reverse([1, 2, 3])", "[3, 2, 1]"),),
    ),
    Function(
        "slice",
        "The elements from a start index to an end index (exclusive).",
        (
            build_list_parameter("a list or tuple", inner_marks=True),
            Parameter("start_index", NUMBER, "the first index"),
            Parameter("end_index", NUMBER, "the index after the last"),
        ),
        _find_slice_result_type,
        _slice_sequence,
        (Example('slice(["a", "b", "c", "d"], 1, 3)', '["b", "c"]'),),
    ),
    Function(
        "sort",
        "The strings sorted by Unicode code points.",
        (Parameter("list", ListType(STRING), "a list of strings", allow_unknown=True),),
        ListType(STRING),
        _sort_strings,
        (Example('sort(["e", "d", "a", "x"])', 'tolist(["a", "d", "e", "x"])'),),
    ),
)
