"""Who owns which field of an object on a hub, and what is left to them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.plain_data import Path, part_at

Body = Mapping[str, Any]
_BESIDE: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_IDENTITY: Final = frozenset({("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")})


def left_to_others(sent: Body, shown: Body | None, ignored: Sequence[Path], manager: str) -> dict[str, Any]:
    """A body without the fields that ignore_changes names and somebody else owns. One that nobody else owns
    stays: left out, it would be taken away.
    """
    body = copy.deepcopy(dict(sent))
    for argument in ignored if shown is not None else ():
        place = _place_of(argument, body)
        named = part_at(body, place)
        for path in [] if named is None else list(_said(named, place)):
            if _has_other_owner(shown or {}, path, manager):
                _take_out(body, path)
    return body


def _place_of(argument: Path, body: Body) -> Path:
    """Where a body says an argument, if it does. Labels have names of their own; a repeated block stands in
    the plural.
    """
    if argument[:1] == ("labels",):
        return ("metadata", *argument)
    place: Path = ("spec",)
    for step in argument:
        key = _camel(str(step))
        place = (*place, key if part_at(body, (*place, key)) is not None else f"{key}s")
    return place


def is_as_applied(sent: Body, shown: Body, manager: str) -> bool:
    """Whether an object shows what is sent, and a manager owns that and nothing else of it, so that applying
    it once more would change nothing. Where owners are told by the keys of a list this is not looked into.
    """
    owned = _owned(shown, manager)
    if not owned:
        return owned is not None and says_nothing(sent)
    if any(part_at(sent, path) != part_at(shown, path) for path in owned):
        return False
    return all(any(path[:end] in owned for end in range(1, len(path) + 1)) for path in _said(sent))


def says_nothing(sent: Body) -> bool:
    """Whether a body says no more than which object it is: who applies it owns nothing of it."""
    return next(_said(sent), None) is None


def owned_by_us(shown: Body, manager: str) -> set[Path]:
    """What a manager applied of an object; of a list whose elements have owners of their own all of it."""
    entries = (shown.get("metadata") or {}).get("managedFields") or ()
    ours = (one for one in entries if one.get("manager") == manager and one.get("operation") == "Apply")
    return {path for one in ours for path in _held(one.get("fieldsV1") or {})}


def owned_by_others(shown: Body, manager: str) -> dict[Path, str]:
    """What others than a manager own of what an object says, beside its labels, annotations and status: by
    path who does.
    """
    owners: dict[Path, list[str]] = {}
    for entry in (shown.get("metadata") or {}).get("managedFields") or ():
        who = str(entry.get("manager") or "unknown")
        if who == manager or entry.get("subresource"):
            continue
        for path in _held(entry.get("fieldsV1") or {}):
            if path[0] not in _BESIDE and part_at(shown, path) is not None:
                owners.setdefault(path, []).append(who)
    return {path: " and ".join(dict.fromkeys(who)) for path, who in sorted(owners.items())}


def _held(fields: Body, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """The paths of fields that somebody owns as a whole, or of which he owns elements."""
    if above and not fields:
        yield above
    inner = {name: each for name, each in fields.items() if name != "."}
    if any(not name.startswith("f:") for name in inner):
        yield above
        return
    for name, each in inner.items():
        yield from _held(each or {}, (*above, name[2:]))


def _owned(shown: Body, manager: str) -> set[Path] | None:
    """What a manager applied of an object; None where the elements of a list have owners of their own."""
    owned: set[Path] = set()
    for entry in (shown.get("metadata") or {}).get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            paths = list(_leaves(entry.get("fieldsV1") or {}))
            if None in paths:
                return None
            owned.update(path for path in paths if path is not None)
    return owned


def _leaves(fields: Body, above: tuple[str, ...] = ()) -> Iterator[Path | None]:
    """The paths of fields that have owners of their own; None for an element of a list."""
    inner = {name: each for name, each in fields.items() if name != "."}
    if above and not inner:
        yield above
    for name, each in inner.items():
        if not name.startswith("f:"):
            yield None
        else:
            yield from _leaves(each or {}, (*above, name[2:]))


def _said(sent: Any, above: Path = ()) -> Iterator[Path]:
    """The paths of what a body says, beside which object it is."""
    if isinstance(sent, Mapping) and (sent or not above):
        for name, each in sent.items():
            path = (*above, str(name))
            if path not in _IDENTITY:
                yield from _said(each, path)
    else:
        yield above


def let_go(sent: Body, shown: Body, manager: str) -> dict[Path, tuple[str, ...]]:
    """The fields that a manager applied of an object and applies no more, and who owns them beside it: with
    an owner a field stays, without one it goes.
    """
    paths = sorted(path for path in owned_by_us(shown, manager) if part_at(sent, path) is None)
    return {path: _other_owners(shown, path, manager) for path in paths if part_at(shown, path) is not None}


def _has_other_owner(shown: Body, path: Path, manager: str) -> bool:
    return bool(_other_owners(shown, path, manager))


def _other_owners(shown: Body, path: Path, manager: str) -> tuple[str, ...]:
    """Who beside a manager owns a field."""
    owners = [
        str(entry.get("manager") or "unknown")
        for entry in (shown.get("metadata") or {}).get("managedFields") or ()
        if (entry.get("manager"), entry.get("operation")) != (manager, "Apply")
        and _holds(entry.get("fieldsV1"), path)
    ]
    return tuple(dict.fromkeys(owners))


def _holds(fields: Any, path: Path) -> bool:
    """Whether fields hold a path, by itself or as a part of what is owned as a whole."""
    for step in path:
        if not fields or f"f:{step}" not in fields:
            return False
        fields = fields[f"f:{step}"]
        if not fields:
            return True
    return True


def _take_out(body: dict[str, Any], path: Path) -> None:
    """Take out a field, and what holds nothing but it."""
    for end in range(len(path), 1, -1):
        holder = part_at(body, path[: end - 1])
        del holder[path[end - 1]]
        if holder:
            return


def _camel(name: str) -> str:
    first_word, *further_words = name.split("_")
    return first_word + "".join(word.capitalize() for word in further_words)
