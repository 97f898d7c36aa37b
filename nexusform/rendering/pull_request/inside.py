"""What changed inside a value that is known to differ, one line per place, by deepdiff.

deepdiff is slow, so it is imported and asked only here, only for values that differ and are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.plain_data import Path
from nexusform.rendering.notation.hcl_text import KNOWN_AFTER_APPLY, SENSITIVE, attribute_name, quoted, scalar
from nexusform.rendering.notation.marks import trie
from nexusform.values import UNKNOWN

_ABSENT: Final = object()
_SHORT: Final = 60


class ChangedPart(Struct, frozen=True):
    """A place (`agent_pool["np1"].count`) and its value before and after as short text; "" = absent."""

    place: str
    old: str
    new: str


def changed_parts(
    before: Mapping[str, Any], after: Mapping[str, Any], sensitive: Iterable[Path] = (), limit: int = 50
) -> tuple[list[ChangedPart], int]:
    """The parts that differ, by attribute name and place, and how many more there are than `limit`."""
    marks = trie(sensitive)
    found: list[tuple[Path, Any, Any]] = []
    for name in sorted({**before, **after}):
        old, new = before.get(name), after.get(name)
        if old is new or old == new:
            continue
        if _is_container(old) and old.__class__ is new.__class__:
            found += [((name, *path), o, n) for path, o, n in _deep(old, new)]
        else:
            found.append(((name,), _absent(old), _absent(new)))
    parts = [_part(path, old, new, marks) for path, old, new in found[:limit]]
    return parts, max(0, len(found) - limit)


def _is_container(plain: Any) -> bool:
    return plain.__class__ is dict or plain.__class__ is list


def _absent(plain: Any) -> Any:
    return _ABSENT if plain is None else plain


def _deep(old: Any, new: Any) -> list[tuple[Path, Any, Any]]:
    from deepdiff import DeepDiff
    from deepdiff.helper import notpresent

    tree = DeepDiff(old, new, view="tree", ignore_numeric_type_changes=True, threshold_to_diff_deeper=0)
    found: list[tuple[Path, Any, Any]] = []
    for levels in tree.values():
        for level in levels:
            path = tuple(level.path(output_format="list"))
            before = _ABSENT if level.t1 is notpresent else level.t1
            after = _ABSENT if level.t2 is notpresent else level.t2
            found.append((path, before, after))
    return sorted(found, key=lambda item: [(s.__class__ is str, str(s).zfill(9)) for s in item[0]])


def _part(path: Path, old: Any, new: Any, marks: Any) -> ChangedPart:
    if _is_marked(path, marks):
        return ChangedPart(
            place_name(path), SENSITIVE if old is not _ABSENT else "", SENSITIVE if new is not _ABSENT else ""
        )
    return ChangedPart(place_name(path), _short(old), _short(new))


def _is_marked(path: Path, marks: Any) -> bool:
    # A mark on the way, at the place, or anywhere below it hides the value.
    node = marks
    for step in path:
        if node.__class__ is not dict:
            return node is True
        node = node.get(step)
    return node is not None


def _short(plain: Any) -> str:
    if plain is _ABSENT:
        return ""
    if plain is UNKNOWN:
        return KNOWN_AFTER_APPLY
    if plain.__class__ is dict:
        return f"{{{_counted(len(plain), 'attribute')}}}" if plain else "{}"
    if plain.__class__ is list:
        return f"[{_counted(len(plain), 'element')}]" if plain else "[]"
    text = scalar(plain)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 4]}..."


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def place_name(path: Path) -> str:
    """A path as users write it: `agent_pool["np1"].count`, `zones[0]`."""
    text = str(path[0]) if path else ""
    for step in path[1:]:
        if isinstance(step, int):
            text += f"[{step}]"
        elif attribute_name(step) == step and "-" not in step:
            text += f".{step}"
        else:
            text += f"[{quoted(step)}]"
    return text
