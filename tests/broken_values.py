"""Documents with one value of a wrong kind each, for tests of readers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
OTHER_VALUES: tuple[Any, ...] = (7, "x", [7], {"x": 7}, True)


def list_paths(data: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each value below the document itself."""
    steps = data if isinstance(data, dict) else range(len(data) if isinstance(data, list) else 0)
    for step in steps:
        yield (*path, step)
        yield from list_paths(data[step], (*path, step))


def break_values(document: Any) -> Iterator[tuple[Path, Any, Any]]:
    """Yield path and value of each wrong value, and the document with it."""
    for path in list_paths(document):
        for value in OTHER_VALUES:
            changed = copy.deepcopy(document)
            parent = changed
            for step in path[:-1]:
                parent = parent[step]
            old_value = parent[path[-1]]
            is_call = isinstance(old_value, dict) and any(
                key.startswith("get_") for key in old_value
            )
            # A text in place of a call is a value.
            if type(old_value) is not type(value) and not (is_call and value == "x"):
                parent[path[-1]] = value
                yield path, value, changed
