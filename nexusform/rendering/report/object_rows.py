"""One-line rows of the changes of each object."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count
from nexusform.interfaces.plugins import UNFINISHED_KEY
from nexusform.json_data.plain_data import Path
from nexusform.placement_kinds.kinds import MAPS
from nexusform.plans.plan import Action, Change, Drift, Plan
from nexusform.rendering.notation.hcl_text import SENSITIVE, PathMarks, build_path_trie, format_scalar
from nexusform.rendering.report import wording
from nexusform.rendering.report.difference_tree import (
    CHANGED,
    CREATED,
    DELETED,
    Comparison,
    DifferenceNode,
    NodeKind,
    sort_by_source_order,
)
from nexusform.rendering.report.folding import fold_addresses, format_names
from nexusform.rendering.report.stanzas import SchemaLookup, describe_placements, is_reported
from nexusform.resources.address import Address
from nexusform.scheduling.machine_actions import MACHINE_ACTION_TYPE
from nexusform.schemas.block_schema import BlockSchema, get_order_attribute

_MAX_VALUE_LENGTH: Final = 40
_MAX_PARTS_LENGTH: Final = 60
_NO_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {}
_Attributes = Mapping[str, Any]


class ObjectRow(Struct, frozen=True):
    """One object: its address, its name ("" if the address contains it), and clauses about it."""

    address: Address
    symbol: str
    name: str
    clauses: tuple[str, ...]
    deposed: str = ""


class ObjectFold(Struct, frozen=True):
    """Objects with equal clauses: their addresses and names as one text each."""

    rows: tuple[ObjectRow, ...]
    symbol: str
    label: str
    name: str
    clauses: tuple[str, ...]


def build_object_folds(plan: Plan, find_schema: SchemaLookup) -> tuple[ObjectFold, ...]:
    """Build the rows of changed objects and fold similar ones. Linear in the number of changes."""
    placement_clauses = describe_placements(plan)
    rows = [
        _build_row(change, find_schema(change.address), placement_clauses.get(change.address, ()))
        for change in plan.changes
        if is_reported(change)
    ]
    rejected = set(plan.rejected)
    rows = [replace(row, clauses=("rejected", *row.clauses)) if str(row.address) in rejected else row for row in rows]
    return fold_rows(rows)


def build_drift_folds(drift: Iterable[Drift], find_schema: SchemaLookup) -> tuple[ObjectFold, ...]:
    """Build the folded rows of changes made outside of nexusform."""
    return fold_rows([_build_drift_row(object_drift, find_schema(object_drift.address)) for object_drift in drift])


def fold_rows(rows: Iterable[ObjectRow]) -> tuple[ObjectFold, ...]:
    """Fold rows with the same symbol and clauses; every row is in one fold."""
    listed = list(rows)
    kinds = [(row.symbol, _remove_key(row), row.deposed, bool(row.name)) for row in listed]
    folds = []
    for fold in fold_addresses([row.address for row in listed], kinds):
        members = tuple(listed[position] for position in fold.members)
        first_row = members[0]
        deposed = f" (deposed object {first_row.deposed})" if first_row.deposed else ""
        names = [row.name for row in members if row.name]
        text = format_names(names) or fold.keys
        clauses = _format_shared_clauses(_remove_key(first_row)) if len(members) > 1 else first_row.clauses
        folds.append(
            ObjectFold(rows=members, symbol=first_row.symbol, label=f"{fold.text}{deposed}", name=text, clauses=clauses)
        )
    return _fold_across_blocks(folds)


def _fold_across_blocks(folds: Sequence[ObjectFold]) -> tuple[ObjectFold, ...]:
    """Fold instances of blocks that differ in the final number of their name, or in the key of one module:
    `rack.site01[0..3]`, `rack.site02[0..3]` and so on.
    """
    folds_by_shape: dict[object, list[ObjectFold]] = {}
    for fold in folds:
        address = fold.rows[0].address
        modules = tuple(step.name for step in address.module)
        keys = tuple(row.address.key for row in fold.rows)
        shape = (fold.symbol, address.mode, address.type, modules, keys, fold.name, fold.clauses)
        is_foldable = len(fold.rows) > 1 and not fold.rows[0].deposed
        folds_by_shape.setdefault(shape if is_foldable else id(fold), []).append(fold)
    folded: list[ObjectFold] = []
    for members in folds_by_shape.values():
        addresses = [replace(member.rows[0].address, key=None) for member in members]
        # All keys of the blocks are equal, so they follow the text of the blocks.
        key_text = members[0].label.removeprefix(str(addresses[0]))
        for block_fold in fold_addresses(addresses, [None] * len(members)):
            blocks = [members[number] for number in block_fold.members]
            if len(blocks) == 1 or not key_text.startswith("["):
                folded += blocks
            else:
                rows = tuple(row for block in blocks for row in block.rows)
                folded.append(replace(blocks[0], rows=rows, label=f"{block_fold.text}{key_text}"))
    return tuple(folded)


def _remove_key(row: ObjectRow) -> tuple[str, ...]:
    """Replace the instance key at the end of clauses: for `ns["a"]`, `Namespace a` becomes `Namespace of its name`."""
    key = row.address.key
    if not isinstance(key, str) or key.isdecimal():
        return row.clauses
    return tuple(
        f"{clause.removesuffix(key)}of its name" if _KIND_PREFIX.fullmatch(clause.removesuffix(key)) else clause
        for clause in row.clauses
    )


_KIND_PREFIX: Final = re.compile(r"[A-Z][A-Za-z]+ ")  # kind of an object and the space before its name


def _format_shared_clauses(row_clauses: tuple[str, ...]) -> tuple[str, ...]:
    """Format the clauses of several objects: a count applies to each of them."""
    clauses = []
    for clause in row_clauses:
        count, bracket, note = clause.partition(" (")
        clauses.append(f"{count} each{bracket}{note}" if clause[:1].isdigit() else clause)
    return tuple(clauses)


# --- one object --------------------------------------------------------------------------------


def _build_row(change: Change, schema: BlockSchema | None, placement_clauses: tuple[str, ...]) -> ObjectRow:
    """Build the row of a change: its symbol, its name and its changed attributes."""
    if change.after is None or change.action is Action.FORGET:
        attributes = _select_visible(change.before, change.sensitive_before)
    else:
        attributes = _select_visible(change.after, change.sensitive_after)
    clauses = (
        _collect_facts(attributes)
        if change.action in _WHOLE_OBJECT_ACTIONS
        else _describe_changes(change, schema, placement_clauses)
    )
    note = _format_note(change)
    if clauses and note.startswith("("):
        # A bracketed note belongs to the last clause, not on its own line.
        clauses, note = (*clauses[:-1], f"{clauses[-1]} {note}"), ""
    return ObjectRow(
        address=change.address,
        symbol=wording.SYMBOLS[change.action],
        name=_find_name(change.address, attributes),
        clauses=(*clauses, note) if note else clauses,
        deposed=change.deposed,
    )


# Actions on a whole object: the row describes the object.
_WHOLE_OBJECT_ACTIONS: Final = (Action.CREATE, Action.READ, Action.DELETE, Action.FORGET)


def _select_visible(attributes: _Attributes | None, sensitive: Iterable[Path]) -> _Attributes:
    """Return the attributes without sensitive values."""
    hidden_names = {path[0] for path in sensitive if path}
    if () in sensitive:
        return {}
    return {name: value for name, value in (attributes or {}).items() if name not in hidden_names}


def _build_drift_row(drift: Drift, schema: BlockSchema | None) -> ObjectRow:
    """Build the row of a change made outside of nexusform."""
    name = _find_name(drift.address, _select_visible(drift.before, drift.sensitive))
    if drift.after is None:
        return ObjectRow(drift.address, DELETED, name, ("has been deleted",))
    marks = PathMarks.create(drift.sensitive, drift.sensitive)
    tree = Comparison().compare_objects(drift.before, drift.after, schema, marks)
    return ObjectRow(drift.address, "~", name, tuple(_build_clauses(tree, None, "")) or ("has changed",))


def _find_name(address: Address, attributes: _Attributes) -> str:
    """Return the name of the object, or "" if its address contains it."""
    name = attributes.get("name")
    address_names = {address.name, address.key}
    return name if isinstance(name, str) and name not in address_names else ""


_REASON_NOTES: Final = {
    "replace_because_tainted": "tainted",
    "replace_by_request": "as requested",
    "replace_by_triggers": "by replace_triggered_by",
    "replace_with_its_place": "with its parent",
    "delete_because_no_resource_config": "not in configuration",
    "delete_because_no_module": "its module is not in configuration",
    "delete_because_count_index": "out of range for count",
    "delete_because_each_key": "not in for_each",
    "delete_because_wrong_repetition": "count or for_each changed",
    "delete_because_no_move_target": "moved to an address that is not in configuration",
    "delete_because_enabled_false": "enabled is false",
    "read_because_config_unknown": "read during apply",
    "read_because_dependency_pending": "read during apply",
    "read_because_check_nested": "read during apply",
}


def _format_note(change: Change) -> str:
    """Format the reason of the change, its import id and its previous address."""
    notes = []
    if change.action is Action.FORGET:
        is_action = change.address.type == MACHINE_ACTION_TYPE
        notes.append("removed from state, nothing is sent" if is_action else "removed from state, not destroyed")
        if change.reason.startswith("forgot_because_lifecycle"):
            notes.append("(destroy = false)")
    elif change.reason in _REASON_NOTES:
        notes.append(f"({_REASON_NOTES[change.reason]})")
    if change.importing:
        notes.append(f'imported from "{change.importing}"')
    if change.previous_address is not None and change.reason != "delete_because_no_move_target":
        notes.append(f"moved from {change.previous_address}")
    return ", ".join(notes)


# --- what it is --------------------------------------------------------------------------------


def _describe_vms(attributes: _Attributes) -> str:
    """Return `33 VMs in 3 pools` or `7 VMs`; "" without VMs."""
    count = attributes.get("node_count")
    if not isinstance(count, int):
        vnfcs = attributes.get("vnfcs")
        return format_count(len(vnfcs), "VM") if isinstance(vnfcs, dict) and vnfcs else ""
    pools = attributes.get("agent_pool")
    if not isinstance(pools, dict):
        return format_count(count, "VM")
    number = len(pools) + (attributes.get("control_plane") is not None)
    return f"{format_count(count, 'VM')} in {format_count(number, 'pool')}"


def _describe_machines(attributes: _Attributes) -> str:
    """Return `16 machines` of a rack; "" without machines."""
    count = attributes.get("machine_count")
    return format_count(count, "machine") if isinstance(count, int) and count else ""


def _make_text_fact(name: str) -> Callable[[_Attributes], str]:
    """Return a function that reads the attribute of that name if it is a text."""

    def read_text(attributes: _Attributes) -> str:
        value = attributes.get(name)
        return value if isinstance(value, str) else ""

    return read_text


def _describe_machine_action(attributes: _Attributes) -> str:
    if "allow_workloads" not in attributes or not isinstance(attributes.get("machine_id"), str):
        return ""
    return f"{attributes.get('action')} of {attributes['machine_id'].rpartition('/')[2]}"


def _describe_location(attributes: _Attributes) -> str:
    """Return `location east`; "" without a location."""
    location = attributes.get("location")
    return f"location {location}" if isinstance(location, str) and location else ""


def _describe_status(attributes: _Attributes) -> str:
    """Return the status of an object that is not active."""
    status = attributes.get("status")
    return status if isinstance(status, str) and status not in ("", "active") else ""


def _describe_policy(attributes: _Attributes) -> str:
    """Return `PickN 2` of a cluster placement."""
    policy = attributes.get("policy")
    if not isinstance(policy, dict):
        return ""
    kind, number = policy.get("placement_type"), policy.get("number_of_clusters")
    if not isinstance(kind, str):
        return ""
    return f"{kind} {number}" if isinstance(number, int) else kind


def _describe_manifests(attributes: _Attributes) -> str:
    """Return `Deployment shop, Service shop` of a manifest."""
    objects = attributes.get("objects")
    if not isinstance(objects, list):
        return ""
    names = [f"{manifest.get('kind')} {manifest.get('name')}" for manifest in objects if isinstance(manifest, dict)]
    return format_names(names, 3)


# The key facts of an object of any type; nonempty ones are shown.
_FACTS: Final[tuple[Callable[[_Attributes], str], ...]] = (
    _describe_vms,
    _describe_machines,
    _make_text_fact("vm_sku_name"),
    _make_text_fact("machine_sku"),
    _describe_machine_action,
    _describe_policy,
    _describe_location,
    _describe_manifests,
    _describe_status,
)


def _collect_facts(attributes: _Attributes) -> tuple[str, ...]:
    """Return the nonempty facts of an object."""
    facts = (fact(attributes) for fact in _FACTS)
    return tuple(fact for fact in facts if fact)


# --- what changed ------------------------------------------------------------------------------


def _describe_changes(
    change: Change, schema: BlockSchema | None, placement_clauses: tuple[str, ...]
) -> tuple[str, ...]:
    """Return clauses about the changed arguments without computed values. `placement_clauses`: its placements."""
    if change.before is None or change.after is None:
        return ()
    marks = PathMarks.create(change.sensitive_before, change.sensitive_after, change.replace_paths)
    tree = Comparison().compare_objects(change.before, change.after, schema, marks)
    tree = sort_by_source_order(tree, change.configured_paths)
    texts = _describe_manifest_changes(change, tree) | _describe_nested_changes(change, tree)
    machines = frozenset(change.after.get("machines") or ())
    clauses = tuple(_build_clauses(tree, schema, "", texts, machines)) or placement_clauses
    return clauses or _describe_unfinished(change) or _describe_computed(tree)


def _describe_manifest_changes(change: Change, tree: DifferenceNode) -> dict[str, tuple[str, ...]]:
    """Return clauses about the changes inside manifest texts, by attribute."""
    kinds = (NodeKind.TEXT, NodeKind.JSON)
    names = [child.name for child in tree.children if child.kind in kinds and child.symbol == CHANGED]
    if not names:
        return {}
    from nexusform.rendering.report.manifest_changes import compare_manifests, describe_changes

    old_attributes, new_attributes = change.before or {}, change.after or {}
    clauses = {}
    for name in names:
        fields = compare_manifests(old_attributes.get(name), new_attributes.get(name))
        attribute = "" if any(field.title for field in fields) else f"{name} "
        clauses[name] = tuple(f"{attribute}{clause}" for clause in describe_changes(fields))
    return clauses


def _describe_nested_changes(change: Change, tree: DifferenceNode) -> dict[str, tuple[str, ...]]:
    """Return clauses about the changed paths of few parts deep inside an argument, by attribute."""
    clauses = {}
    for child in tree.children:
        changed = [part for part in child.children if part.symbol]
        is_nested = any(part.symbol == CHANGED and part.kind is not NodeKind.LEAF for part in changed)
        if child.symbol != CHANGED or child.kind not in _NESTED_KINDS or not is_nested or child.forces_replacement:
            continue
        from nexusform.rendering.report.changed_paths import describe_changed_paths

        marks = build_path_trie((*change.sensitive_before, *change.sensitive_after))
        old, new = (change.before or {})[child.name], (change.after or {})[child.name]
        paths = describe_changed_paths(child.name, old, new, marks)
        if len(paths) <= _MAX_PATHS:
            clauses[child.name] = tuple(paths)
    return clauses


_NESTED_KINDS: Final = (NodeKind.LIST, NodeKind.MAP, NodeKind.OBJECT)
_MAX_PATHS: Final = 4


def _describe_unfinished(change: Change) -> tuple[str, ...]:
    """Return a clause if an earlier apply began the change and did not finish it."""
    progress = (change.private or {}).get(UNFINISHED_KEY) or {}
    return ("continues an earlier apply",) if progress.get("in_progress") else ()


def _describe_computed(tree: DifferenceNode) -> tuple[str, ...]:
    """Return a clause if only computed values change; `-details` lists them."""
    return ("computed values change",) if any(child.symbol for child in tree.children) else ()


def _build_clauses(
    tree: DifferenceNode,
    schema: BlockSchema | None,
    path: str,
    texts: Mapping[str, tuple[str, ...]] = _NO_TEXTS,
    machines: AbstractSet[str] = frozenset(),
) -> list[str]:
    """Return a clause for every changed argument, nested blocks included, such as `pool1 count 24` with the
    new value. `texts` are the changes inside manifests by attribute, `machines` the machines of a rack.
    """
    clauses: list[str] = []
    for child in tree.children:
        if child.symbol and _is_configurable(child.name, schema):
            clauses += texts.get(child.name) or [f"{path}{child.name} {_format_change(child)}"]
    blocks: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for block in tree.blocks:
        if block.symbol:
            nested = schema.blocks.get(block.name) if schema else None
            block_clauses = _describe_block(block, nested.schema if nested else None)
            blocks.setdefault((block.symbol, block_clauses), []).append(block.label or block.name)
    for (symbol, block_clauses), names in blocks.items():
        sign = symbol if symbol in (CREATED, DELETED) else ""
        subject = f"{sign}{path}{format_names(names)}"
        if machines >= set(names):
            # Facts change, not machines; "all" is shorter than sixteen names.
            is_whole_rack = len(names) > 1 and len(machines) == len(names)
            machine_names = f"all {len(names):,} machines" if is_whole_rack else format_names(names)
            subject = f"{machine_names}{' no longer' if symbol == DELETED else ''}"
        clauses += [f"{subject}{clause}" for clause in block_clauses]
    return clauses


def _describe_block(block: DifferenceNode, schema: BlockSchema | None) -> tuple[str, ...]:
    """Return the clauses after the name of a block; equal blocks share them."""
    if block.symbol in (CREATED, DELETED):
        texts = []
        for child in block.children:
            attribute = schema.attributes.get(child.name) if schema else None
            value = child.old if child.symbol == DELETED else child.new
            if child.kind is NodeKind.LEAF and (attribute is None or value != attribute.default):
                texts.append(f"{child.name} = {format_scalar(value)}")
        text = ", ".join(texts)
        return (f" ({text})" if 0 < len(text) <= _MAX_VALUE_LENGTH else "",)
    return tuple(f" {clause}" for clause in _build_clauses(block, schema, ""))


def _is_configurable(name: str, schema: BlockSchema | None) -> bool:
    """Return whether users can set an argument. Without a schema, assume that they can."""
    if name in MAPS:
        return False
    if schema is None:
        return True
    attribute = schema.attributes.get(name)
    is_order = any(name == get_order_attribute(block) for block in schema.blocks)
    return attribute is not None and attribute.is_configurable and not is_order


def _format_leaf(node: DifferenceNode) -> str:
    """Format a primitive value, or the old value if it is deleted."""
    return format_scalar(node.old if node.symbol == DELETED else node.new)


def _format_change(node: DifferenceNode) -> str:
    """Format a changed value: old and new, `= 3`, `2 added, 1 removed`. Long values are counted."""
    replacement_note = " (forces replacement)" if node.forces_replacement else ""
    match node.kind:
        case NodeKind.LEAF:
            return f"{_format_scalar_change(node)}{replacement_note}"
        case NodeKind.SENSITIVE:
            return f"{SENSITIVE}{replacement_note}"
        case NodeKind.SET | NodeKind.LIST | NodeKind.MAP | NodeKind.OBJECT:
            return f"{_format_part_changes(node)}{replacement_note}"
        case _:
            return f"changed{replacement_note}"


def _format_scalar_change(node: DifferenceNode) -> str:
    """Format a changed primitive value: old and new, `= 3`, `2 removed`."""
    old, new = format_scalar(node.old), format_scalar(node.new)
    if len(old) + len(new) > _MAX_VALUE_LENGTH:
        return "changed"
    if node.symbol == CREATED:
        return f"= {new}"
    return f"{old} removed" if node.symbol == DELETED else f"{old} -> {new}"


_PART_VERBS: Final = ((CREATED, "added"), (DELETED, "removed"), (CHANGED, "changed"))


def _format_part_changes(node: DifferenceNode) -> str:
    """Format changed parts by name: `"1" added, "8" removed`; with long values, by count."""
    names, counts = [], []
    for symbol, verb in _PART_VERBS:
        parts = [child for child in node.children if child.symbol == symbol]
        if not parts:
            continue
        count = f"{len(parts):,} {verb}"
        counts.append(count)
        if not all(map(_get_part_name, parts)):
            names.append(count)
        elif symbol == CHANGED:
            names.append(_format_changed_entries(parts))
        else:
            names.append(f"{', '.join(map(_get_part_name, parts))} {verb}")
    if not names:
        return "changed"
    text = ", ".join(names)
    return text if len(text) <= _MAX_PARTS_LENGTH else ", ".join(counts)


def _format_changed_entries(changed: Sequence[DifferenceNode]) -> str:
    """Format changed entries with their old and new values."""
    texts = []
    for child in changed:
        is_leaf = child.kind is NodeKind.LEAF
        name = child.name if is_leaf else _get_part_name(child)
        texts.append(f"{name} {_format_scalar_change(child) if is_leaf else 'changed'}".strip())
    return ", ".join(texts)


# Attributes that identify the elements of a list.
_NAME_ATTRIBUTES: Final = ("name", "type", "cluster_name", "key")


def _get_part_name(node: DifferenceNode) -> str:
    """Return the name, value or identifying attribute of a part; "" without any."""
    if node.name or node.kind is NodeKind.LEAF:
        return node.name or _format_leaf(node)
    leaves_by_name = {child.name: child for child in node.children if child.kind is NodeKind.LEAF}
    return next((_format_leaf(leaves_by_name[name]) for name in _NAME_ATTRIBUTES if name in leaves_by_name), "")
