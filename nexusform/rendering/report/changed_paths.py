"""Changed paths inside a nested argument known to differ. deepdiff is slow, so it is imported here only."""

from typing import Any, Final

from nexusform.diagnostics.phrases import format_count
from nexusform.json_data.plain_data import Path
from nexusform.rendering.notation.hcl_text import (
    KNOWN_AFTER_APPLY,
    SENSITIVE,
    format_attribute_name,
    format_scalar,
    quote_string,
)
from nexusform.values.typed_value import UNKNOWN

_ABSENT: Final = object()
_MAX_VALUE_LENGTH: Final = 60


def describe_changed_paths(name: str, old: Any, new: Any, marks: Any) -> list[str]:
    """Return clauses about the parts of an argument that differ between its old and new value, sorted by path:
    `labels.team "a" -> "b"`, `zones[1] removed`. `marks` has the sensitive paths (see `build_path_trie`).
    """
    from deepdiff import DeepDiff
    from deepdiff.helper import notpresent

    tree = DeepDiff(old, new, view="tree", ignore_numeric_type_changes=True, threshold_to_diff_deeper=0)
    parts: list[tuple[Path, Any, Any]] = []
    for levels in tree.values():  # by kind of difference
        for level in levels:
            old_part = _ABSENT if level.t1 is notpresent else level.t1
            new_part = _ABSENT if level.t2 is notpresent else level.t2
            parts.append(((name, *level.path(output_format="list")), old_part, new_part))
    parts.sort(key=_get_order)  # by path
    return [_describe_part(path, before, after, is_hidden=_is_marked(path, marks)) for path, before, after in parts]


def _get_order(part: tuple[Path, Any, Any]) -> list[tuple[bool, str]]:
    """Return the sort key of a part by its path: numbers (as nine digits) before keys."""
    path, _, _ = part
    return [(True, step) if isinstance(step, str) else (False, f"{step:09}") for step in path]


def _is_marked(path: Path, marks: Any) -> bool:
    """Return whether the value at a path is sensitive: the path, one above it or one below it is marked. `marks` is
    True if the whole value is marked, None if nothing is, else a dict of the marks of its parts.
    """
    node = marks
    for step in path:
        if node.__class__ is not dict:  # the marks end above the path: all of the value is marked (True), or nothing
            return node is True
        node = node.get(step)
    return node is not None  # a mark at the path, or marks of parts below it


def _describe_part(path: Path, old: Any, new: Any, *, is_hidden: bool) -> str:
    """Format the change of a part: sensitive, added, removed, or its old and new value."""
    text = format_path(path)
    if is_hidden:
        return f"{text} {SENSITIVE}"
    if old is _ABSENT:
        return f"{text} = {_format_value(new)}"
    return f"{text} removed" if new is _ABSENT else f"{text} {_format_value(old)} -> {_format_value(new)}"


def _format_value(plain: Any) -> str:
    """Format a value on one line, truncated if long; containers as their size, except short objects without nesting."""
    if plain is UNKNOWN:
        return KNOWN_AFTER_APPLY
    if plain.__class__ is dict:
        return _format_object(plain)
    if plain.__class__ is list:
        return f"[{format_count(len(plain), 'element')}]" if plain else "[]"
    text = format_scalar(plain)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 4]}..."


def _format_object(plain: dict[str, Any]) -> str:
    """Format a short object without nesting as `{a = 1, b = 2}`, another one as its number of attributes."""
    size = f"{{{format_count(len(plain), 'attribute')}}}"
    entries = {name: value for name, value in plain.items() if value is not None}  # null: not set
    if {dict, list} & {value.__class__ for value in entries.values()}:
        return size
    text = ", ".join(f"{name} = {format_scalar(value)}" for name, value in entries.items())
    return f"{{{text}}}" if len(text) + 2 <= _MAX_VALUE_LENGTH else size


def format_path(path: Path) -> str:
    """Format a path as in a configuration: `labels.team`, `zones[0]`."""
    text = str(path[0]) if path else ""
    for step in path[1:]:
        if isinstance(step, int):
            text += f"[{step}]"
        elif format_attribute_name(step) == step and "-" not in step:  # readable after a dot
            text += f".{step}"
        else:
            text += f"[{quote_string(step)}]"
    return text
