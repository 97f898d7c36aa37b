"""Changes inside a text of manifests, by object and field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count
from nexusform.json_data.plain_data import get_mapping
from nexusform.rendering.notation.hcl_text import SENSITIVE, format_scalar

_MAX_TEXT_LENGTH: Final = 100_000  # characters; longer texts are not parsed
_MAX_VALUE_LENGTH: Final = 40
_SECRET_FIELDS: Final = frozenset({"data", "stringData"})  # of a Secret
_ABSENT: Final = object()


class FieldChange(Struct, frozen=True):
    """A field of an object (`replicas`, `containers[web].image`) before and after; "" = absent. `path` is ""
    for the object itself, when it is created or deleted.
    """

    title: str
    path: str
    old: str
    new: str

    @property
    def location(self) -> str:
        """The object and field: `Deployment web: replicas`."""
        return ": ".join(part for part in (self.title, self.path) if part)


def compare_manifests(old: object, new: object) -> tuple[FieldChange, ...]:
    """Return the changed fields of YAML or JSON by object; nothing for invalid, very long or reformatted texts."""
    before, after = _parse_objects(old), _parse_objects(new)
    if before is None or after is None:
        return ()
    changes: list[FieldChange] = []
    # Titles such as `Deployment web`, with the namespace if the name is ambiguous: `Deployment shop/web`.
    listed = list({**before, **after})
    uses = Counter(listed_key[2:] for listed_key in listed)
    titles = {}
    for listed_key in listed:
        _, namespace, kind, name = listed_key
        full = f"{namespace}/{name}" if namespace and uses[listed_key[2:]] > 1 else name
        titles[listed_key] = f"{kind} {full}".strip()
    for key, title in titles.items():
        old_object, new_object = before.get(key), after.get(key)
        if old_object is not None and new_object is not None:
            changes += _compare_fields(title, old_object, new_object)
        else:
            changes.append(
                FieldChange(title, "", _format_value(old_object or _ABSENT), _format_value(new_object or _ABSENT))
            )
    return tuple(changes)


_Key: TypeAlias = tuple[str, ...]  # API version, namespace, kind, name; all "" if not an object


def _parse_objects(text: object) -> dict[_Key, Mapping[str, Any]] | None:
    """Return the documents of a text by key, or None if the text is not such YAML."""
    if not isinstance(text, str) or len(text) > _MAX_TEXT_LENGTH:
        return None
    # Imported on demand.
    from nexusform.documents.yaml_documents import parse_yaml

    stream = parse_yaml("", text)
    objects: dict[_Key, Mapping[str, Any]] = {}
    for document in stream.documents:
        if not isinstance(document.data, dict):
            return None
        body = document.data
        metadata = body.get("metadata")
        metadata_map = get_mapping(metadata)
        parts = (body.get("apiVersion"), metadata_map.get("namespace"), body.get("kind"), metadata_map.get("name"))
        objects.setdefault(tuple(part if isinstance(part, str) else "" for part in parts), document.data)
    is_complete = not stream.findings and len(objects) == len(stream.documents)
    return objects if is_complete and objects else None


def _compare_fields(title: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldChange]:
    """Return the changed fields of one object by path."""
    changes: list[FieldChange] = []
    is_secret = old.get("kind") == "Secret"
    for path, before, after in _find_differences((), old, new):
        format_side = _replace_by_sensitive if is_secret and path[0] in _SECRET_FIELDS else _format_value
        last_list = max((at for at, step in enumerate(path) if step.startswith("[")), default=0)
        visible_steps = path[max(last_list - 1, 0) :] if last_list else path
        if len(visible_steps) > 1 and visible_steps[0] == "spec":
            visible_steps = visible_steps[1:]
        text = ""
        for step in visible_steps:
            text += step if step.startswith("[") or not text else f".{step}"
        changes.append(FieldChange(title, text, format_side(before), format_side(after)))
    return changes


_Path: TypeAlias = tuple[str, ...]  # field names; `[web]` is the item with that name, `[0]` the first item
_Difference: TypeAlias = tuple[_Path, Any, Any]


def _find_differences(path: _Path, old: Any, new: Any) -> list[_Difference]:
    """Return the innermost differences."""
    if old == new and (old.__class__ is bool) == (new.__class__ is bool):
        return []
    before, after = _split_into_parts(old), _split_into_parts(new)
    if not before or not after or isinstance(old, dict) != isinstance(new, dict):
        return [(path, old, new)]
    differences: list[_Difference] = []
    for name in {**before, **after}:
        differences += _find_differences((*path, name), before.get(name, _ABSENT), after.get(name, _ABSENT))
    return differences


def _split_into_parts(value: Any) -> dict[str, Any] | None:
    """Return the fields of a mapping or the items of a list by name or position; None for other values."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return None
    names = [item.get("name") if isinstance(item, dict) else None for item in value]
    if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return {f"[{name}]": item for name, item in zip(names, value, strict=True)}
    return {f"[{position}]": item for position, item in enumerate(value)}


def _replace_by_sensitive(value: Any) -> str:
    return "" if value is _ABSENT else SENSITIVE


def _format_value(value: Any) -> str:
    """Format a value in short form; "" if absent."""
    if value is _ABSENT:
        return ""
    if isinstance(value, dict):
        return f"{{{format_count(len(value), 'field')}}}"
    if isinstance(value, list):
        return f"[{format_count(len(value), 'item')}]"
    text = format_scalar(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f'{text[: _MAX_VALUE_LENGTH - 4]}..."'


_MAX_FIELDS: Final = 3


def describe_manifest_changes(changes: Sequence[FieldChange]) -> tuple[str, ...]:
    """Return a clause per object: `+Service web`, or `Deployment web` with its changed fields."""
    by_object: dict[str, list[FieldChange]] = {}
    for change in changes:
        by_object.setdefault(change.title, []).append(change)
    return tuple(_describe_object(title, members) for title, members in by_object.items())


def _describe_object(title: str, changes: Sequence[FieldChange]) -> str:
    if not changes[0].path:
        return f"{'+' if changes[0].new else '-'}{title}"
    texts = [_describe_field(change) for change in changes[:_MAX_FIELDS]]
    hidden_count = len(changes) - len(texts)
    if hidden_count:
        texts.append(f"{format_count(hidden_count, 'more field')}")
    return f"{title}: {', '.join(texts)}" if title else ", ".join(texts)


def _describe_field(change: FieldChange) -> str:
    if change.old == change.new:
        return f"{change.path} changed"
    if not change.old:
        return f"+{change.path} {change.new}"
    if not change.new:
        return f"-{change.path}"
    return f"{change.path} {change.old} -> {change.new}"
