"""Changes inside a text of manifests, by object and field."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count, group_by, join_texts
from nexusform.json_data.plain_data import get_text, get_value_at_path
from nexusform.rendering.notation.hcl_text import SENSITIVE, format_scalar
from nexusform.rendering.report.difference_tree import is_equal_with_booleans

# Number of characters; longer texts are not parsed.
_MAX_TEXT_LENGTH: Final = 100_000
_MAX_VALUE_LENGTH: Final = 40
# Fields of a Secret.
_SECRET_FIELDS: Final = frozenset({"data", "stringData"})
_ABSENT: Final = object()
_MAX_FIELDS: Final = 3


class FieldChange(Struct, frozen=True):
    """A field of an object (`replicas`, `containers[web].image`) before and after; "" = absent.

    `path` is "" for the object itself, when it is created or deleted.
    """

    title: str
    path: str
    old: str
    new: str

    @property
    def location(self) -> str:
        """The object and field: `Deployment web: replicas`."""
        return join_texts((self.title, self.path), ": ")


def compare_manifests(old: object, new: object) -> tuple[FieldChange, ...]:
    """Return the changed fields of the Kubernetes objects in two YAML or JSON texts.

    Objects are paired by API version, namespace, kind and name. Return () if a text is invalid
    or too long.
    """
    before = _parse_objects(old)
    after = _parse_objects(new)
    if not before or not after:
        return ()
    changes: list[FieldChange] = []
    keys = list({**before, **after})
    # Above 1: in several namespaces.
    title_counts = Counter((kind, name) for _, _, kind, name in keys)
    for key in keys:
        _, namespace, kind, name = key
        # The namespace is part of the title if the name is ambiguous: `Deployment shop/web`.
        full_name = f"{namespace}/{name}" if namespace and title_counts[kind, name] > 1 else name
        title = f"{kind} {full_name}".strip()
        if key in before and key in after:
            changes += _compare_fields(title, before[key], after[key])
        else:
            # The whole object is added or removed.
            old_text = format_value(before.get(key, _ABSENT))
            new_text = format_value(after.get(key, _ABSENT))
            changes.append(FieldChange(title, path="", old=old_text, new=new_text))
    return tuple(changes)


# API version, namespace, kind, name; all "" if not an object.
_Key: TypeAlias = tuple[str, str, str, str]


def _parse_objects(text: object) -> dict[_Key, Mapping[str, Any]]:
    """Return the Kubernetes objects of a YAML text by key.

    Return {} for an unknown, too long or invalid text. Each document has to be a nonempty mapping
    with a key of its own; otherwise, return {}, too.
    """
    if not isinstance(text, str) or len(text) > _MAX_TEXT_LENGTH:
        return {}
    from nexusform.documents.yaml_documents import parse_yaml

    stream = parse_yaml("", text)
    if stream.findings:
        return {}
    objects: dict[_Key, Mapping[str, Any]] = {}
    for document in stream.documents:
        body = document.data
        if not body or not isinstance(body, dict):
            return {}
        namespace = get_text(body, "metadata", "namespace")
        name = get_text(body, "metadata", "name")
        objects[get_text(body, "apiVersion"), namespace, get_text(body, "kind"), name] = body
    return objects if len(objects) == len(stream.documents) else {}


def _compare_fields(
    title: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[FieldChange]:
    """Return the changed fields of an object: path (`containers[web].image`) and values.

    Data of a Secret is hidden.
    """
    changes: list[FieldChange] = []
    # The values of its data are not shown.
    is_secret = old.get("kind") == "Secret"
    for path, before, after in _find_differences((), old, new):
        is_hidden = is_secret and path[0] in _SECRET_FIELDS
        # Shorten the path: `containers[web].image` begins at its last list, `replicas` omits the
        # `spec` around it.
        last_item = max(
            (position for position, step in enumerate(path) if step.startswith("[")), default=0
        )
        # The name of a list precedes its item.
        steps = path[max(last_item - 1, 0) :]
        if len(steps) > 1 and steps[0] == "spec":
            steps = steps[1:]
        text = "".join(step if step.startswith("[") else f".{step}" for step in steps).removeprefix(
            "."
        )
        sides = (
            format_value(before, is_hidden=is_hidden),
            format_value(after, is_hidden=is_hidden),
        )
        changes.append(FieldChange(title, text, *sides))
    return changes


# Field names; `[web]` is the item with that name, `[0]` the first item.
_Path: TypeAlias = tuple[str, ...]
_Difference: TypeAlias = tuple[_Path, Any, Any]


def _find_differences(path: _Path, old: Any, new: Any) -> list[_Difference]:
    """Return the differences of two values, each with its path, old and new value.

    An example is `(("spec", "replicas"), 1, 2)`. Mappings and lists are compared by part, unless
    one is empty. The other side of an added or removed part is _ABSENT.
    """
    # `==` alone takes 1 and true as equal.
    if old == new and is_equal_with_booleans(old, new):
        return []
    before = _split_into_parts(old)
    after = _split_into_parts(new)
    # No parts to compare.
    if not before or not after or isinstance(old, dict) != isinstance(new, dict):
        return [(path, old, new)]
    differences: list[_Difference] = []
    for name in {**before, **after}:
        differences += _find_differences(
            (*path, name), before.get(name, _ABSENT), after.get(name, _ABSENT)
        )
    return differences


def _split_into_parts(value: Any) -> dict[str, Any] | None:
    """Return the parts of a value by name, None for a scalar.

    A mapping is returned as it is. The items of a list are by `[web]` if each has a name of its
    own, as containers do; else by position: `[0]`.
    """
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return None
    parts_by_name = {f"[{get_text(item, 'name')}]": item for item in value}
    has_distinct_names = len(parts_by_name) == len(value)
    if has_distinct_names and all(
        isinstance(get_value_at_path(item, "name"), str) for item in value
    ):
        return parts_by_name
    return {f"[{position}]": item for position, item in enumerate(value)}


def format_value(value: Any, *, is_hidden: bool = False) -> str:
    """Format a value in short form, such as `"a"` or `{2 fields}`.

    The text is "" for an absent value, a size for a container, and sensitive if `is_hidden`.
    """
    if value is _ABSENT:
        return ""
    if is_hidden:
        return SENSITIVE
    if isinstance(value, dict):
        return f"{{{format_count(len(value), 'field')}}}"
    if isinstance(value, list):
        return f"[{format_count(len(value), 'item')}]"
    text = format_scalar(value)
    # With the quotation mark of a text.
    ending = '..."'
    return (
        text
        if len(text) <= _MAX_VALUE_LENGTH
        else f"{text[: _MAX_VALUE_LENGTH - len(ending)]}{ending}"
    )


def describe_manifest_changes(changes: Sequence[FieldChange]) -> tuple[str, ...]:
    """Return a clause per object: `+Service web`, or `Deployment web` with its changed fields."""
    clauses: list[str] = []
    for title, object_changes in group_by(changes, lambda change: change.title).items():
        first_change = object_changes[0]
        # The only change: the object is created or deleted.
        if not first_change.path:
            clauses.append(f"{'+' if first_change.new else '-'}{title}")
            continue
        texts = list(map(describe_field, object_changes[:_MAX_FIELDS]))
        hidden_count = len(object_changes) - len(texts)
        if hidden_count:
            texts.append(f"{format_count(hidden_count, 'more field')}")
        clauses.append(join_texts((title, ", ".join(texts)), ": "))
    return tuple(clauses)


def describe_field(change: FieldChange) -> str:
    """Return `path old -> new`, `+path new` or `-path`.

    Return `path changed` if both short texts are the same.
    """
    # The values differ beyond the end of their cut texts, or are secret.
    if change.old == change.new:
        return f"{change.path} changed"
    if not change.old:
        return f"+{change.path} {change.new}"
    if not change.new:
        return f"-{change.path}"
    return f"{change.path} {change.old} -> {change.new}"
