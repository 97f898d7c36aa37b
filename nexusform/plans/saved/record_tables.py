"""Tables of many records of one kind: {"rows": count, "columns": {field: column}}. A column is {"all": value}
if all records have the same value, {"of": values, "at": [index per row]} if some have, and {"each": values}
otherwise. A field at its default in all records has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

from msgspec import NODEFAULT, Struct

from nexusform.json_data.plain_data import ConversionProblem

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
    """Return the table of these records; None if it would have no values per row."""
    columns = {}
    for field in fields:
        column = _build_column_of_field([getattr(record, field.name) for record in records], field)
        if column is not None:
            columns[field.name] = column
    has_row_values = any(column.keys() != {"all"} for column in columns.values())
    return {"rows": len(records), "columns": columns} if has_row_values else None


def _build_column_of_field(values: list[Any], field: ColumnField) -> dict[str, Any] | None:
    """Return the values of one field as a column, None if all are its default."""
    try:
        numbers: dict[Any, int] = {}
        indexes = [numbers.setdefault((value.__class__, value), len(numbers)) for value in values]
    except TypeError:  # some cannot be compared at once
        return {"each": field.write_many(values)}
    different = [value for _, value in numbers]
    if len(different) == 1:
        only = different[0]
        if only.__class__ is field.default.__class__ and only == field.default:
            return None
    if len(different) == 1 and (field.can_deduplicate or different[0] is None):
        return {"all": field.write_many(different)[0]}
    if not field.can_deduplicate or len(different) * 2 > len(values):
        return {"each": field.write_many(values)}
    return {"of": field.write_many(different), "at": indexes}


def read_table(data: Mapping[str, Any], kind: type[Any], fields: Sequence[ColumnField]) -> tuple[Any, ...]:
    """Return the records of a table. Raises ConversionProblem."""
    rows, columns = data.get("rows"), data.get("columns")
    if data.keys() != {"rows", "columns"} or rows.__class__ is not int or columns.__class__ is not dict:
        raise ConversionProblem((), "a list or a table expected")
    unknown = columns.keys() - {field.name for field in fields}
    if unknown:
        raise ConversionProblem(("columns",), f'"{min(unknown)}" is not known here')
    if all(column.__class__ is dict and column.keys() == {"all"} for column in columns.values()):
        raise ConversionProblem(("columns",), "a column with a value for each row expected")
    values = [_read_field_values(columns, field, rows) for field in fields]
    return tuple([kind(*row) for row in zip(*values, strict=False)])


def _read_field_values(columns: Mapping[str, Any], field: ColumnField, rows: int) -> Any:
    if field.name in columns:
        try:
            return _decode_column_values(columns[field.name], field, rows)
        except ConversionProblem as problem:
            raise problem.prepend_step(field.name).prepend_step("columns") from None
    if field.default is NODEFAULT:
        raise ConversionProblem(("columns",), f'"{field.name}" is missing')
    return repeat(field.default)


def _decode_column_values(column: Any, field: ColumnField, rows: int) -> Any:
    if column.__class__ is not dict:
        raise ConversionProblem((), "a column expected")
    if column.keys() == {"all"}:
        return repeat(field.read_many([column["all"]])[0])
    if column.keys() == {"each"}:
        values = field.read_many(column["each"])
    elif column.keys() == {"of", "at"}:
        values = _select_values_by_index(field.read_many(column["of"]), column["at"])
    else:
        raise ConversionProblem((), '"all", "each", or "of" and "at" expected')
    if len(values) != rows:
        raise ConversionProblem((), f"{rows} values expected")
    return values


def _select_values_by_index(values: Sequence[Any], indexes: Any) -> tuple[Any, ...]:
    if indexes.__class__ is not list or set(map(type, indexes)) - {int}:
        raise ConversionProblem(("at",), "a list of int expected")
    if indexes and not 0 <= min(indexes) <= max(indexes) < len(values):
        raise ConversionProblem(("at",), f"numbers from 0 to {len(values) - 1} expected")
    return tuple([values[number] for number in indexes])
