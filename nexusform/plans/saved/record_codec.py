"""Frozen records to plain JSON data and back, by their annotations.

A record (Struct) becomes an object of its fields; fields at their default are left out. Known
annotations: str, int, float, bool, None, Any (plain data, kept as it is), enums, records, Address, Type,
tuples, mappings from str or Address, and unions with None, of str and int, or of records; a Place is a record
of one of the kinds of placements. Tuples inside plain data come back as lists.

A long tuple of records becomes a table: a column for each field that differs from its default somewhere,
with each value once (tables.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from nexusform.address import Address, AddressProblem, parse_address
from nexusform.placement_kinds.kinds import place_classes
from nexusform.plain_data import ConversionProblem
from nexusform.plans.saved.tables import SHORTEST, Field, read_table, write_table
from nexusform.scheduling.decision import Place
from nexusform.scheduling.racks.vms import Placement
from nexusform.value_types import Type, type_from_json, type_to_json

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]


class Shape(NamedTuple):
    """How values of one annotation are written and read; None: they are JSON data already.

    `table` is how many of them are, where they are records. `is_plain`: they are data of any form.
    """

    write: Write | None
    read: Read
    table: _Table | None = None
    is_plain: bool = False


class _Table(NamedTuple):
    """How long tuples of a kind of record are written and read."""

    kind: type[Any]
    fields: tuple[Field, ...]


def write_record(record: Any) -> dict[str, Any]:
    """The record as an object. Plain data inside is not copied."""
    write = shape_of(type(record)).write
    assert write is not None
    written: dict[str, Any] = write(record)
    return written


def read_record(kind: type[Any], data: Any) -> Any:
    """The record of this kind that the data stands for. Raises ConversionProblem."""
    return shape_of(kind).read(data)


def _inside(step: str | int, read: Read, data: Any) -> Any:
    """What `read` makes of data that stands under a name or number: problems say where they are."""
    try:
        return read(data)
    except ConversionProblem as problem:
        raise problem.within(step) from None


# --- leaves ------------------------------------------------------------------------------------


def _exactly(*kinds: type) -> Shape:
    """How plain values of these classes are written: as they are. A bool is no int."""
    words = " or ".join(kind.__name__ for kind in kinds)

    def read(data: Any) -> Any:
        if data.__class__ not in kinds:
            raise ConversionProblem((), f"{words} expected")
        return data

    return Shape(None, read)


def _enum(kind: type[Enum]) -> Shape:
    """How a member of an enum is written: as its value, a text."""
    members = {member.value: member for member in kind}

    def read(data: Any) -> Any:
        if data.__class__ is not str or data not in members:
            raise ConversionProblem((), f"one of {', '.join(members)} expected")
        return members[data]

    return Shape(lambda member: member.value, read)


def _address() -> Shape:
    """How an address is written: as its text. The same ones come again and again, so some are kept parsed."""
    known: dict[str, Address] = {}

    def read(data: Any) -> Address:
        if data.__class__ is not str:
            raise ConversionProblem((), "an address expected")
        address = known.get(data)
        if address is None:
            try:
                address = parse_address(data)
            except AddressProblem:
                raise ConversionProblem((), "an address expected") from None
            if len(known) < _KEPT_ADDRESSES:
                known[data] = address
        return address

    return Shape(str, read)


_KEPT_ADDRESSES: Final = 100_000


def _read_type(data: Any) -> Type:
    try:
        return type_from_json(data)
    except (ValueError, TypeError, RecursionError):
        raise ConversionProblem((), "a type expected") from None


# --- what holds others -------------------------------------------------------------------------


def _optional(inner: Shape) -> Shape:
    """How a value that may be None is written: null, or as it is otherwise."""
    write = inner.write
    return Shape(
        None if write is None else lambda value: None if value is None else write(value),
        lambda data: None if data is None else inner.read(data),
        is_plain=inner.is_plain,
    )


def _sequence(item: Shape) -> Shape:
    """How a tuple of any length is written: as a list, or as a table."""
    write = item.write
    write_list: Write = list if write is None else lambda value: [write(element) for element in value]

    def read(data: Any) -> tuple[Any, ...]:
        if item.table is not None and data.__class__ is dict:
            return read_table(data, item.table.kind, item.table.fields)
        if data.__class__ is not list:
            raise ConversionProblem((), "a list expected")
        try:
            return tuple([item.read(element) for element in data])
        except ConversionProblem:
            # Read again, slower, for the number of the element that is wrong.
            return tuple([_inside(index, item.read, element) for index, element in enumerate(data)])

    def write_many(value: Any) -> Any:
        is_long = item.table is not None and len(value) >= SHORTEST
        table = write_table(value, item.table.fields) if item.table is not None and is_long else None
        return write_list(value) if table is None else table

    return Shape(write_list if item.table is None else write_many, read)


def _fixed(items: tuple[Shape, ...]) -> Shape:
    """How a tuple of one length is written: as a list, each element in its own way."""

    def write(value: tuple[Any, ...]) -> list[Any]:
        return [
            element if item.write is None else item.write(element)
            for item, element in zip(items, value, strict=True)
        ]

    def read(data: Any) -> tuple[Any, ...]:
        if data.__class__ is not list or len(data) != len(items):
            raise ConversionProblem((), f"a list of {len(items)} expected")
        return tuple([_inside(at, item.read, data[at]) for at, item in enumerate(items)])

    return Shape(write, read)


def _mapping(key: Any, value: Shape) -> Shape:
    """How a mapping is written: an object by text, a list of pairs by address."""
    if key is Address:
        pairs = _sequence(_fixed((shape_of(Address), value)))
        write_pairs = pairs.write
        assert write_pairs is not None
        return Shape(lambda mapping: write_pairs(mapping.items()), lambda data: dict(pairs.read(data)))
    if key is not str:
        raise TypeError(f"a mapping from {key} cannot be written")
    write = value.write

    def read(data: Any) -> dict[str, Any]:
        if data.__class__ is not dict:
            raise ConversionProblem((), "an object expected")
        if value is _PLAIN:
            return data
        return {name: _inside(name, value.read, inner) for name, inner in data.items()}

    if write is None:
        return Shape(None, read, is_plain=value.is_plain)
    return Shape(lambda mapping: {name: write(inner) for name, inner in mapping.items()}, read)


class _Field(NamedTuple):
    name: str
    shape: Shape
    default: Any  # NODEFAULT when the field must be there

    def column(self) -> Field:
        """The field in a table."""
        many = _sequence(self.shape)
        assert many.write is not None
        return Field(self.name, self.default, not self.shape.is_plain, many.write, many.read)


def _record(kind: type[Any]) -> Shape:
    """How a struct is written: an object without the fields that have their defaults."""
    hints = get_type_hints(kind)
    written = [_Field(field.name, shape_of(hints[field.name]), _default_of(field)) for field in fields(kind)]
    writers = [(field.name, field.shape.write, field.default) for field in written]
    readers = {field.name: field.shape.read for field in written}
    required = {field.name for field in written if field.default is NODEFAULT}

    def write(record: Any) -> dict[str, Any]:
        data = {}
        for name, write_field, default in writers:
            value = getattr(record, name)
            if value is default or (value == default and value.__class__ is default.__class__):
                continue
            data[name] = value if write_field is None else write_field(value)
        return data

    def read(data: Any) -> Any:
        if data.__class__ is not dict:
            raise ConversionProblem((), "an object expected")
        if not data.keys() <= readers.keys():
            raise ConversionProblem((), f'"{min(data.keys() - readers.keys())}" is not known here')
        if not required <= data.keys():
            raise ConversionProblem((), f'"{min(required - data.keys())}" is missing')
        return kind(**{name: _inside(name, readers[name], value) for name, value in data.items()})

    return Shape(write, read, _Table(kind, tuple([field.column() for field in written])))


def _default_of(field: Any) -> Any:
    """The default of a field as msgspec describes it."""
    if field.default is not NODEFAULT:
        return field.default
    return NODEFAULT if field.default_factory is NODEFAULT else field.default_factory()


def _one_of(kinds: tuple[type[Struct], ...]) -> Shape:
    """One of several records: an object with one key, the record's name."""
    shapes = {kind.__name__: shape_of(kind) for kind in kinds}

    def write(record: Any) -> dict[str, Any]:
        name = type(record).__name__
        write_as = shapes[name].write
        assert write_as is not None
        return {name: write_as(record)}

    def read(data: Any) -> Any:
        if data.__class__ is not dict or len(data) != 1 or not data.keys() <= shapes.keys():
            raise ConversionProblem((), f"one of {', '.join(shapes)} expected")
        ((name, fields_of),) = data.items()
        return _inside(name, shapes[name].read, fields_of)

    return Shape(write, read)


def _place() -> Shape:
    """How a place is written: as one of the records of all kinds. A domain's is imported when one is met."""

    def write(place: Any) -> dict[str, Any]:
        write_as = shape_of(type(place)).write
        assert write_as is not None
        return {type(place).__name__: write_as(place)}

    def read(data: Any) -> Any:
        if data.__class__ is dict and data.keys() == {Placement.__name__}:
            return _inside(Placement.__name__, shape_of(Placement).read, data[Placement.__name__])
        return _one_of(tuple(place_classes().values())).read(data)

    return Shape(write, read)


# --- from annotation to shape ------------------------------------------------------------------

_PLAIN: Final = Shape(None, lambda data: data, is_plain=True)
_LEAVES: Final[Mapping[Any, Shape]] = {
    Any: _PLAIN,
    str: _exactly(str),
    int: _exactly(int),
    bool: _exactly(bool),
    float: _exactly(float, int),
    Type: Shape(type_to_json, _read_type),
}


def shape_of(annotation: Any) -> Shape:
    """How values of an annotation are written and read. Raises TypeError for one that is not known."""
    return _build_shape(annotation)


@cache
def _build_shape(annotation: Any) -> Shape:
    """How values of an annotation are written and read."""
    if annotation in _LEAVES:
        return _LEAVES[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _union(arguments)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _sequence(shape_of(arguments[0]))
        return _fixed(tuple([shape_of(argument) for argument in arguments]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(arguments[0], shape_of(arguments[1]))
    if annotation is Address:
        return _address()
    if annotation is Place:
        return _place()
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _enum(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return _record(annotation)
    raise TypeError(f"{annotation} cannot be written")


def _union(arguments: tuple[Any, ...]) -> Shape:
    """How one of several types is written: plain ones, one or null, types of the language, or structs."""
    kinds = tuple(argument for argument in arguments if argument is not NoneType)
    if set(kinds) <= {str, int, bool, float}:
        inner = _exactly(*kinds)
    elif len(kinds) == 1:
        inner = shape_of(kinds[0])
    elif frozenset(kinds) == frozenset(get_args(Type)):
        inner = _LEAVES[Type]
    elif all(isinstance(kind, type) and issubclass(kind, Struct) for kind in kinds):
        inner = _one_of(kinds)
    else:
        raise TypeError(f"a union of {kinds} cannot be written")
    return _optional(inner) if len(kinds) < len(arguments) else inner
