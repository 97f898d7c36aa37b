"""Validation of an object's attributes against its resource type.

Objects come from edited states and provider responses. Unknown attributes are ignored: an older or
newer version may have them.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from nexusform.diagnostics.diagnostic import Problem
from nexusform.json_data.plain_data import Path
from nexusform.schemas.block_schema import (
    COMMON_PRIVATE,
    AttributeSchema,
    BlockSchema,
    NestedBlock,
    Nesting,
    get_order_attribute,
)
from nexusform.schemas.value_types import (
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    TupleType,
    Type,
)
from nexusform.state.object_codec import build_invalid_member_problem, describe_json_kind, is_count
from nexusform.state.objects import SCHEMA_VERSION
from nexusform.values.typed_value import UNKNOWN

# Checks a value at a path and yields its errors. Skips null and unknown parts, except null elements
# of lists and null objects.
_Check: TypeAlias = Callable[[Any, Path], Iterator[Problem]]

# Required attributes of a VM or VNFC with a machine; its cells may be unknown.
_LOCATION_NAMES: Final[tuple[str, ...]] = (
    "availability_zone",
    "number",
    "pool",
    "rack",
    "vm_sku_name",
)
# The id of the error about a state of a newer nexusform.
NEWER_STATE: Final = "newer-state-version"
_COUNT_NAMES: Final = frozenset({"cells", "numa_cells", "number"})


def validate_attributes(schema: BlockSchema, attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the errors of an object's attributes, with paths that start at the attributes."""
    return list(_build_body_check(schema)(attributes, ()))


def validate_schema_version(version: Any) -> list[Problem]:
    """Return an error if an object has a newer schema than this nexusform knows.

    Its path starts at the object.
    """
    if not is_count(version) or version <= SCHEMA_VERSION:
        return []
    detail = (
        f"This object was written by a newer nexusform, with version {version} of its schema. This "
        f"nexusform reads up to version {SCHEMA_VERSION}."
    )
    return [Problem(("schema_version",), NEWER_STATE, detail)]


def validate_private_data(schema: BlockSchema, private: Mapping[str, Any] | None) -> list[Problem]:
    """Return the errors of an object's private data, with paths that start at `private`.

    Null is as absent.
    """
    if not private:
        return []
    problems: list[Problem] = []
    for name, check in _build_private_checks(schema).items():
        if private.get(name) is not None:
            problems += check(private[name], ("private", name))
    return problems


@lru_cache(maxsize=1024)
def _build_private_checks(schema: BlockSchema) -> dict[str, _Check]:
    return {
        name: _build_attribute_check(part)
        for name, part in {**COMMON_PRIVATE, **schema.private}.items()
    }


@lru_cache(maxsize=1024)
def _build_body_check(schema: BlockSchema) -> _Check:
    """Build the check of a body.

    Types, required names, and the list with the source order of labelled blocks.
    """
    checks: dict[str, _Check] = {}
    required_names: list[str] = []
    for name, attribute in schema.attributes.items():
        checks[name] = _build_attribute_check(attribute)
        # A computed name is always set.
        if attribute.required or (name == "name" and attribute.computed):
            required_names.append(name)
    for name, block in schema.blocks.items():
        checks[name] = _build_block_check(block)
        if block.min_items:
            required_names.append(name)
    check_order = _build_type_check(ListType(STRING))
    for name, block in schema.blocks.items():
        if block.nesting is Nesting.MAP:
            checks[get_order_attribute(name)] = check_order
    # A body with a machine needs no more: a VM pinned to a missing machine has no rack and zone.
    names_with_machine = required_names
    return partial(_check_object, checks, required_names, names_with_machine)


def _build_attribute_check(attribute: AttributeSchema) -> _Check:
    """Build the check of an attribute: its type, choices, bounds and members."""
    check = _build_type_check(
        attribute.type,
        attribute.required_members,
        attribute.optional_elements,
        attribute.fractional_elements,
    )
    has_limits = attribute.minimum is not None or bool(attribute.choices)
    if has_limits and attribute.type.__class__ is PrimitiveType:
        check = partial(_check_choices_and_bounds, attribute, check)
    if attribute.member_choices:
        check = partial(_check_member_choices, attribute, check)
    return check


def _check_object(
    checks: Mapping[str, _Check],
    required_names: list[str],
    names_with_machine: list[str],
    value: Any,
    path: Path,
) -> Iterator[Problem]:
    """Check an object: first its known parts other than null, then the required ones.

    A required part must not be absent or null. An object with a `machine` is a placed VM. It must
    have the parts of `names_with_machine`, any other object those of `required_names`.
    """
    if value.__class__ is not dict:
        yield _build_wrong_type_problem(path, value, "an object")
        return
    for name, check_part in checks.items():
        part = value.get(name)
        # Null is as absent, checked below.
        if part is not None and part is not UNKNOWN:
            yield from check_part(part, (*path, name))
    has_machine = value.get("machine") is not None
    names = names_with_machine if has_machine else required_names
    for name in names:
        if value.get(name) is None:
            yield build_invalid_member_problem((*path, name), f'"{name}" is missing.')


def _check_choices_and_bounds(
    attribute: AttributeSchema, check_type: _Check, value: Any, path: Path
) -> Iterator[Problem]:
    """Check the value of a primitive attribute.

    The type is checked first, and if it is right the choices or bounds.
    """
    problem = next(check_type(value, path), None)
    if problem is not None:
        yield problem
    elif attribute.choices and value not in attribute.choices:
        choices = ", ".join(f'"{choice}"' for choice in attribute.choices)
        yield _build_wrong_type_problem(path, value, f"one of {choices}")
    elif attribute.minimum is not None:
        check_number = _check_range if attribute.allows_fractions else _check_whole_number
        yield from check_number(path, value, attribute.minimum, attribute.maximum)


def _check_member_choices(
    attribute: AttributeSchema, check_type: _Check, value: Any, path: Path
) -> Iterator[Problem]:
    """Check a map of objects: its type, and if that is right the members with choices."""
    problems = list(check_type(value, path))
    yield from problems
    if problems:
        return
    for key, item in value.items():
        for name, choices in attribute.member_choices.items():
            if item is not UNKNOWN and item.get(name) not in (*choices, UNKNOWN):
                texts = ", ".join("null" if text is None else f'"{text}"' for text in choices)
                member_path = (*path, key, name)
                yield _build_wrong_type_problem(member_path, item.get(name), f"one of {texts}")


def _build_block_check(block: NestedBlock) -> _Check:
    """Build the check of the blocks of one type: an object, a list, or a map by label."""
    body = _build_body_check(block.schema)
    match block.nesting:
        case Nesting.SINGLE:
            return body
        case Nesting.LIST:
            return partial(_check_list, body)
    # True: a null block is invalid.
    return partial(_check_map, body, True)


@lru_cache(maxsize=1024)
def _build_type_check(
    value_type: Type,
    required_members: tuple[str, ...] = (),
    optional_elements: int = 0,
    fractional_elements: tuple[int, ...] = (),
) -> _Check:
    """Build the check of all values of a type.

    `required_members` are dotted names of members of its objects, `optional_elements` the number of
    the last elements that its tuples may lack, `fractional_elements` the positions of numbers in
    its tuples that may have a fraction.
    """
    if value_type is DYNAMIC:
        return lambda _value, _path: iter(())
    if isinstance(value_type, PrimitiveType):
        # A number is an int, a float, or a fraction of a large precision.
        classes = {"string": (str,), "bool": (bool,)}.get(value_type.name, (int, float, Fraction))
        expected = {"string": "a string", "bool": "true or false"}.get(value_type.name, "a number")
        return partial(_check_class, classes, expected)
    if isinstance(value_type, ObjectType):
        checks = {
            name: _build_member_check(name, part, _select_below(name, required_members))
            for name, part in value_type.attributes
        }
        # As VMs, placed on machines of racks.
        may_have_machine = {"machine", "rack"} <= checks.keys()
        names_with_machine = [
            name for name in _LOCATION_NAMES if may_have_machine and name in checks
        ]
        # Nothing else is required without a machine.
        required_names = [name for name in required_members if "." not in name]
        return partial(
            _check_object, checks, required_names, [*required_names, *names_with_machine]
        )
    if isinstance(value_type, MapType):
        # Null objects and maps are errors, null primitives are not.
        rejects_null = isinstance(value_type.element, ObjectType | MapType)
        check_element = _build_type_check(value_type.element, required_members)
        return partial(_check_map, check_element, rejects_null)
    if isinstance(value_type, TupleType):
        checks_by_position = tuple(
            _check_number_from_zero
            if element == NUMBER and position in fractional_elements
            else _build_element_check(element)
            for position, element in enumerate(value_type.elements)
        )
        return partial(_check_tuple, checks_by_position, optional_elements)
    check_element = _build_type_check(
        value_type.element, required_members, optional_elements, fractional_elements
    )
    return partial(_check_list, check_element)


def _build_element_check(element: Type) -> _Check:
    """Build the check of an element of a tuple.

    A number, alone or in a list, is whole and at least 0. A tuple may be null.
    """
    if element == NUMBER:
        return _check_count_from_zero
    if element == ListType(NUMBER):
        return partial(_check_list, _check_count_from_zero)
    check = _build_type_check(element)
    return partial(_check_unless_null, check) if isinstance(element, TupleType) else check


def _check_unless_null(check: _Check, value: Any, path: Path) -> Iterator[Problem]:
    if value is not None:
        yield from check(value, path)


def _select_below(name: str, members: tuple[str, ...]) -> tuple[str, ...]:
    """Return the dotted names below a name, without it."""
    prefix = f"{name}."
    return tuple(member.removeprefix(prefix) for member in members if member.startswith(prefix))


def _build_member_check(
    name: str, member_type: Type, required_members: tuple[str, ...] = ()
) -> _Check:
    """Build the check of a member of an object.

    Numbers of VMs and of NUMA cells, alone or in a list, must be whole and at least 0; every other
    member is checked by its type.
    """
    if name not in _COUNT_NAMES:
        return _build_type_check(member_type, required_members)
    if isinstance(member_type, ListType):
        return partial(_check_list, _check_count_from_zero)
    return _check_count_from_zero


def _check_count_from_zero(value: Any, path: Path) -> Iterator[Problem]:
    return _check_whole_number(path, value, minimum=0, maximum=None)


def _check_number_from_zero(value: Any, path: Path) -> Iterator[Problem]:
    if value.__class__ not in (int, float, Fraction):
        yield _build_wrong_type_problem(path, value, "a number")
    else:
        yield from _check_range(path, value, minimum=0, maximum=None)


def _check_class(
    classes: tuple[type, ...], expected: str, value: Any, path: Path
) -> Iterator[Problem]:
    """Check that a value is of one of these classes, exactly: true is no number."""
    if value.__class__ not in classes:
        yield _build_wrong_type_problem(path, value, expected)


def _check_map(
    check_element: _Check, rejects_null: bool, value: Any, path: Path
) -> Iterator[Problem]:
    """Check a map and each element but unknown ones.

    `check_element` rejects null, so null elements are only checked with `rejects_null`.
    """
    if value.__class__ is not dict:
        yield _build_wrong_type_problem(path, value, "an object")
        return
    for key, part in value.items():
        is_allowed_null = part is None and not rejects_null
        if not is_allowed_null and part is not UNKNOWN:
            yield from check_element(part, (*path, key))


def _check_list(check_element: _Check, value: Any, path: Path) -> Iterator[Problem]:
    """Check a list and its elements.

    `check_element` rejects null, and unknown elements are skipped.
    """
    if value.__class__ is not list:
        yield _build_wrong_type_problem(path, value, "a list")
        return
    for position, part in enumerate(value):
        if part is not UNKNOWN:
            yield from check_element(part, (*path, position))


def _check_tuple(
    checks: tuple[_Check, ...], optional_count: int, value: Any, path: Path
) -> Iterator[Problem]:
    """Check a list of fixed length, except for its last optional elements, and its elements."""
    minimum = len(checks) - optional_count
    count = f"{minimum} to {len(checks)}" if optional_count else str(minimum)
    if value.__class__ is not list:
        yield _build_wrong_type_problem(path, value, f"a list of {count} values")
        return
    if not minimum <= len(value) <= len(checks):
        detail = f"This list must have {count} values, not {len(value)}."
        yield build_invalid_member_problem(path, detail)
        return
    for position, (check, part) in enumerate(zip(checks, value, strict=False)):
        yield from check(part, (*path, position))


def _check_whole_number(
    path: Path, value: Any, minimum: int, maximum: int | None
) -> Iterator[Problem]:
    """Check a whole number, also one written as 2.0, and its bounds."""
    is_whole = value.__class__ is int or (value.__class__ is float and value.is_integer())
    if not is_whole or value < minimum:
        yield _build_wrong_type_problem(path, value, f"a whole number from {minimum}")
    else:
        yield from _check_range(path, value, minimum, maximum)


def _check_range(path: Path, value: Any, minimum: int, maximum: int | None) -> Iterator[Problem]:
    """Check the bounds of a number, both inclusive; without a `maximum` there is no upper bound."""
    if value < minimum:
        yield _build_wrong_type_problem(path, value, f"a number from {minimum}")
    elif maximum is not None and value > maximum:
        yield _build_wrong_type_problem(path, value, f"at most {maximum}")


def _build_wrong_type_problem(path: Path, value: Any, expected: str) -> Problem:
    """Build the problem of a value, such as `"cells" must be a list, not null`.

    The subject is the last name in its path, without list positions. The kind of a string or number
    is not named.
    """
    names = [step for step in path if isinstance(step, str)]
    subject = names[-1] if names else ""
    actual = "" if value.__class__ in {str, int, float} else f", not {describe_json_kind(value)}"
    return build_invalid_member_problem(path, f'"{subject}" must be {expected}{actual}.')
