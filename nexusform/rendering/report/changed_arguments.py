"""Clauses about the changed arguments of one object."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import format_count, format_counts, group_by
from nexusform.json_data.plain_data import Path, get_mapping, get_value_at_path
from nexusform.placement_kinds.registry import MAPS
from nexusform.plans.plan import Change, Drift
from nexusform.rendering.notation.hcl_text import (
    KNOWN_AFTER_APPLY,
    SENSITIVE,
    PathMarks,
    build_path_trie,
    format_attribute_name,
    format_scalar,
    quote_string,
)
from nexusform.rendering.report.difference_tree import (
    CHANGED,
    CREATED,
    DELETED,
    Comparison,
    DifferenceNode,
    NodeKind,
    sort_by_source_order,
)
from nexusform.rendering.report.manifest_changes import compare_manifests, describe_manifest_changes
from nexusform.schemas.block_schema import UNFINISHED_KEY, BlockSchema, get_order_attribute
from nexusform.values.typed_value import UNKNOWN

_MAX_VALUE_LENGTH: Final = 40
_MAX_PARTS_LENGTH: Final = 60
_NO_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {}
_SIGNS: Final[Mapping[str, str]] = {CREATED: CREATED, DELETED: DELETED}
_PART_VERBS: Final[Mapping[str, str]] = {CREATED: "added", DELETED: "removed", CHANGED: "changed"}
# Attributes that identify the elements of a list.
_NAME_ATTRIBUTES: Final = ("name", "type", "cluster_name", "key")
_NESTED_KINDS: Final = (NodeKind.LIST, NodeKind.MAP, NodeKind.OBJECT)
_MAX_PATHS: Final = 4


def describe_changes(
    change: Change, schema: BlockSchema | None, placement_clauses: tuple[str, ...]
) -> tuple[str, ...]:
    """Return clauses about the changes of an object: `count 2 -> 3`.

    If no argument changes, return the `placement_clauses` about its placed objects. Without any,
    return a clause about an unfinished apply or computed values, and () for no change.
    """
    marks = PathMarks.create(change.sensitive_before, change.sensitive_after, change.replace_paths)
    tree = Comparison().compare_objects(change.before, change.after, schema, marks)
    tree = sort_by_source_order(tree, change.configured_paths)
    changed_arguments = [
        child
        for child in tree.children
        if child.symbol == CHANGED and _is_configurable(child.name, schema)
    ]
    texts = {
        **_describe_manifest_changes(change, changed_arguments),
        **_describe_nested_changes(change, changed_arguments),
    }
    machines = frozenset(get_mapping(change.after, "machines"))
    clauses = tuple(_build_clauses(tree, schema, texts, machines)) or placement_clauses
    if clauses:
        return clauses
    # Of an earlier apply, failed or in progress.
    unfinished = get_mapping(change.private, UNFINISHED_KEY)
    if unfinished.get("in_progress"):
        return ("continues an earlier apply",)
    # `-details` lists changed computed values.
    return ("computed values change",) if any(child.symbol for child in tree.children) else ()


def describe_drift(drift: Drift, schema: BlockSchema | None) -> tuple[str, ...]:
    """Return clauses about the changes of an object made outside of nexusform."""
    marks = PathMarks.create(drift.sensitive, drift.sensitive)
    tree = Comparison().compare_objects(drift.before, drift.after, schema, marks)
    # A schema would omit computed attributes.
    return tuple(_build_clauses(tree, schema=None))


def _describe_manifest_changes(
    change: Change, arguments: Iterable[DifferenceNode]
) -> dict[str, tuple[str, ...]]:
    """Return clauses about the changed fields of manifests, by changed argument of an object.

    Manifests are YAML or JSON texts: `{"manifest": ("Deployment web: replicas 3 -> 5",)}`.
    """
    clauses = {}
    for child in arguments:
        if child.kind not in (NodeKind.TEXT, NodeKind.JSON):
            continue
        name = child.name
        fields = compare_manifests(
            get_value_at_path(change.before, name), get_value_at_path(change.after, name)
        )
        # A title (`Deployment web`) is enough.
        prefix = "" if any(field.title for field in fields) else f"{name} "
        clauses[name] = tuple(f"{prefix}{clause}" for clause in describe_manifest_changes(fields))
    return clauses


def _describe_nested_changes(
    change: Change, arguments: Iterable[DifferenceNode]
) -> dict[str, tuple[str, ...]]:
    """Return clauses about changes deep inside of changed arguments, by argument.

    Arguments with many changes are omitted.
    """
    clauses = {}
    for child in filter(_has_nested_changes, arguments):
        marks = build_path_trie((*change.sensitive_before, *change.sensitive_after))
        old = get_value_at_path(change.before, child.name)
        new = get_value_at_path(change.after, child.name)
        paths = describe_changed_paths(child.name, old, new, marks)
        # More are described by their argument only.
        if len(paths) <= _MAX_PATHS:
            clauses[child.name] = tuple(paths)
    return clauses


def _has_nested_changes(node: DifferenceNode) -> bool:
    """Return whether a changed argument has a changed part with parts of its own.

    An example is a changed object in a list. An argument with forced replacement is described
    as a whole.
    """
    if node.kind not in _NESTED_KINDS or node.forces_replacement:
        return False
    return any(part.symbol == CHANGED and part.kind is not NodeKind.LEAF for part in node.children)


def _build_clauses(
    tree: DifferenceNode,
    schema: BlockSchema | None,
    texts: Mapping[str, tuple[str, ...]] = _NO_TEXTS,
    machines: AbstractSet[str] = frozenset(),
) -> list[str]:
    """Return a clause for every changed argument, nested blocks included.

    Examples are `count 2 -> 3` and `pool1,2 count 4 -> 5`. `texts` has other clauses for some
    arguments, by name. `machines` are the names of all machines of a rack.
    """
    clauses: list[str] = []
    for child in tree.children:
        # The part is changed, and an argument of users.
        if child.symbol and _is_configurable(child.name, schema):
            clause = f"{child.name} {_format_changed_value(child)}"
            # A labelled block, such as an agent pool, is replaced without its resource.
            if child.forces_replacement:
                clause += f" (replaces this {tree.name})" if tree.label else " (forces replacement)"
            clauses += texts.get(child.name) or [clause]
    return [*clauses, *_build_block_clauses(tree.blocks, schema, machines)]


def _build_block_clauses(
    blocks: Iterable[DifferenceNode], schema: BlockSchema | None, machines: AbstractSet[str]
) -> Iterator[str]:
    """Yield the clauses about changed nested blocks: `pool1,2 count 4 -> 5`.

    Equally changed blocks share a clause. If all of the `machines` of a rack change, they are
    `all 16 machines`.
    """
    # Names of equally changed blocks.
    names_by_change: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for block in blocks:
        if block.symbol:
            nested = schema.blocks.get(block.name) if schema else None
            block_clauses = _describe_block(block, nested.schema if nested else None)
            names_by_change.setdefault((block.symbol, block_clauses), []).append(
                block.label or block.name
            )
    for (symbol, block_clauses), names in names_by_change.items():
        # The blocks are machines of the rack.
        if machines >= set(names):
            is_whole_rack = len(machines) > 1 and len(names) == len(machines)
            subject = f"all {len(names):,} machines" if is_whole_rack else format_names(names)
            if symbol == DELETED:
                # Their settings are deleted: ` (evacuate = true)` follows.
                subject += " no longer"
        else:
            subject = f"{_SIGNS.get(symbol, '')}{format_names(names)}"
        yield from (f"{subject}{clause}" for clause in block_clauses)


def _describe_block(block: DifferenceNode, schema: BlockSchema | None) -> tuple[str, ...]:
    """Return texts to append to the name of a block.

    A changed block has one per changed argument: ` count 2 -> 3`. A created or deleted block has
    one with its values other than defaults: ` (count = 3, mode = "User")`. The text is "" if there
    are none, or if it would be too long.
    """
    if block.symbol not in (CREATED, DELETED):
        return tuple(f" {clause}" for clause in _build_clauses(block, schema))
    attributes = schema.attributes if schema else {}
    texts = []
    for child in block.children:
        # A compound value has no short form.
        if child.kind is not NodeKind.LEAF:
            continue
        value = child.old if child.symbol == DELETED else child.new
        is_default = child.name in attributes and value == attributes[child.name].default
        if not is_default:
            texts.append(f"{child.name} = {format_scalar(value)}")
    text = ", ".join(texts)
    is_shown = 0 < len(text) <= _MAX_VALUE_LENGTH
    return (f" ({text})" if is_shown else "",)


def _is_configurable(name: str, schema: BlockSchema | None) -> bool:
    """Return whether users can set an argument, unlike a computed one.

    Without a schema, assume that they can.
    """
    # A computed map of placed VMs, bindings or pods.
    if name in MAPS:
        return False
    if schema is None:
        return True
    block_orders = map(get_order_attribute, schema.blocks)
    # The order is computed from the positions of blocks in the configuration.
    if name in block_orders:
        return False
    attribute = schema.attributes.get(name)
    return attribute is not None and attribute.is_configurable


def _format_leaf_value(node: DifferenceNode) -> str:
    """Format a primitive value, or the old value if it is deleted."""
    return format_scalar(node.old if node.symbol == DELETED else node.new)


def _format_changed_value(node: DifferenceNode) -> str:
    """Format the change of an argument after its name.

    A scalar has its old and new value. A set, map or object has its changed parts: `2 added`.
    Anything else is `changed`.
    """
    if node.kind is NodeKind.LEAF:
        return _format_scalar_change(node)
    if node.kind is NodeKind.SENSITIVE:
        return SENSITIVE
    return _format_part_changes(node) if node.kind in (NodeKind.SET, *_NESTED_KINDS) else "changed"


def _format_scalar_change(node: DifferenceNode) -> str:
    """Format a changed primitive value.

    Examples are `2 -> 3`, `= 3`, and `2 removed`. Long values are `changed`.
    """
    old = format_scalar(node.old)
    new = format_scalar(node.new)
    if len(old) + len(new) > _MAX_VALUE_LENGTH:
        return "changed"
    if node.symbol == CREATED:
        return f"= {new}"
    return f"{old} removed" if node.symbol == DELETED else f"{old} -> {new}"


def _format_part_changes(node: DifferenceNode) -> str:
    """Format changed parts by name: `"1" added, "8" removed`, in the order added, removed, changed.

    If a part has no name, its group is only counted: `2 added`. If the names are too long,
    all groups are.
    """
    parts_by_symbol = group_by(node.children, lambda child: child.symbol)
    texts = []
    count_texts = []
    for symbol, verb in _PART_VERBS.items():
        parts = parts_by_symbol.get(symbol, [])
        part_names = list(map(_get_part_name, parts))
        # The text is empty without parts.
        count_text = format_counts([(len(parts), verb)])
        count_texts += count_text
        if not all(part_names):
            texts += count_text
        elif symbol == CHANGED:
            # With the values of each.
            texts += map(_format_changed_part, parts)
        elif parts:
            texts.append(f"{', '.join(part_names)} {verb}")
    text = ", ".join(texts) or "changed"
    return text if len(text) <= _MAX_PARTS_LENGTH else ", ".join(count_texts)


def _format_changed_part(node: DifferenceNode) -> str:
    """Format a changed part: its name and both values, or `NAME parts` for a nested one."""
    if node.kind is NodeKind.LEAF:
        return f"{node.name} {_format_scalar_change(node)}".strip()
    return f"{_get_part_name(node)} parts"


def _get_part_name(node: DifferenceNode) -> str:
    """Return a text to identify one part of a map, set or list.

    It is its own name, the value of a scalar, or the value of an attribute such as `name`. Return
    "" without any.
    """
    if node.name:
        return node.name
    if node.kind is NodeKind.LEAF:
        return _format_leaf_value(node)
    leaves_by_name = {child.name: child for child in node.children if child.kind is NodeKind.LEAF}
    for name in _NAME_ATTRIBUTES:
        if name in leaves_by_name:
            return _format_leaf_value(leaves_by_name[name])
    return ""


_ABSENT: Final = object()
_MAX_PATH_VALUE_LENGTH: Final = 60


def describe_changed_paths(name: str, old: Any, new: Any, marks: Any) -> list[str]:
    """Return clauses about the parts of an argument that differ, sorted by path.

    Examples are `labels.team "a" -> "b"` and `zones[1] removed`. `marks` has the sensitive paths as
    nested keys: `{"a": {0: True}}`.
    """
    from deepdiff import DeepDiff
    from deepdiff.helper import notpresent

    tree = DeepDiff(
        old, new, view="tree", ignore_numeric_type_changes=True, threshold_to_diff_deeper=0
    )
    parts: list[tuple[Path, Any, Any]] = []
    # By kind of difference.
    for levels in tree.values():
        for level in levels:
            old_part = _ABSENT if level.t1 is notpresent else level.t1
            new_part = _ABSENT if level.t2 is notpresent else level.t2
            parts.append(((name, *level.path(output_format="list")), old_part, new_part))
    parts.sort(key=_get_order)  # by path
    return [
        _describe_part(path, before, after, is_hidden=_is_marked(path, marks))
        for path, before, after in parts
    ]


def _get_order(part: tuple[Path, Any, Any]) -> list[tuple[bool, str]]:
    """Return the sort key of a part by its path: numbers (as nine digits) before keys."""
    path, _, _ = part
    return [(True, step) if isinstance(step, str) else (False, f"{step:09}") for step in path]


def _is_marked(path: Path, marks: Any) -> bool:
    """Return whether the value at a path is sensitive.

    The path, one above it or one below it is marked. `marks` is a dict of the marks of parts. It is
    True if the whole value is marked, and None if nothing is.
    """
    node = marks
    for step in path:
        # The marks end above the path: all of the value is marked (True), or nothing.
        if node.__class__ is not dict:
            return node is True
        node = node.get(step)
    # A mark at the path, or marks of parts below it.
    return node is not None


def _describe_part(path: Path, old: Any, new: Any, *, is_hidden: bool) -> str:
    """Format the change of a part of an argument with its path: `labels.team "a" -> "b"`.

    A side can be _ABSENT. The values of a sensitive part are hidden.
    """
    text = format_path(path)
    if is_hidden:
        return f"{text} {SENSITIVE}"
    if old is _ABSENT:
        return f"{text} = {_format_value(new)}"
    return (
        f"{text} removed"
        if new is _ABSENT
        else f"{text} {_format_value(old)} -> {_format_value(new)}"
    )


def _format_value(plain: Any) -> str:
    """Format a value on one line, truncated if it is long.

    Most containers are formatted as their size.
    """
    if plain is UNKNOWN:
        return KNOWN_AFTER_APPLY
    if plain.__class__ is dict:
        return _format_object(plain)
    if plain.__class__ is list:
        return f"[{format_count(len(plain), 'element')}]" if plain else "[]"
    text = format_scalar(plain)
    return (
        text if len(text) <= _MAX_PATH_VALUE_LENGTH else f"{text[: _MAX_PATH_VALUE_LENGTH - 4]}..."
    )


def _format_object(plain: dict[str, Any]) -> str:
    """Format a short object without nesting as `{a = 1, b = 2}`, without null attributes.

    An object with an inner map or list, or too long for its line, becomes its number of
    attributes: `{12 attributes}`.
    """
    size = f"{{{format_count(len(plain), 'attribute')}}}"
    # Null is not set.
    entries = {name: value for name, value in plain.items() if value is not None}
    if {dict, list} & {value.__class__ for value in entries.values()}:
        return size
    text = ", ".join(f"{name} = {format_scalar(value)}" for name, value in entries.items())
    return f"{{{text}}}" if len(text) + 2 <= _MAX_PATH_VALUE_LENGTH else size


def format_path(path: Path) -> str:
    """Format a path as in a configuration: `labels.team`, `zones[0]`."""
    text = str(path[0]) if path else ""
    for step in path[1:]:
        if isinstance(step, int):
            text += f"[{step}]"
        elif format_attribute_name(step) == step and "-" not in step:
            # The step is readable after a dot.
            text += f".{step}"
        else:
            text += f"[{quote_string(step)}]"
    return text
