"""Who owns which field of an object on a hub, and what is left to them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nexusform.plain_data import Path, part_at

Body = Mapping[str, Any]


def left_to_others(sent: Body, shown: Body | None, ignored: Sequence[Path], manager: str) -> dict[str, Any]:
    """A body without the fields that ignore_changes names and somebody else owns. One that nobody else owns
    stays: left out, it would be taken away.
    """
    body = copy.deepcopy(dict(sent))
    for argument in ignored if shown is not None else ():
        path = ("spec", *(_camel(str(step)) for step in argument))
        if part_at(body, path) is not None and _has_other_owner(shown or {}, path, manager):
            _take_out(body, path)
    return body


def _has_other_owner(shown: Body, path: tuple[str, ...], manager: str) -> bool:
    for entry in (shown.get("metadata") or {}).get("managedFields") or ():
        is_ours = entry.get("manager") == manager and entry.get("operation") == "Apply"
        if not is_ours and path in set(_paths(entry.get("fieldsV1") or {}, len(path))):
            return True
    return False


def _paths(fields: Body, depth: int, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, inner in fields.items():
        if name.startswith("f:"):
            path = (*above, name[2:])
            yield path
            if len(path) < depth and isinstance(inner, Mapping):
                yield from _paths(inner, depth, path)


def _take_out(body: dict[str, Any], path: tuple[str, ...]) -> None:
    holder: Any = body
    for step in path[:-1]:
        holder = holder[step]
    holder.pop(path[-1], None)


def _camel(name: str) -> str:
    first_word, *further_words = name.split("_")
    return first_word + "".join(word.capitalize() for word in further_words)
