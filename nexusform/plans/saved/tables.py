"""Many records of one kind as a table: {"rows": how many, "columns": {field: column}}.

A column is {"all": value} where every record has the same, {"of": values, "at": [which one, row by row]}
where some have, and {"each": values}. A field that is at its default everywhere has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

from msgspec import NODEFAULT, Struct

from nexusform.plain_data import ConversionProblem

# Fewer records stand as objects, one by one, which people read more easily.
SHORTEST: Final = 32


class Field(NamedTuple):
    """A field of a record, and how a tuple of its values is written and read.

    `by_value`: equal values may stand once; False where what is written does not come back as it was, as
    tuples in plain data do. `default` is NODEFAULT when the field must be there.
    """

    name: str
    default: Any
    by_value: bool
    write_many: Callable[[Sequence[Any]], Any]
    read_many: Callable[[Any], tuple[Any, ...]]


def write_table(records: Sequence[Struct], fields: Sequence[Field]) -> dict[str, Any] | None:
    """The table of these records; None where it would have no row by row."""
    columns = {}
    for field in fields:
        column = _column([getattr(record, field.name) for record in records], field)
        if column is not None:
            columns[field.name] = column
    listed = any(column.keys() != {"all"} for column in columns.values())
    return {"rows": len(records), "columns": columns} if listed else None


def _column(values: list[Any], field: Field) -> dict[str, Any] | None:
    """The values of one field, None where all are its default."""
    try:
        numbers: dict[Any, int] = {}
        at = [numbers.setdefault((value.__class__, value), len(numbers)) for value in values]
    except TypeError:  # some cannot be compared at once
        return {"each": field.write_many(values)}
    different = [value for _, value in numbers]
    if len(different) == 1:
        only = different[0]
        if only.__class__ is field.default.__class__ and only == field.default:
            return None
    if len(different) == 1 and (field.by_value or different[0] is None):
        return {"all": field.write_many(different)[0]}
    if not field.by_value or len(different) * 2 > len(values):
        return {"each": field.write_many(values)}
    return {"of": field.write_many(different), "at": at}


def read_table(data: Mapping[str, Any], kind: type[Any], fields: Sequence[Field]) -> tuple[Any, ...]:
    """The records of a table. Raises ConversionProblem."""
    rows, columns = data.get("rows"), data.get("columns")
    if data.keys() != {"rows", "columns"} or rows.__class__ is not int or columns.__class__ is not dict:
        raise ConversionProblem((), "a list or a table expected")
    unknown = columns.keys() - {field.name for field in fields}
    if unknown:
        raise ConversionProblem(("columns",), f'"{min(unknown)}" is not known here')
    if all(column.__class__ is dict and column.keys() == {"all"} for column in columns.values()):
        raise ConversionProblem(("columns",), "a column with a value for each row expected")
    values = [_values(columns, field, rows) for field in fields]
    return tuple([kind(*row) for row in zip(*values, strict=False)])


def _values(columns: Mapping[str, Any], field: Field, rows: int) -> Any:
    """The values of one field, row by row."""
    if field.name in columns:
        try:
            return _read_column(columns[field.name], field, rows)
        except ConversionProblem as problem:
            raise problem.within(field.name).within("columns") from None
    if field.default is NODEFAULT:
        raise ConversionProblem(("columns",), f'"{field.name}" is missing')
    return repeat(field.default)


def _read_column(column: Any, field: Field, rows: int) -> Any:
    if column.__class__ is not dict:
        raise ConversionProblem((), "a column expected")
    if column.keys() == {"all"}:
        return repeat(field.read_many([column["all"]])[0])
    if column.keys() == {"each"}:
        values = field.read_many(column["each"])
    elif column.keys() == {"of", "at"}:
        values = _picked(field.read_many(column["of"]), column["at"])
    else:
        raise ConversionProblem((), '"all", "each", or "of" and "at" expected')
    if len(values) != rows:
        raise ConversionProblem((), f"{rows} values expected")
    return values


def _picked(values: Sequence[Any], at: Any) -> tuple[Any, ...]:
    if at.__class__ is not list or set(map(type, at)) - {int}:
        raise ConversionProblem(("at",), "a list of int expected")
    if at and not 0 <= min(at) <= max(at) < len(values):
        raise ConversionProblem(("at",), f"numbers from 0 to {len(values) - 1} expected")
    return tuple([values[number] for number in at])
