"""Whether an object's attributes are what its resource type says: what people edited, and what
providers answer, is looked at here before anything is worked out from it.

Attributes that the type does not know are passed over: an older or newer version may have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

from nexusform.diagnostics import Problem
from nexusform.plain_data import Path
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, order_attribute
from nexusform.state.object_codec import invalid, kind_of
from nexusform.value_types import (
    DYNAMIC,
    STRING,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
)
from nexusform.values import UNKNOWN

# Looks at a value at a path and yields what is wrong with it. Null and unknown parts are passed over,
# save null among the elements of a list and among objects.
_Check: TypeAlias = Callable[[Any, Path], Iterator[Problem]]

# What must be known of a VM or VNFC wherever its machine is; its cells need not be.
_PLACE: Final[tuple[str, ...]] = (
    "availability_zone",
    "number",
    "pool",
    "rack",
    "vm_sku_name",
)
COUNTED: Final = frozenset({"cells", "numa_cells", "number"})


def misfits(schema: BlockSchema, attributes: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with an object's attributes, paths beginning at the attributes."""
    return list(_body_check(schema)(attributes, ()))


@lru_cache(maxsize=1024)
def _body_check(schema: BlockSchema) -> _Check:
    checks = {name: _attribute_check(a) for name, a in schema.attributes.items()}
    checks |= {name: _block_check(block) for name, block in schema.blocks.items()}
    for name, block in schema.blocks.items():
        if block.nesting is Nesting.MAP:
            checks[order_attribute(name)] = _check_of(ListType(STRING))
    needed = [name for name, a in schema.attributes.items() if a.required or (name == "name" and a.computed)]
    needed += [name for name, block in schema.blocks.items() if block.min_items]
    # a plain VM may be pinned to a machine that is not there
    return _object_check(checks, needed, [])


def _object_check(checks: Mapping[str, _Check], needed: list[str], placed: list[str]) -> _Check:
    def check(value: Any, path: Path) -> Iterator[Problem]:
        if value.__class__ is not dict:
            yield _wrong(path, value, "an object")
            return
        for name, check_part in checks.items():
            part = value.get(name)
            if part is not None and part is not UNKNOWN:
                yield from check_part(part, (*path, name))
        names = needed
        if placed and value.get("machine") is not None:
            names = [*needed, *placed]
        for name in names:
            if value.get(name) is None:
                yield invalid((*path, name), f'"{name}" is missing.')

    return check


def _attribute_check(attribute: Attribute) -> _Check:
    by_type = _check_of(attribute.type)
    if attribute.type.__class__ is not PrimitiveType:
        return by_type
    if attribute.minimum is None and attribute.maximum is None and not attribute.choices:
        return by_type

    def check(value: Any, path: Path) -> Iterator[Problem]:
        wrong = next(by_type(value, path), None)
        if wrong is None and attribute.choices and value not in attribute.choices:
            wrong = _wrong(path, value, "one of " + ", ".join(f'"{c}"' for c in attribute.choices))
        if wrong is None and attribute.minimum is not None:
            counted = _not_whole if not attribute.fractions else _out_of_range
            wrong = counted(path, value, attribute.minimum, attribute.maximum)
        if wrong is not None:
            yield wrong

    return check


def _block_check(block: NestedBlock) -> _Check:
    body = _body_check(block.schema)
    if block.nesting is Nesting.SINGLE:
        return body
    return _list_check(body) if block.nesting is Nesting.LIST else _map_check(body)


@lru_cache(maxsize=1024)
def _check_of(of: Type) -> _Check:
    if of is DYNAMIC:
        return _anything
    if isinstance(of, PrimitiveType):
        return _primitive_check(of)
    if isinstance(of, ObjectType):
        checks = {name: _member_check(name, part) for name, part in of.attributes}
        return _object_check(
            checks, [], [name for name in _PLACE if name in checks] if is_of_machine(of) else []
        )
    if isinstance(of, MapType):
        return _map_check(_check_of(of.element), filled=isinstance(of.element, ObjectType))
    if isinstance(of, ListType | SetType):
        return _list_check(_check_of(of.element))
    return _tuple_check(of)


def is_of_machine(of: ObjectType) -> bool:
    """Whether such objects stand on machines of racks."""
    return {"machine", "rack"} <= {name for name, _ in of.attributes}


def _member_check(name: str, of: Type) -> _Check:
    """Numbers of VMs and of cells are counted from 0; other numbers are as they are."""
    if name not in COUNTED:
        return _check_of(of)
    return _list_check(_count) if isinstance(of, ListType) else _count


def _count(value: Any, path: Path) -> Iterator[Problem]:
    wrong = _not_whole(path, value, 0, None)
    if wrong is not None:
        yield wrong


def _anything(_value: Any, _path: Path) -> Iterator[Problem]:
    return iter(())


def _primitive_check(of: PrimitiveType) -> _Check:
    classes: tuple[type, ...] = {"string": (str,), "bool": (bool,)}.get(of.name, (int, float, Fraction))
    words = {"string": "a string", "bool": "true or false"}.get(of.name, "a number")

    def check(value: Any, path: Path) -> Iterator[Problem]:
        if value.__class__ not in classes:
            yield _wrong(path, value, words)

    return check


def _map_check(element: _Check, *, filled: bool = True) -> _Check:
    def check(value: Any, path: Path) -> Iterator[Problem]:
        if value.__class__ is not dict:
            yield _wrong(path, value, "an object")
            return
        for key, part in value.items():
            if (part is not None or filled) and part is not UNKNOWN:
                yield from element(part, (*path, key))

    return check


def _list_check(element: _Check) -> _Check:
    def check(value: Any, path: Path) -> Iterator[Problem]:
        if value.__class__ is not list:
            yield _wrong(path, value, "a list")
            return
        for position, part in enumerate(value):
            if part is not UNKNOWN:
                yield from element(part, (*path, position))

    return check


def _tuple_check(of: TupleType) -> _Check:
    checks = [_check_of(part) for part in of.elements]

    def check(value: Any, path: Path) -> Iterator[Problem]:
        if value.__class__ is not list or len(value) != len(checks):
            yield _wrong(path, value, f"a list of {len(checks)}")
            return
        for position, (part, check_part) in enumerate(zip(value, checks, strict=True)):
            if part is not None:
                yield from check_part(part, (*path, position))

    return check


def _not_whole(path: Path, value: Any, least: int, most: int | None) -> Problem | None:
    whole = value.__class__ is int or (value.__class__ is float and value.is_integer())
    if not whole or value < least:
        return _wrong(path, value, f"a whole number from {least}")
    return _out_of_range(path, value, least, most)


def _out_of_range(path: Path, value: Any, least: int, most: int | None) -> Problem | None:
    if value < least:
        return _wrong(path, value, f"a number from {least}")
    if most is not None and value > most:
        return _wrong(path, value, f"at most {most}")
    return None


def _wrong(path: Path, value: Any, words: str) -> Problem:
    instead = "" if value.__class__ in {str, int, float} else f", not {kind_of(value)}"
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    return invalid(path, f'"{name}" must be {words}{instead}.')
