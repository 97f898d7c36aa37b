"""Scalars of plain data: values that are neither mapping nor list."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from nexusform.diagnostics.names import escape_name
from nexusform.json_data.plain_data import Path

# Result of a change that omits the key from its mapping.
OMITTED: Final = object()
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def list_scalars(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """List every scalar with its path, in the order of the data."""
    if isinstance(data, Mapping):
        for name, part in data.items():
            yield from list_scalars(part, (*path, name))
    elif isinstance(data, list):
        for number, part in enumerate(data):
            yield from list_scalars(part, (*path, number))
    else:
        yield path, data


def replace_scalars(data: Any, change: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """Return a copy of the data with every scalar replaced by `change(path, scalar)`.

    A scalar changed to OMITTED is left out of its mapping. In a list it becomes null, so that other
    items do not move.
    """
    if isinstance(data, Mapping):
        fields = {name: replace_scalars(item, change, (*path, name)) for name, item in data.items()}
        return {name: part for name, part in fields.items() if part is not OMITTED}
    if isinstance(data, list):
        items = [replace_scalars(item, change, (*path, number)) for number, item in enumerate(data)]
        return [None if part is OMITTED else part for part in items]
    return change(path, data)


def escape_names(data: Any) -> Any:
    """Return data of an inventory with every text and name of a field on one line.

    Names of machines, racks and zones pass into messages, values and state, so they are escaped
    once, where they are read. No field of an inventory that is read has several lines. Text that
    is invalid Unicode stays, so that readers report it.
    """
    if isinstance(data, str):
        return data if _SURROGATE.search(data) else escape_name(data)
    if isinstance(data, list):
        return [escape_names(part) for part in data]
    if isinstance(data, Mapping):
        return {
            escape_name(name) if isinstance(name, str) else name: escape_names(part)
            for name, part in data.items()
        }
    return data


def parse_integer(value: Any, *, signed: bool = False) -> int | None:
    """Parse a whole number of at most 18 digits, possibly as text; None for anything else."""
    text = str(value)
    return (
        int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}" if signed else "[0-9]{1,18}", text) else None
    )
