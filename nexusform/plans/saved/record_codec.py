"""Conversion of frozen records to plain JSON data and back, by their annotations. A record (Struct) becomes
an object of its fields; fields at their default are omitted, so a field added later reads as its default from
older data. Known annotations: str, int, float, bool, None, Any (plain data, unchanged), enums, records,
Address, Type, tuples, mappings from str or Address, and unions with None, or of scalars; an ObjectLocation is
a record of one of the kinds of placements. Tuples inside plain data are read as lists.

A long tuple of records becomes a table: {"rows": count, "columns": {field: column}}. A column is {"all": value}
if all records have the same value, {"of": values, "at": [index per row]} if some have, and {"each": values}
otherwise. A field at its default in all records has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from nexusform.json_data.plain_data import ConversionProblem
from nexusform.placement_kinds.placement_kind import get_location_classes
from nexusform.resources.address import Address, AddressProblem, parse_address
from nexusform.scheduling.placement_decision import ObjectLocation
from nexusform.scheduling.racks.vms import Placement
from nexusform.schemas.value_types import Type, build_type_json, parse_type_json

# Fewer records are written as single objects, which are easier to read.
MINIMUM_ROWS: Final = 32


class ColumnField(NamedTuple):
    """Field of a record, with the converters of a tuple of its values. `can_deduplicate`: equal values may be
    stored once; False if the written value differs after reading, as for tuples in plain data. `default` is
    NODEFAULT for a required field.
    """

    name: str
    default: Any
    can_deduplicate: bool
    write_many: Callable[[Sequence[Any]], Any]
    read_many: Callable[[Any], tuple[Any, ...]]


def write_table(records: Sequence[Struct], fields: Sequence[ColumnField]) -> dict[str, Any] | None:
    """Return the records as a table (columns); None if each field has one value for all records."""
    columns = {}
    for field in fields:
        column = _build_column_of_field([getattr(record, field.name) for record in records], field)
        if column is not None:
            columns[field.name] = column
    has_row_values = any(column.keys() != {"all"} for column in columns.values())  # needed to read the table
    return {"rows": len(records), "columns": columns} if has_row_values else None


def _build_column_of_field(values: list[Any], field: ColumnField) -> dict[str, Any] | None:
    """Return the column of a field: one value for all, each, or distinct ones by index; None if all are defaults."""
    try:
        numbers: dict[Any, int] = {}  # of distinct values, by class and value, because true equals 1
        indexes = [numbers.setdefault((value.__class__, value), len(numbers)) for value in values]
    except TypeError:  # some values are not hashable, so equal ones are not found
        return {"each": field.write_many(values)}
    distinct_values = [value for _, value in numbers]
    if len(distinct_values) == 1:
        [value] = distinct_values
        if value.__class__ is field.default.__class__ and value == field.default:
            return None
        if field.can_deduplicate or value is None:
            return {"all": field.write_many(distinct_values)[0]}
    if not field.can_deduplicate or len(distinct_values) * 2 > len(values):  # too few values are equal
        return {"each": field.write_many(values)}
    return {"of": field.write_many(distinct_values), "at": indexes}


def read_table(data: Mapping[str, Any], kind: type[Any], fields: Sequence[ColumnField]) -> tuple[Any, ...]:
    """Return the records of a table. Raises ConversionProblem if it has another form or unknown columns."""
    rows, columns = data.get("rows"), data.get("columns")
    if data.keys() != {"rows", "columns"} or rows.__class__ is not int or columns.__class__ is not dict:
        raise ConversionProblem(path=(), message="a list or a table expected")
    unknown_names = columns.keys() - {field.name for field in fields}
    if unknown_names:
        raise ConversionProblem(("columns",), f'"{min(unknown_names)}" is not known here')
    if all(column.__class__ is dict and column.keys() == {"all"} for column in columns.values()):  # `zip` would not end
        raise ConversionProblem(("columns",), "a column with a value for each row expected")
    values = [_read_field_values(columns, field, rows) for field in fields]
    return tuple([kind(*row) for row in zip(*values, strict=False)])  # some of the values are endless


def _read_field_values(columns: Mapping[str, Any], field: ColumnField, rows: int) -> Any:
    """Return the values of one field, one per row; one value of all rows, such as its default, repeats endlessly."""
    if field.name in columns:
        try:
            return _decode_column_values(columns[field.name], field, rows)
        except ConversionProblem as problem:
            raise problem.prepend_step(field.name).prepend_step("columns") from None
    if field.default is NODEFAULT:
        raise ConversionProblem(("columns",), f'"{field.name}" is missing')
    return repeat(field.default)  # a column is omitted if all rows have the default


def _decode_column_values(column: Any, field: ColumnField, rows: int) -> Any:
    """Decode a column: one value for all rows (endless), one for each row, or distinct values with a number per row."""
    if column.__class__ is not dict:
        raise ConversionProblem(path=(), message="a column expected")
    if column.keys() == {"all"}:
        return repeat(field.read_many([column["all"]])[0])
    if column.keys() == {"each"}:
        values = field.read_many(column["each"])
    elif column.keys() == {"of", "at"}:
        values = _select_values_by_index(field.read_many(column["of"]), column["at"])
    else:
        raise ConversionProblem(path=(), message='"all", "each", or "of" and "at" expected')
    if len(values) != rows:
        raise ConversionProblem(path=(), message=f"{rows} values expected")
    return values


def _select_values_by_index(values: Sequence[Any], indexes: Any) -> tuple[Any, ...]:
    """Return the value of each row by its number. Raises ConversionProblem for an invalid number."""
    if indexes.__class__ is not list or set(map(type, indexes)) - {int}:
        raise ConversionProblem(("at",), "a list of int expected")
    if indexes and not 0 <= min(indexes) <= max(indexes) < len(values):
        raise ConversionProblem(("at",), f"numbers from 0 to {len(values) - 1} expected")
    return tuple([values[number] for number in indexes])


Write = Callable[[Any], Any]
Read = Callable[[Any], Any]


class Shape(NamedTuple):
    """Converters for the values of one annotation; None: they are JSON data already. `table` converts many of
    them, if they are records. `is_plain`: they are data of any form.
    """

    write: Write | None
    read: Read
    table: _TableConverter | None = None
    is_plain: bool = False


class _TableConverter(NamedTuple):
    """Converter for long tuples of a kind of record."""

    kind: type[Any]
    fields: tuple[ColumnField, ...]


def write_record(record: Any) -> dict[str, Any]:
    """Return the record as an object. Plain data inside is not copied."""
    write = get_annotation_shape(type(record)).write
    assert write is not None
    document: dict[str, Any] = write(record)
    return document


def read_record(kind: type[Any], data: Any) -> Any:
    """Return the record of this kind from its data. Raises ConversionProblem."""
    return get_annotation_shape(kind).read(data)


def _read_with_path(step: str | int, read: Read, data: Any) -> Any:
    """Read data under a name or number: problems get its path."""
    try:
        return read(data)
    except ConversionProblem as problem:
        raise problem.prepend_step(step) from None


def _build_scalar_shape(*kinds: type) -> Shape:
    """Build the shape of values of these classes, written and read unchanged. A bool is no int."""
    class_names = " or ".join(kind.__name__ for kind in kinds)

    def read(data: Any) -> Any:
        if data.__class__ not in kinds:
            raise ConversionProblem(path=(), message=f"{class_names} expected")
        return data

    return Shape(write=None, read=read)  # nothing to convert


def _build_enum_shape(kind: type[Enum]) -> Shape:
    """Build the shape of an enum: its value, a text."""
    members = {member.value: member for member in kind}

    def read(data: Any) -> Any:
        if data.__class__ is not str or data not in members:
            raise ConversionProblem(path=(), message=f"one of {', '.join(members)} expected")
        return members[data]

    return Shape(write=lambda member: member.value, read=read)


def _build_address_shape() -> Shape:
    """Build the shape of an address: its text. Addresses repeat often, so parsed ones are cached."""
    cache: dict[str, Address] = {}

    def read(data: Any) -> Address:  # from JSON data
        if data.__class__ is not str:
            raise ConversionProblem(path=(), message="an address expected")
        address = cache.get(data)
        if address is None:
            try:
                address = parse_address(data)
            except AddressProblem:
                raise ConversionProblem(path=(), message="an address expected") from None
            if len(cache) < _ADDRESS_CACHE_LIMIT:
                cache[data] = address
        return address

    return Shape(write=str, read=read)


_ADDRESS_CACHE_LIMIT: Final = 100_000


def _parse_type_from_json(data: Any) -> Type:
    try:
        return parse_type_json(data)
    except (ValueError, TypeError, RecursionError):
        raise ConversionProblem(path=(), message="a type expected") from None


def _build_optional_shape(inner: Shape) -> Shape:
    """Build the shape of a value of the inner shape, or of None (null in JSON)."""
    write = inner.write  # None: the values are JSON data already, as null is
    return Shape(
        write=None if write is None else lambda value: None if value is None else write(value),
        read=lambda data: None if data is None else inner.read(data),
        is_plain=inner.is_plain,
    )


def _build_sequence_shape(item: Shape) -> Shape:
    """Build the shape of a tuple of any length: a list, or a table (a list per field) of many records."""
    write, converter = item.write, item.table
    write_list: Write = list if write is None else lambda value: [write(element) for element in value]

    def read(data: Any) -> tuple[Any, ...]:  # of `tuple[X, ...]`, from JSON data
        if converter is not None and data.__class__ is dict:  # records as a table of columns
            return read_table(data, converter.kind, converter.fields)
        if data.__class__ is not list:
            raise ConversionProblem(path=(), message="a list expected")
        try:
            return tuple([item.read(element) for element in data])
        except ConversionProblem:
            # Read again, slower, to find the index of the invalid element.
            return tuple([_read_with_path(index, item.read, element) for index, element in enumerate(data)])

    if converter is None:
        return Shape(write_list, read)

    def write_many(value: Any) -> Any:
        table = write_table(value, converter.fields) if len(value) >= MINIMUM_ROWS else None
        return write_list(value) if table is None else table

    return Shape(write_many, read)


def _build_tuple_shape(items: tuple[Shape, ...]) -> Shape:
    """Build the shape of a tuple of fixed length: a list with one shape per element."""

    def write(value: tuple[Any, ...]) -> list[Any]:
        return [
            element if item.write is None else item.write(element) for item, element in zip(items, value, strict=True)
        ]

    def read(data: Any) -> tuple[Any, ...]:
        if data.__class__ is not list or len(data) != len(items):
            raise ConversionProblem(path=(), message=f"a list of {len(items)} expected")
        return tuple([_read_with_path(index, item.read, data[index]) for index, item in enumerate(items)])

    return Shape(write, read)


def _build_mapping_shape(key: Any, value: Shape) -> Shape:
    """Build the shape of a mapping to values of a shape: an object for text keys, a list of pairs for addresses."""
    if key is Address:
        pairs = _build_sequence_shape(_build_tuple_shape((get_annotation_shape(Address), value)))
        write_pairs = pairs.write
        assert write_pairs is not None
        return Shape(lambda mapping: write_pairs(mapping.items()), lambda data: dict(pairs.read(data)))
    if key is not str:
        raise TypeError(f"a mapping from {key} cannot be written")
    write = value.write

    def read(data: Any) -> dict[str, Any]:
        if data.__class__ is not dict:
            raise ConversionProblem(path=(), message="an object expected")
        if value is _PLAIN:  # nothing to convert
            return data
        return {name: _read_with_path(name, value.read, inner) for name, inner in data.items()}

    if write is None:  # the values are JSON data already, so the mapping is, too
        return Shape(None, read, is_plain=value.is_plain)
    return Shape(lambda mapping: {name: write(inner) for name, inner in mapping.items()}, read)


class _RecordField(NamedTuple):
    name: str
    shape: Shape
    default: Any  # NODEFAULT when the field must be there

    def build_column(self) -> ColumnField:
        """Return the field as a table column."""
        sequence = _build_sequence_shape(self.shape)
        assert sequence.write is not None
        return ColumnField(self.name, self.default, not self.shape.is_plain, sequence.write, sequence.read)


def _build_record_shape(kind: type[Any]) -> Shape:
    """Build the shape of a struct: an object of its fields, without those at their defaults."""
    hints = get_type_hints(kind)
    record_fields = [
        _RecordField(field.name, get_annotation_shape(hints[field.name]), _get_default(field)) for field in fields(kind)
    ]
    writers = [(field.name, field.shape.write, field.default) for field in record_fields]
    readers = {field.name: field.shape.read for field in record_fields}
    required_names = {field.name for field in record_fields if field.default is NODEFAULT}

    def write(record: Any) -> dict[str, Any]:
        data = {}
        for name, write_field, default in writers:
            value = getattr(record, name)
            if value is default or (value == default and value.__class__ is default.__class__):  # true equals 1
                continue
            data[name] = value if write_field is None else write_field(value)  # None: JSON data already
        return data

    def read(data: Any) -> Any:  # the inverse of `write`
        if data.__class__ is not dict:
            raise ConversionProblem(path=(), message="an object expected")
        if not data.keys() <= readers.keys():
            raise ConversionProblem(path=(), message=f'"{min(data.keys() - readers.keys())}" is not known here')
        if not required_names <= data.keys():
            raise ConversionProblem(path=(), message=f'"{min(required_names - data.keys())}" is missing')
        return kind(**{name: _read_with_path(name, readers[name], value) for name, value in data.items()})

    return Shape(write, read, _TableConverter(kind, tuple([field.build_column() for field in record_fields])))


def _get_default(field: Any) -> Any:
    """Return the default of a field in msgspec's description."""
    if field.default is not NODEFAULT:
        return field.default
    return NODEFAULT if field.default_factory is NODEFAULT else field.default_factory()


def _build_record_union_shape(kinds: tuple[type[Struct], ...]) -> Shape:
    """Build the shape of one of several records: an object with one key, the record's name."""
    shapes = {kind.__name__: get_annotation_shape(kind) for kind in kinds}

    def write(record: Any) -> dict[str, Any]:
        name = type(record).__name__
        write_as = shapes[name].write
        assert write_as is not None
        return {name: write_as(record)}

    def read(data: Any) -> Any:
        if data.__class__ is not dict or len(data) != 1 or not data.keys() <= shapes.keys():
            raise ConversionProblem(path=(), message=f"one of {', '.join(shapes)} expected")
        ((name, field_values),) = data.items()
        return _read_with_path(name, shapes[name].read, field_values)

    return Shape(write, read)


def _build_location_shape() -> Shape:
    """Build the shape of a location: one of the records of all kinds, imported on first use."""

    def write(location: Any) -> dict[str, Any]:
        write_as = get_annotation_shape(type(location)).write
        assert write_as is not None
        return {type(location).__name__: write_as(location)}

    def read(data: Any) -> Any:
        if data.__class__ is dict and data.keys() == {Placement.__name__}:  # of a VM: other kinds are not imported
            return _read_with_path(Placement.__name__, get_annotation_shape(Placement).read, data[Placement.__name__])
        return _build_record_union_shape(tuple(get_location_classes().values())).read(data)

    return Shape(write, read)


_PLAIN: Final = Shape(None, lambda data: data, is_plain=True)
_SCALAR_SHAPES: Final[Mapping[Any, Shape]] = {
    Any: _PLAIN,
    str: _build_scalar_shape(str),
    int: _build_scalar_shape(int),
    bool: _build_scalar_shape(bool),
    float: _build_scalar_shape(float, int),
    Type: Shape(build_type_json, _parse_type_from_json),
}


def get_annotation_shape(annotation: Any) -> Shape:
    """Return the shape of an annotation. Raises TypeError if it is unknown."""
    return _build_shape_of_annotation(annotation)


@cache
def _build_shape_of_annotation(annotation: Any) -> Shape:
    """Build the shape (converters to and from JSON) of a type annotation. Raises TypeError for an unsupported one."""
    if annotation in _SCALAR_SHAPES:
        return _SCALAR_SHAPES[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _build_union_shape(arguments)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:  # tuple[X, ...]
            return _build_sequence_shape(get_annotation_shape(arguments[0]))
        return _build_tuple_shape(tuple([get_annotation_shape(argument) for argument in arguments]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _build_mapping_shape(arguments[0], get_annotation_shape(arguments[1]))
    if annotation is Address:
        return _build_address_shape()
    if annotation is ObjectLocation:
        return _build_location_shape()
    if isinstance(annotation, type):
        return _build_enum_shape(annotation) if issubclass(annotation, Enum) else _build_record_shape(annotation)
    raise TypeError(f"{annotation} cannot be written")


def _build_union_shape(arguments: tuple[Any, ...]) -> Shape:
    """Build the shape of a union of scalars, or of one type and None. Raises ValueError for others."""
    kinds = tuple(argument for argument in arguments if argument is not NoneType)
    if set(kinds) <= {str, int, bool, float}:
        inner = _build_scalar_shape(*kinds)
    else:
        [kind] = kinds  # ValueError for several
        inner = get_annotation_shape(kind)
    return _build_optional_shape(inner) if len(kinds) < len(arguments) else inner
