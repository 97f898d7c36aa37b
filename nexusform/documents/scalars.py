"""Scalars of plain data: values that are neither mapping nor list."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from nexusform.json_data.plain_data import Path

# Result of a change that omits the key from its mapping.
OMITTED: Final = object()


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

    A scalar changed to OMITTED is left out of its mapping; in a list it becomes null, for equal positions.
    """
    if isinstance(data, Mapping):
        fields: dict[str, Any] = {}
        for name, part in data.items():
            changed_part = replace_scalars(part, change, (*path, name))
            if changed_part is not OMITTED:
                fields[name] = changed_part
        return fields
    if isinstance(data, list):
        items: list[Any] = []
        for number, part in enumerate(data):
            changed_part = replace_scalars(part, change, (*path, number))
            items.append(None if changed_part is OMITTED else changed_part)
        return items
    return change(path, data)


def parse_integer(value: Any, *, signed: bool = False) -> int | None:
    """Parse a whole number of at most 18 digits, possibly as text; None for anything else."""
    text = str(value)
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}" if signed else "[0-9]{1,18}", text) else None
