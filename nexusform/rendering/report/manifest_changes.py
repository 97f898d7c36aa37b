"""What changed inside a text of manifests, told by object and field instead of by lines of the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.rendering.notation.hcl_text import SENSITIVE, scalar
from nexusform.words import counted

_LONGEST_TEXT: Final = 100_000  # characters that are read for a line of a report
_LONGEST_VALUE: Final = 40
_HIDDEN: Final = frozenset({"data", "stringData"})  # of a Secret
_ABSENT: Final = object()


class FieldChange(Struct, frozen=True):
    """A field of an object (`replicas`, `containers[web].image`) before and after; "" = absent.

    `path` is "" for the object itself, which comes or goes.
    """

    title: str
    path: str
    old: str
    new: str

    @property
    def place(self) -> str:
        """`Deployment web: replicas`."""
        return ": ".join(part for part in (self.title, self.path) if part)


def field_changes(old: object, new: object) -> tuple[FieldChange, ...]:
    """The fields that differ between two texts of YAML or JSON, object by object; empty where a text is none,
    has a mistake or is very long, or where only its layout changed.
    """
    before, after = _objects(old), _objects(new)
    if before is None or after is None:
        return ()
    changes: list[FieldChange] = []
    for key, title in _titles({**before, **after}).items():
        one, other = before.get(key), after.get(key)
        if one is not None and other is not None:
            changes += _fields(title, one, other)
        else:
            changes.append(FieldChange(title, "", _text(one or _ABSENT), _text(other or _ABSENT)))
    return tuple(changes)


_Key: TypeAlias = tuple[str, ...]  # API version, namespace, kind, name; all "" of what is no object


def _titles(keys: Iterable[_Key]) -> dict[_Key, str]:
    """`Deployment web`; `Deployment shop/web` where several namespaces have one of that name."""
    listed = list(keys)
    uses = Counter(key[2:] for key in listed)
    titles = {}
    for key in listed:
        _, namespace, kind, name = key
        full = f"{namespace}/{name}" if namespace and uses[key[2:]] > 1 else name
        titles[key] = f"{kind} {full}".strip()
    return titles


def _objects(text: object) -> dict[_Key, Mapping[str, Any]] | None:
    """The documents of a text by what tells them apart; None where it is no YAML of that kind."""
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        return None
    # YAML is loaded where there is any.
    from nexusform.documents.yaml_text import read_yaml

    stream = read_yaml("", text)
    objects: dict[_Key, Mapping[str, Any]] = {}
    for document in stream.documents:
        if not isinstance(document.data, dict):
            return None
        objects.setdefault(_key(document.data), document.data)
    is_whole = not stream.findings and len(objects) == len(stream.documents)
    return objects if is_whole and objects else None


def _key(body: Mapping[str, Any]) -> _Key:
    metadata = body.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    parts = (body.get("apiVersion"), named.get("namespace"), body.get("kind"), named.get("name"))
    return tuple(part if isinstance(part, str) else "" for part in parts)


def _fields(title: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldChange]:
    """The fields of one object that differ, by their paths."""
    changes: list[FieldChange] = []
    is_secret = old.get("kind") == "Secret"
    for path, before, after in _differences((), old, new):
        text = _hidden if is_secret and path[0] in _HIDDEN else _text
        changes.append(FieldChange(title, _path_text(path), text(before), text(after)))
    return changes


_Path: TypeAlias = tuple[str, ...]  # names of fields; `[web]` is the item of that name, `[0]` the first
_Difference: TypeAlias = tuple[_Path, Any, Any]


def _differences(path: _Path, old: Any, new: Any) -> list[_Difference]:
    """The innermost places that differ."""
    if old == new and (old.__class__ is bool) == (new.__class__ is bool):
        return []
    before, after = _parts(old), _parts(new)
    if not before or not after or isinstance(old, dict) != isinstance(new, dict):
        return [(path, old, new)]
    differences: list[_Difference] = []
    for name in {**before, **after}:
        differences += _differences((*path, name), before.get(name, _ABSENT), after.get(name, _ABSENT))
    return differences


def _parts(value: Any) -> dict[str, Any] | None:
    """The fields of a mapping, and the items of a list, by name where all have one; None of anything else."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return None
    names = [item.get("name") if isinstance(item, dict) else None for item in value]
    if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return {f"[{name}]": item for name, item in zip(names, value, strict=True)}
    return {f"[{position}]": item for position, item in enumerate(value)}


def _path_text(path: _Path) -> str:
    """From the last list on, as `containers[web].image`; else without the `spec` that most objects have."""
    last = max((at for at, step in enumerate(path) if step.startswith("[")), default=0)
    shown = path[max(last - 1, 0) :] if last else path
    if len(shown) > 1 and shown[0] == "spec":
        shown = shown[1:]
    text = ""
    for step in shown:
        text += step if step.startswith("[") or not text else f".{step}"
    return text


def _hidden(value: Any) -> str:
    return "" if value is _ABSENT else SENSITIVE


def _text(value: Any) -> str:
    """A value in short; "" where there is none."""
    if value is _ABSENT:
        return ""
    if isinstance(value, dict):
        return f"{{{counted(len(value), 'field')}}}"
    if isinstance(value, list):
        return f"[{counted(len(value), 'item')}]"
    text = scalar(value)
    return text if len(text) <= _LONGEST_VALUE else f'{text[: _LONGEST_VALUE - 4]}..."'


# --- in a line ---------------------------------------------------------------------------------

_MOST_FIELDS: Final = 3


def change_words(changes: Sequence[FieldChange]) -> tuple[str, ...]:
    """A clause per object: `Deployment web: replicas 3 -> 5`, `+Service web`."""
    by_object: dict[str, list[FieldChange]] = {}
    for change in changes:
        by_object.setdefault(change.title, []).append(change)
    return tuple(_clause(title, members) for title, members in by_object.items())


def _clause(title: str, changes: Sequence[FieldChange]) -> str:
    if not changes[0].path:
        return f"{'+' if changes[0].new else '-'}{title}"
    texts = [_turned(change) for change in changes[:_MOST_FIELDS]]
    left = len(changes) - len(texts)
    if left:
        texts.append(f"{counted(left, 'more field')}")
    return f"{title}: {', '.join(texts)}" if title else ", ".join(texts)


def _turned(change: FieldChange) -> str:
    if change.old == change.new:
        return f"{change.path} changed"
    if not change.old:
        return f"+{change.path} {change.new}"
    if not change.new:
        return f"-{change.path}"
    return f"{change.path} {change.old} -> {change.new}"
