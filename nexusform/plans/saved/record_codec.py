"""Conversion of frozen records to plain JSON data and back, by their annotations.

A record (Struct) becomes an object of its fields; fields at their default are omitted, so a field
added later reads as its default from older data. Known annotations: str, int, float, bool, None,
Any (plain data, unchanged), enums, records, Address, Type, tuples, mappings from str or Address,
and unions with None, or of scalars; an ObjectLocation is a record of one of the kinds of
placements. Tuples inside plain data are read as lists. A long tuple of records becomes a table:
{"rows": count, "columns": {field: column}}. A column is {"all": value} if all records have the same
value, {"of": values, "at": [index per row]} if some have, and {"each": values} otherwise. A field
at its default in all records has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from nexusform.json_data.plain_data import ConversionProblem
from nexusform.placement_kinds.registry import get_location_classes
from nexusform.plans.saved.earlier_names import EARLIER_FIELDS, EARLIER_VALUES, EarlierField
from nexusform.resources.address import Address, AddressProblem, parse_address
from nexusform.scheduling.placement_decision import ObjectLocation
from nexusform.scheduling.racks.vms import Placement
from nexusform.schemas.value_types import Type, build_type_json, parse_type_json

# Fewer records are written as single objects, which are easier to read.
MINIMUM_ROWS: Final = 32


class ColumnField(NamedTuple):
    """Field of a record, with the converters of a tuple of its values.

    `can_deduplicate` means that equal values may be stored once; False if the written value differs
    after reading, as for tuples in plain data. `default` is NODEFAULT for a required field.
    """

    name: str
    default: Any
    can_deduplicate: bool
    write_many: Callable[[Sequence[Any]], Any]
    read_many: Callable[[Any], tuple[Any, ...]]


def write_table(records: Sequence[Struct], fields: Sequence[ColumnField]) -> dict[str, Any] | None:
    """Return the records as a table of columns.

    An example is `{"rows": 40, "columns": {"name": {"each": [...]}}}`. Return None if each field
    has one value for all records: `read_table` needs one column with a value per record.
    """
    columns = {}
    for field in fields:
        column = _build_column_of_field([getattr(record, field.name) for record in records], field)
        if column is not None:
            columns[field.name] = column
    has_row_values = any(column.keys() != {"all"} for column in columns.values())
    return {"rows": len(records), "columns": columns} if has_row_values else None


def _build_column_of_field(values: list[Any], field: ColumnField) -> dict[str, Any] | None:
    """Return the column of the values of a field, one value per row, in one of three forms.

    `{"all": "a"}` is one value of all rows. `{"of": ["a", "b"], "at": [0, 1, 0, 0]}` has the
    distinct values, and their index for each row. For few equal values, `{"each": [...]}` lists the
    value of each row. Return None if all values are the default.
    """
    try:
        # Of distinct values, by class and value, because true equals 1.
        numbers: dict[Any, int] = {}
        indexes = [numbers.setdefault((value.__class__, value), len(numbers)) for value in values]
    except TypeError:
        # Some values are not hashable, so equal ones are not found.
        return {"each": field.write_many(values)}
    distinct_values = [value for _, value in numbers]
    if len(distinct_values) == 1:
        [value] = distinct_values
        if value.__class__ is field.default.__class__ and value == field.default:
            return None
        if field.can_deduplicate or value is None:
            return {"all": field.write_many(distinct_values)[0]}
    # Too few values are equal.
    if not field.can_deduplicate or len(distinct_values) * 2 > len(values):
        return {"each": field.write_many(values)}
    return {"of": field.write_many(distinct_values), "at": indexes}


def read_table(
    data: Mapping[str, Any], kind: type[Any], fields: Sequence[ColumnField]
) -> tuple[Any, ...]:
    """Return the records of a table from `write_table`.

    A table looks like `{"rows": 2, "columns": {"rack": {"each": ["a",
    "b"]}}}`. A column `{"all": value}` repeats its value endlessly, so `zip` ends with the
    shortest other column. Therefore one column with a value for each row must exist. Raises
    ConversionProblem for another form or unknown columns.
    """
    rows = data.get("rows")
    columns = data.get("columns")
    if (
        data.keys() != {"rows", "columns"}
        or rows.__class__ is not int
        or columns.__class__ is not dict
    ):
        raise ConversionProblem(path=(), message="a list or a table expected")
    unknown_names = columns.keys() - {field.name for field in fields}
    if unknown_names:
        raise ConversionProblem(("columns",), f'"{min(unknown_names)}" is not known here')
    # `zip` would not end.
    if all(column.__class__ is dict and column.keys() == {"all"} for column in columns.values()):
        raise ConversionProblem(("columns",), "a column with a value for each row expected")
    values = [_read_field_values(columns, field, rows) for field in fields]
    # Some of the values are endless.
    return tuple([kind(*row) for row in zip(*values, strict=False)])


def _read_field_values(columns: Mapping[str, Any], field: ColumnField, rows: int) -> Any:
    """Return the values of one field, one per row.

    One value of all rows, such as its default, repeats endlessly.
    """
    if field.name in columns:
        try:
            return _decode_column_values(columns[field.name], field, rows)
        except ConversionProblem as problem:
            raise problem.prepend_step(field.name).prepend_step("columns") from None
    if field.default is NODEFAULT:
        raise ConversionProblem(("columns",), f'"{field.name}" is missing')
    # A column is omitted if all rows have the default.
    return repeat(field.default)


def _decode_column_values(column: Any, field: ColumnField, rows: int) -> Any:
    """Return the values of a column, one per row.

    `{"each": [...]}` lists them, and `{"of": ["a", "b"], "at": [0, 1, 0]}` has the distinct values
    with an index per row. `{"all": value}` repeats one value without end. Raises ConversionProblem
    for another form or number of values.
    """
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
    """Return the value of each row by its number.

    Raises ConversionProblem for an invalid number.
    """
    if indexes.__class__ is not list or set(map(type, indexes)) - {int}:
        raise ConversionProblem(("at",), "a list of int expected")
    if indexes and not 0 <= min(indexes) <= max(indexes) < len(values):
        raise ConversionProblem(("at",), f"numbers from 0 to {len(values) - 1} expected")
    return tuple([values[number] for number in indexes])


Write = Callable[[Any], Any]
Read = Callable[[Any], Any]


class Shape(NamedTuple):
    """Converters for the values of one annotation; None: they are JSON data already.

    `table` converts many of them, if they are records. `is_plain` means that they are data
    of any form.
    """

    write: Write | None
    read: Read
    table: _TableConverter | None = None
    is_plain: bool = False


class _TableConverter(NamedTuple):
    """Converter for long tuples of a kind of record."""

    kind: type[Any]
    fields: tuple[ColumnField, ...]
    earlier_fields: Mapping[str, EarlierField]


def write_record(record: Any) -> dict[str, Any]:
    """Return a record as an object of its fields, for JSON.

    Plain data in it is not copied.
    """
    write = get_annotation_shape(record.__class__).write
    assert write is not None
    document: dict[str, Any] = write(record)
    return document


def read_record(kind: Any, data: Any) -> Any:
    """Return the record of this kind from its data.

    Raises ConversionProblem.
    """
    return get_annotation_shape(kind).read(data)


def _read_with_path(step: str | int, read: Read, data: Any) -> Any:
    """Read data under a name or number.

    A problem in it gets this step in front of its path.
    """
    try:
        return read(data)
    except ConversionProblem as problem:
        raise problem.prepend_step(step) from None


def _build_scalar_shape(*kinds: type) -> Shape:
    """Build the shape (converters to JSON and back) of values of these classes, left unchanged.

    A bool does not count as an int.
    """
    # Nothing to convert.
    return Shape(write=None, read=partial(_read_scalar, kinds))


def _read_scalar(kinds: tuple[type, ...], data: Any) -> Any:
    """Return the data unchanged.

    Raises ConversionProblem unless it has one of these classes.
    """
    if data.__class__ not in kinds:
        raise ConversionProblem(
            path=(), message=f"{' or '.join(kind.__name__ for kind in kinds)} expected"
        )
    return data


def _read_enum(members: Mapping[str, Enum], earlier_values: Mapping[str, Enum], data: Any) -> Enum:
    """Read a member of an enum from its value, or from its value in earlier versions."""
    if data.__class__ is str and data in earlier_values:
        return earlier_values[data]
    if data.__class__ is not str or data not in members:
        raise ConversionProblem(path=(), message=f"one of {', '.join(members)} expected")
    return members[data]


def _read_address(cache: dict[str, Address], data: Any) -> Address:
    """Read an address from its text.

    Addresses repeat often, so parsed ones are cached.
    """
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


_ADDRESS_CACHE_LIMIT: Final = 100_000


def _parse_type_from_json(data: Any) -> Type:
    try:
        return parse_type_json(data)
    except (ValueError, TypeError, RecursionError):
        raise ConversionProblem(path=(), message="a type expected") from None


def _build_sequence_shape(item: Shape) -> Shape:
    """Build the shape (converters to JSON and back) of a tuple of any length.

    The JSON is a list, or a table for many records.
    """
    # None: the elements are JSON data already.
    write = item.write
    write_list: Write = (
        list if write is None else lambda value: [write(element) for element in value]
    )
    write_many = (
        write_list if item.table is None else partial(_write_records, write_list, item.table)
    )
    return Shape(write_many, partial(_read_elements, item))


def _write_records(write_list: Write, converter: _TableConverter, value: Sequence[Any]) -> Any:
    """Write records as a table if they are many and differ, else as a list."""
    table = write_table(value, converter.fields) if len(value) >= MINIMUM_ROWS else None
    return write_list(value) if table is None else table


def _read_elements(item: Shape, data: Any) -> tuple[Any, ...]:
    """Read `tuple[X, ...]` from JSON data; `item` is the shape of X."""
    # Records as a table of columns.
    if item.table is not None and data.__class__ is dict:
        table = _rename_earlier_columns(data, item.table.earlier_fields)
        return read_table(table, item.table.kind, item.table.fields)
    if data.__class__ is not list:
        raise ConversionProblem(path=(), message="a list expected")
    read = item.read
    try:
        return tuple([read(element) for element in data])
    except ConversionProblem:
        # Read again, slower, to find the index of the invalid element.
        return tuple([_read_with_path(index, read, element) for index, element in enumerate(data)])


def _read_tuple(items: tuple[Shape, ...], data: Any) -> tuple[Any, ...]:
    """Read a tuple of fixed length from a list, each element by its own shape.

    Raises ConversionProblem.
    """
    if data.__class__ is not list or len(data) != len(items):
        raise ConversionProblem(path=(), message=f"a list of {len(items)} expected")
    return tuple(
        [_read_with_path(index, item.read, data[index]) for index, item in enumerate(items)]
    )


def _build_tuple_shape(items: tuple[Shape, ...]) -> Shape:
    """Build the shape (converters to JSON and back) of a tuple of fixed length.

    The JSON is a list, and each element has its own shape.
    """
    return Shape(
        write=lambda value: [
            element if item.write is None else item.write(element)
            for item, element in zip(items, value, strict=True)
        ],
        read=partial(_read_tuple, items),
    )


def _build_mapping_shape(key: Any, value: Shape) -> Shape:
    """Build the shape (converters to JSON data and back) of a mapping.

    `value` is the shape of its values. With texts as keys it is written as an object: `{"a": 1}`.
    With addresses as keys it is written as a list of pairs: `[["nexus_rack.r1", 1]]`. Raises
    TypeError for other keys.
    """
    if key is Address:
        pairs = _build_sequence_shape(_build_tuple_shape((get_annotation_shape(Address), value)))
        write_pairs = pairs.write
        assert write_pairs is not None
        return Shape(
            lambda mapping: write_pairs(mapping.items()), lambda data: dict(pairs.read(data))
        )
    if key is not str:
        raise TypeError(f"a mapping from {key} cannot be written")
    write = value.write
    read = partial(_read_mapping, value)
    # The values are JSON data already, so the mapping is, too.
    if write is None:
        return Shape(None, read, is_plain=value.is_plain)
    return Shape(lambda mapping: {name: write(inner) for name, inner in mapping.items()}, read)


def _read_mapping(value: Shape, data: Any) -> dict[str, Any]:
    """Read a mapping from text to values of a shape."""
    if data.__class__ is not dict:
        raise ConversionProblem(path=(), message="an object expected")
    # Nothing to convert.
    if value is _PLAIN:
        return data
    return {name: _read_with_path(name, value.read, inner) for name, inner in data.items()}


def _build_record_shape(kind: type[Any]) -> Shape:
    """Build the shape (converters to JSON data and back) of a struct.

    The JSON is an object of its fields, without those at their defaults. Many structs of the kind
    are a table, with a column per field: a tuple of the values of this field.
    """
    hints = get_type_hints(kind)
    # Name, converter and default of each field.
    writers: list[tuple[str, Write | None, Any]] = []
    readers: dict[str, Read] = {}
    columns: list[ColumnField] = []
    for field in fields(kind):
        shape = get_annotation_shape(hints[field.name])
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        writers.append((field.name, shape.write, default))
        readers[field.name] = shape.read
        # Of the values of the column.
        sequence = _build_sequence_shape(shape)
        assert sequence.write is not None
        # Plain data may change by writing and reading: a tuple becomes a list.
        can_deduplicate = not shape.is_plain
        columns.append(
            ColumnField(field.name, default, can_deduplicate, sequence.write, sequence.read)
        )
    required_names = frozenset(name for name, _, default in writers if default is NODEFAULT)
    earlier_fields = EARLIER_FIELDS.get(kind, {})
    table = _TableConverter(kind, tuple(columns), earlier_fields)
    read = partial(_read_fields, kind, readers, required_names)
    if earlier_fields:
        read = partial(_read_earlier_fields, read, earlier_fields)
    return Shape(partial(_write_fields, writers), read, table)


def _write_fields(writers: Sequence[tuple[str, Write | None, Any]], record: Any) -> dict[str, Any]:
    """Write a record as an object, without fields at their defaults.

    A writer has the name of a field, its converter (None if its values are JSON data already)
    and its default.
    """
    data = {}
    for name, write_field, default in writers:
        value = getattr(record, name)
        # True equals 1.
        if value is default or (value == default and value.__class__ is default.__class__):
            continue
        data[name] = value if write_field is None else write_field(value)
    return data


def _read_fields(
    kind: type[Any], readers: Mapping[str, Read], required_names: frozenset[str], data: Any
) -> Any:
    """Read a record of this kind from an object of its fields."""
    if data.__class__ is not dict:
        raise ConversionProblem(path=(), message="an object expected")
    if not data.keys() <= readers.keys():
        raise ConversionProblem(
            path=(), message=f'"{min(data.keys() - readers.keys())}" is not known here'
        )
    if not required_names <= data.keys():
        raise ConversionProblem(
            path=(), message=f'"{min(required_names - data.keys())}" is missing'
        )
    return kind(
        **{name: _read_with_path(name, readers[name], value) for name, value in data.items()}
    )


def _read_earlier_fields(read: Read, earlier_fields: Mapping[str, EarlierField], data: Any) -> Any:
    """Read a record from an object that may have fields of earlier versions."""
    if data.__class__ is dict:
        data = _rename_fields(data, earlier_fields, lambda convert, value: convert(value))
    return read(data)


def _rename_earlier_columns(
    data: Mapping[str, Any], earlier_fields: Mapping[str, EarlierField]
) -> Mapping[str, Any]:
    """Return a table with the present columns for those of earlier versions."""
    columns = data.get("columns")
    if columns.__class__ is not dict:
        # It is reported where it is read.
        return data
    return {**data, "columns": _rename_fields(columns, earlier_fields, _convert_column)}


def _convert_column(convert: Callable[[Any], Any], column: Any) -> Any:
    """Return a column of a table with converted values."""
    if column.__class__ is not dict:
        # It is reported where it is read.
        return column
    converted = dict(column)
    if "all" in column:
        converted["all"] = convert(column["all"])
    for name in ("each", "of"):
        if column.get(name).__class__ is list:
            converted[name] = [convert(value) for value in column[name]]
    return converted


def _rename_fields(
    data: Mapping[str, Any],
    earlier_fields: Mapping[str, EarlierField],
    convert_value: Callable[[Callable[[Any], Any], Any], Any],
) -> Mapping[str, Any]:
    """Return fields or columns with those of earlier versions renamed and converted.

    An object with both names of a field is invalid, and is returned unchanged to be reported.
    """
    if data.keys().isdisjoint(earlier_fields):
        return data
    renamed: dict[str, Any] = {}
    for name, value in data.items():
        earlier = earlier_fields.get(name, EarlierField(name))
        if earlier.name is None:
            continue
        if earlier.name in renamed or (earlier.name != name and earlier.name in data):
            return data
        renamed[earlier.name] = (
            value if earlier.convert is None else convert_value(earlier.convert, value)
        )
    return renamed


def _read_location(data: Any) -> Any:
    """Read the location of a VM, pod or other object: `{"Placement": {...}}`.

    The key is the name of the class of the location, the value has the fields. Raises
    ConversionProblem for another form or an unknown class.
    """
    class_name = next(iter(data)) if data.__class__ is dict and len(data) == 1 else ""
    # The usual location, of a VM. Finding it in `get_location_classes` would import the code of
    # all other kinds.
    location_class: type[ObjectLocation] = Placement
    if class_name != Placement.__name__:
        classes = get_location_classes()
        if class_name not in classes:
            raise ConversionProblem(path=(), message=f"one of {', '.join(classes)} expected")
        location_class = classes[class_name]
    return _read_with_path(class_name, get_annotation_shape(location_class).read, data[class_name])


_PLAIN: Final = Shape(None, lambda data: data, is_plain=True)
_SCALAR_SHAPES: Final[Mapping[Any, Shape]] = {
    Any: _PLAIN,
    str: _build_scalar_shape(str),
    int: _build_scalar_shape(int),
    bool: _build_scalar_shape(bool),
    float: _build_scalar_shape(float, int),
    Type: Shape(build_type_json, _parse_type_from_json),
}


@cache
def get_annotation_shape(annotation: Any) -> Shape:
    """Return the shape of a type annotation.

    It has a function to write its values as JSON data, and one to read them. The shape of
    `tuple[int, ...]` is built from the shape of `int`. An enum is written as its value, a record as
    an object, and an address as text. Raises TypeError for an unsupported annotation.
    """
    if annotation in _SCALAR_SHAPES:
        return _SCALAR_SHAPES[annotation]
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin in (Union, UnionType):
        return _build_union_shape(arguments)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:  # tuple[X, ...]
            return _build_sequence_shape(get_annotation_shape(arguments[0]))
        return _build_tuple_shape(tuple(map(get_annotation_shape, arguments)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _build_mapping_shape(arguments[0], get_annotation_shape(arguments[1]))
    if annotation is Address:
        return Shape(str, partial(_read_address, {}))
    if annotation is ObjectLocation:
        # An object with one key, the name of the record.
        return Shape(
            lambda location: {type(location).__name__: write_record(location)}, _read_location
        )
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        members = {member.value: member for member in annotation}
        earlier_values = EARLIER_VALUES.get(annotation, {})
        return Shape(lambda member: member.value, partial(_read_enum, members, earlier_values))
    if isinstance(annotation, type):
        return _build_record_shape(annotation)
    raise TypeError(f"{annotation} cannot be written")


def _build_union_shape(arguments: tuple[Any, ...]) -> Shape:
    """Build the shape (converters to JSON data and back) of a union.

    It is a union of scalars, or of one type and None, which is null in JSON. Raises ValueError
    for other unions.
    """
    kinds = tuple(argument for argument in arguments if argument is not NoneType)
    if set(kinds) <= {str, int, bool, float}:
        inner = _build_scalar_shape(*kinds)
    else:
        # ValueError for several.
        [kind] = kinds
        inner = get_annotation_shape(kind)
    if len(kinds) == len(arguments):
        return inner
    # None: the values are JSON data already, as null is.
    write = inner.write
    return Shape(
        write=None if write is None else lambda value: None if value is None else write(value),
        read=lambda data: None if data is None else inner.read(data),
        is_plain=inner.is_plain,
    )
