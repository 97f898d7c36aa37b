"""Walks over everything in plain data, down to the leaves: what is no mapping and no list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from nexusform.plain_data import Path

# What `rebuilt` leaves out of a mapping.
LEFT_OUT: Final = object()


def leaves(data: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf with its path, in the order of the data."""
    if isinstance(data, Mapping):
        for name, inner in data.items():
            yield from leaves(inner, (*at, name))
    elif isinstance(data, list):
        for number, inner in enumerate(data):
            yield from leaves(inner, (*at, number))
    else:
        yield at, data


def rebuilt(data: Any, change: Callable[[Path, Any], Any], at: Path = ()) -> Any:
    """The data with every leaf as `change` gives it for its path; a key of a mapping for which it gives
    LEFT_OUT is left out, in a list null stands in its place.
    """
    if isinstance(data, Mapping):
        parts = ((name, rebuilt(inner, change, (*at, name))) for name, inner in data.items())
        return {name: part for name, part in parts if part is not LEFT_OUT}
    if isinstance(data, list):
        parts_of_list = (rebuilt(inner, change, (*at, number)) for number, inner in enumerate(data))
        return [None if part is LEFT_OUT else part for part in parts_of_list]
    return change(at, data)
