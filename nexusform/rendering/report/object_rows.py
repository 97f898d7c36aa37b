"""What a plan does to each object, in a line: what it is, or what a person changed about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct

from nexusform.address import Address
from nexusform.placement_kinds.kinds import MAPS
from nexusform.plain_data import Path
from nexusform.plans.plan import Action, Change, Drift, Plan
from nexusform.ports import UNFINISHED
from nexusform.rendering.notation.hcl_text import SENSITIVE, Marks, scalar
from nexusform.rendering.report import wording
from nexusform.rendering.report.body import body_difference, in_written_order
from nexusform.rendering.report.difference_tree import CHANGED, CREATED, DELETED, Difference, NodeKind
from nexusform.rendering.report.folding import fold_addresses, names_text
from nexusform.rendering.report.report import SchemaOf, is_shown, placement_words
from nexusform.schema import BlockSchema, order_attribute
from nexusform.words import counted

_LONGEST_VALUE: Final = 40
_NO_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {}
_Attributes = Mapping[str, Any]


class ObjectRow(Struct, frozen=True):
    """One object: its address, its name ("" when the address says it), and clauses about it."""

    address: Address
    symbol: str
    name: str
    words: tuple[str, ...]
    deposed: str = ""


class ObjectFold(Struct, frozen=True):
    """Objects of which the same is said: their addresses and names as one text each."""

    rows: tuple[ObjectRow, ...]
    symbol: str
    label: str
    name: str
    words: tuple[str, ...]


def object_folds(plan: Plan, schema_of: SchemaOf) -> tuple[ObjectFold, ...]:
    """What applying does to objects, those that are alike put together. Linear in what changes."""
    words_of_places = placement_words(plan)
    rows = [
        _row(change, schema_of(change.address), words_of_places.get(change.address, ()))
        for change in plan.changes
        if is_shown(change)
    ]
    return fold_rows(rows)


def drift_folds(drift: Iterable[Drift], schema_of: SchemaOf) -> tuple[ObjectFold, ...]:
    """What changed outside, in the same way."""
    return fold_rows([_drift_row(object_drift, schema_of(object_drift.address)) for object_drift in drift])


def fold_rows(rows: Iterable[ObjectRow]) -> tuple[ObjectFold, ...]:
    """Rows whose symbol and clauses are the same as one; every row is in exactly one fold."""
    listed = list(rows)
    kinds = [(row.symbol, _without_key(row), row.deposed, bool(row.name)) for row in listed]
    folds = []
    for fold in fold_addresses([row.address for row in listed], kinds):
        members = tuple(listed[position] for position in fold.members)
        first_row = members[0]
        deposed = f" (deposed object {first_row.deposed})" if first_row.deposed else ""
        names = [row.name for row in members if row.name]
        text = names_text(names) or fold.keys
        words = _of_each(_without_key(first_row)) if len(members) > 1 else first_row.words
        folds.append(
            ObjectFold(
                rows=members, symbol=first_row.symbol, label=f"{fold.text}{deposed}", name=text, words=words
            )
        )
    return tuple(folds)


def _without_key(row: ObjectRow) -> tuple[str, ...]:
    """Clauses as all say them that are called as their key is: of `ns["a"]`, `Namespace of its name`."""
    key = row.address.key
    if not isinstance(key, str) or key.isdecimal():
        return row.words
    return tuple(
        f"{word.removesuffix(key)}of its name" if _KIND.fullmatch(word.removesuffix(key)) else word
        for word in row.words
    )


_KIND: Final = re.compile(r"[A-Z][A-Za-z]+ ")  # of an object, with the gap before its name


def _of_each(words: tuple[str, ...]) -> tuple[str, ...]:
    """Clauses as they are said of several objects: a count is that of each."""
    clauses = []
    for word in words:
        count, bracket, note = word.partition(" (")
        clauses.append(f"{count} each{bracket}{note}" if word[:1].isdigit() else word)
    return tuple(clauses)


# --- one object --------------------------------------------------------------------------------


def _row(change: Change, schema: BlockSchema | None, words_of_places: tuple[str, ...]) -> ObjectRow:
    """A change on one line: its symbol, its name and what of it changes."""
    if change.after is None or change.action is Action.FORGET:
        attributes = _visible(change.before, change.sensitive_before)
    else:
        attributes = _visible(change.after, change.sensitive_after)
    words = _about(attributes) if change.action in _WHOLE else _changed(change, schema, words_of_places)
    note = _note(change)
    if words and note.startswith("("):
        # What stands in brackets belongs to the last words, not on a line of its own.
        words, note = (*words[:-1], f"{words[-1]} {note}"), ""
    return ObjectRow(
        address=change.address,
        symbol=wording.SYMBOLS[change.action],
        name=_name(change.address, attributes),
        words=(*words, note) if note else words,
        deposed=change.deposed,
    )


# What happens to all of an object, so that the line says what it is.
_WHOLE: Final = (Action.CREATE, Action.READ, Action.DELETE, Action.FORGET)


def _visible(attributes: _Attributes | None, sensitive: Iterable[Path]) -> _Attributes:
    """The attributes without those that hold anything sensitive."""
    hidden = {path[0] for path in sensitive if path}
    if () in sensitive:
        return {}
    return {name: value for name, value in (attributes or {}).items() if name not in hidden}


def _drift_row(drift: Drift, schema: BlockSchema | None) -> ObjectRow:
    """What changed outside in an object, on one line."""
    name = _name(drift.address, _visible(drift.before, drift.sensitive))
    if drift.after is None:
        return ObjectRow(drift.address, DELETED, name, ("has been deleted",))
    marks = Marks.of(drift.sensitive, drift.sensitive)
    tree = body_difference(drift.before, drift.after, schema, marks=marks)
    return ObjectRow(drift.address, "~", name, tuple(_clauses(tree, None, "")) or ("has changed",))


def _name(address: Address, attributes: _Attributes) -> str:
    """The object's name where its address does not say it."""
    name = attributes.get("name")
    said_by_address = {address.name, address.key}
    return name if isinstance(name, str) and name not in said_by_address else ""


_NOTES: Final = {
    "replace_because_tainted": "tainted",
    "replace_by_request": "as requested",
    "replace_by_triggers": "by replace_triggered_by",
    "replace_with_its_place": "with what holds it",
    "delete_because_no_resource_config": "not in configuration",
    "delete_because_no_module": "its module is not in configuration",
    "delete_because_count_index": "out of range for count",
    "delete_because_each_key": "not in for_each",
    "delete_because_wrong_repetition": "count or for_each changed",
    "delete_because_no_move_target": "moved to what is not in configuration",
    "delete_because_enabled_false": "enabled is false",
    "read_because_config_unknown": "read during apply",
    "read_because_dependency_pending": "read during apply",
    "read_because_check_nested": "read during apply",
}


def _note(change: Change) -> str:
    """Why, or under which name it came."""
    notes = []
    if change.action is Action.FORGET:
        notes.append("leaves the state, is not destroyed")
    elif change.reason in _NOTES:
        notes.append(f"({_NOTES[change.reason]})")
    if change.importing:
        notes.append(f'imported from "{change.importing}"')
    if change.previous_address is not None and change.reason != "delete_because_no_move_target":
        notes.append(f"moved from {change.previous_address}")
    return ", ".join(notes)


# --- what it is --------------------------------------------------------------------------------


def _vms(attributes: _Attributes) -> str:
    """`33 VMs in 3 pools`, `7 VMs`."""
    count = attributes.get("node_count")
    if not isinstance(count, int):
        vnfcs = attributes.get("vnfcs")
        return counted(len(vnfcs), "VM") if isinstance(vnfcs, dict) and vnfcs else ""
    pools = attributes.get("agent_pool")
    if not isinstance(pools, dict):
        return counted(count, "VM")
    number = len(pools) + (attributes.get("control_plane") is not None)
    return f"{counted(count, 'VM')} in {counted(number, 'pool')}"


def _machines(attributes: _Attributes) -> str:
    """`16 machines` of a rack."""
    count = attributes.get("machine_count")
    return counted(count, "machine") if isinstance(count, int) and count else ""


def _text(name: str) -> Callable[[_Attributes], str]:
    """The attribute of that name where it is a text."""

    def text(attributes: _Attributes) -> str:
        value = attributes.get(name)
        return value if isinstance(value, str) else ""

    return text


def _location(attributes: _Attributes) -> str:
    """`location east` where one is given."""
    location = attributes.get("location")
    return f"location {location}" if isinstance(location, str) and location else ""


def _status(attributes: _Attributes) -> str:
    """The status of an object that is not simply active."""
    status = attributes.get("status")
    return status if isinstance(status, str) and status not in ("", "active") else ""


def _policy(attributes: _Attributes) -> str:
    """`PickN 2` of a placement on clusters."""
    policy = attributes.get("policy")
    if not isinstance(policy, dict):
        return ""
    kind, number = policy.get("placement_type"), policy.get("number_of_clusters")
    if not isinstance(kind, str):
        return ""
    return f"{kind} {number}" if isinstance(number, int) else kind


def _objects(attributes: _Attributes) -> str:
    """`Deployment shop, Service shop` of a manifest."""
    objects = attributes.get("objects")
    if not isinstance(objects, list):
        return ""
    names = [
        f"{manifest.get('kind')} {manifest.get('name')}" for manifest in objects if isinstance(manifest, dict)
    ]
    return names_text(names, 3)


# What a reader asks about an object first, whatever its type; the first that say something are shown.
_FACTS: Final[tuple[Callable[[_Attributes], str], ...]] = (
    _vms,
    _machines,
    _text("vm_sku_name"),
    _text("machine_sku"),
    _policy,
    _location,
    _objects,
    _status,
)


def _about(attributes: _Attributes) -> tuple[str, ...]:
    """What an object is, in a few clauses."""
    facts = (fact(attributes) for fact in _FACTS)
    return tuple(fact for fact in facts if fact)


# --- what changed ------------------------------------------------------------------------------


def _changed(change: Change, schema: BlockSchema | None, words_of_places: tuple[str, ...]) -> tuple[str, ...]:
    """What a person changed; figures that follow from it are left out. `placed` says what goes elsewhere."""
    if change.before is None or change.after is None:
        return ()
    marks = Marks.of(change.sensitive_before, change.sensitive_after, change.replace_paths)
    tree = body_difference(change.before, change.after, schema, marks=marks)
    tree = in_written_order(tree, change.written)
    texts = _inside_texts(change, tree)
    machines = frozenset(change.after.get("machines") or ())
    written = tuple(_clauses(tree, schema, "", texts, machines)) or words_of_places
    return written or _going_on(change) or _followed(tree)


def _inside_texts(change: Change, tree: Difference) -> dict[str, tuple[str, ...]]:
    """What changed inside the object's texts of manifests, by attribute."""
    kinds = (NodeKind.TEXT, NodeKind.JSON)
    names = [child.name for child in tree.children if child.kind in kinds and child.symbol == CHANGED]
    if not names:
        return {}
    from nexusform.rendering.report.manifest_changes import change_words, field_changes

    old_attributes, new_attributes = change.before or {}, change.after or {}
    inside = {}
    for name in names:
        fields = field_changes(old_attributes.get(name), new_attributes.get(name))
        attribute = "" if any(field.title for field in fields) else f"{name} "
        inside[name] = tuple(f"{attribute}{words}" for words in change_words(fields))
    return inside


def _going_on(change: Change) -> tuple[str, ...]:
    """That an earlier apply began it, and it is not over."""
    noted = (change.private or {}).get(UNFINISHED) or {}
    return ("what an earlier apply began goes on",) if noted.get("goes_on") else ()


def _followed(tree: Difference) -> tuple[str, ...]:
    """That figures change though nobody changed an argument; which, -details shows."""
    return ("its computed figures follow",) if any(child.symbol for child in tree.children) else ()


def _clauses(
    tree: Difference,
    schema: BlockSchema | None,
    path: str,
    texts: Mapping[str, tuple[str, ...]] = _NO_TEXTS,
    machines: AbstractSet[str] = frozenset(),
) -> list[str]:
    """`pool1 count 24 -> 30` for every argument that differs, nested blocks too; of manifests (`texts`, by
    attribute) what changed inside. `machines` are those of a rack.
    """
    clauses: list[str] = []
    for child in tree.children:
        if child.symbol and _is_written(child.name, schema):
            clauses += texts.get(child.name) or [f"{path}{child.name} {_value(child)}"]
    blocks: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for block in tree.blocks:
        if block.symbol:
            nested = schema.blocks.get(block.name) if schema else None
            block_words = _of_block(block, nested.schema if nested else None)
            blocks.setdefault((block.symbol, block_words), []).append(block.label or block.name)
    for (symbol, block_words), names in blocks.items():
        sign = symbol if symbol in (CREATED, DELETED) else ""
        subject = f"{sign}{path}{names_text(names)}"
        if machines >= set(names):
            # No machine comes or goes with what is said of it, and nobody reads sixteen names to learn that
            # they are all.
            drained = len(names) > 1 and len(machines) == len(names)
            which = f"all {len(names):,} machines" if drained else names_text(names)
            subject = f"{which}{' no longer' if symbol == DELETED else ''}"
        clauses += [f"{subject}{words}" for words in block_words]
    return clauses


def _of_block(block: Difference, schema: BlockSchema | None) -> tuple[str, ...]:
    """What stands behind a block's name; of blocks that are alike it is said once."""
    if block.symbol in (CREATED, DELETED):
        return (_contents(block, schema),)
    return tuple(f" {clause}" for clause in _clauses(block, schema, ""))


def _is_written(name: str, schema: BlockSchema | None) -> bool:
    """Whether an argument is one that users write; without a schema all are taken for it."""
    if name in MAPS:
        return False
    if schema is None:
        return True
    attribute = schema.attributes.get(name)
    is_order = any(name == order_attribute(block) for block in schema.blocks)
    return attribute is not None and attribute.configurable and not is_order


def _contents(block: Difference, schema: BlockSchema | None) -> str:
    """` (evacuate = true)`: what a block that comes or goes says, as far as it is short."""
    words = []
    for child in block.children:
        attribute = schema.attributes.get(child.name) if schema else None
        value = child.old if child.symbol == DELETED else child.new
        if child.kind is NodeKind.LEAF and (attribute is None or value != attribute.default):
            words.append(f"{child.name} = {scalar(value)}")
    text = ", ".join(words)
    return f" ({text})" if 0 < len(text) <= _LONGEST_VALUE else ""


def _leaf(node: Difference) -> str:
    """A primitive value as it is, or as it was where it goes."""
    return scalar(node.old if node.symbol == DELETED else node.new)


def _value(node: Difference) -> str:
    """`24 -> 30`, `+ 3`, `2 added, 1 removed`; what is long is counted."""
    forces = " (forces replacement)" if node.forces else ""
    match node.kind:
        case NodeKind.LEAF:
            return f"{_scalars(node)}{forces}"
        case NodeKind.SENSITIVE:
            return f"{SENSITIVE}{forces}"
        case NodeKind.SET | NodeKind.LIST | NodeKind.MAP | NodeKind.OBJECT:
            return f"{_parts(node)}{forces}"
        case _:
            return f"changed{forces}"


def _scalars(node: Difference) -> str:
    """A primitive value that changes: `24 -> 30`, `= 3`, `2 removed`."""
    old, new = scalar(node.old), scalar(node.new)
    if len(old) + len(new) > _LONGEST_VALUE:
        return "changed"
    if node.symbol == CREATED:
        return f"= {new}"
    return f"{old} removed" if node.symbol == DELETED else f"{old} -> {new}"


_PART_WORDS: Final = ((CREATED, "added"), (DELETED, "removed"), (CHANGED, "changed"))


def _parts(node: Difference) -> str:
    """`"1" added, "8" removed`; beyond a line, how many."""
    named, counted = [], []
    for symbol, word in _PART_WORDS:
        parts = [child for child in node.children if child.symbol == symbol]
        if not parts:
            continue
        count = f"{len(parts):,} {word}"
        counted.append(count)
        if not all(map(_part_name, parts)):
            named.append(count)
        elif symbol == CHANGED:
            named.append(_valued(parts))
        else:
            named.append(f"{', '.join(map(_part_name, parts))} {word}")
    if not named:
        return "changed"
    text = ", ".join(named)
    return text if len(text) <= _LONGEST_VALUE else ", ".join(counted)


def _valued(changed: Sequence[Difference]) -> str:
    """The entries that change with their values: `tier "core" -> "edge"`."""
    texts = []
    for child in changed:
        is_leaf = child.kind is NodeKind.LEAF
        name = child.name if is_leaf else _part_name(child)
        texts.append(f"{name} {_scalars(child) if is_leaf else 'changed'}".strip())
    return ", ".join(texts)


# The attributes by which people tell the elements of a list apart.
_NAMING: Final = ("name", "type", "cluster_name", "key")


def _part_name(node: Difference) -> str:
    """What a part is called: by its name, as a value, or by what tells it apart; "" for nothing of these."""
    if node.name or node.kind is NodeKind.LEAF:
        return node.name or _leaf(node)
    naming = {child.name: child for child in node.children if child.kind is NodeKind.LEAF}
    return next((_leaf(naming[name]) for name in _NAMING if name in naming), "")
