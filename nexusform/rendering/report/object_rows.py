"""One-line rows of the changes of each object."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import enclose, format_count, group_by, join_texts
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.json_data.plain_data import (
    Path,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
)
from nexusform.placement_kinds.registry import KINDS, get_kind_order
from nexusform.plans.impact.object_effects import compute_effect, describe_state
from nexusform.plans.plan import Action, Change, Drift, Mode, PlacementAction, Plan
from nexusform.rendering.report import plan_sentences
from nexusform.rendering.report.folding import fold_addresses
from nexusform.rendering.report.placement_rows import OUTCOMES, describe_placement_effect
from nexusform.resources.address import Address
from nexusform.scheduling.machine_actions import MACHINE_ACTION_TYPE
from nexusform.schemas.block_schema import BlockSchema

_Attributes = Mapping[str, Any]

SchemaLookup: TypeAlias = Callable[[Address], BlockSchema | None]
# Kind of an object, and the space before its name.
_KIND_PREFIX: Final = re.compile(r"[A-Z][A-Za-z]+ ")
# Actions on a whole object: the row describes the object.
_WHOLE_OBJECT_ACTIONS: Final = (Action.CREATE, Action.READ, Action.DELETE, Action.FORGET)


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


def create_schema_lookup(registries: PluginRegistries) -> SchemaLookup:
    """Return a function for the schema of an address."""
    return partial(_find_schema, registries)


def _find_schema(registries: PluginRegistries, address: Address) -> BlockSchema | None:
    """Return the schema of an address, None for an unknown type."""
    table = registries.data_sources if address.mode == "data" else registries.resource_types
    resource_type = table.get(address.type)
    return resource_type.schema if resource_type else None


def build_object_folds(plan: Plan, find_schema: SchemaLookup) -> tuple[ObjectFold, ...]:
    """Build a row per changed object and fold similar ones.

    A row may count the placed objects: `2 VMs to move`.
    """
    placement_counts = count_placements(plan)
    rows = []
    for change in plan.reported_changes:
        counts = placement_counts.get(change.address, NO_PLACEMENTS)
        # Such as `2 VMs to move`.
        placement_clauses: list[str] = []
        for kind in sorted(counts.kinds, key=get_kind_order):
            noun = KINDS[kind].short_noun or KINDS[kind].noun
            placement_clauses += [
                f"{format_count(count, noun)} {outcome}"
                for count, outcome in counts.list_counts(kind)
            ]
        row = _build_row(change, find_schema(change.address), tuple(placement_clauses))
        # By its provider, for example by a policy of the cluster.
        if str(change.address) in plan.verdicts.rejected:
            row = replace(row, clauses=("rejected", *row.clauses))
        rows.append(row)
    return fold_rows(rows)


def build_drift_folds(drift: Iterable[Drift], find_schema: SchemaLookup) -> tuple[ObjectFold, ...]:
    """Build the folded rows of changes made outside of nexusform."""
    rows = []
    for object_drift in drift:
        address = object_drift.address
        attributes = _select_visible_attributes(object_drift.before, object_drift.sensitive)
        symbol = "-"
        clauses: tuple[str, ...] = ("has been deleted",)
        if object_drift.after is not None:
            from nexusform.rendering.report.changed_arguments import describe_drift

            symbol = "~"
            clauses = describe_drift(object_drift, find_schema(address)) or ("has changed",)
        name = _find_name_missing_in_address(address, attributes)
        rows.append(ObjectRow(address, symbol, name, clauses))
    return fold_rows(rows)


def select_drift(plan: Plan) -> tuple[Drift, ...]:
    """Return the drift relevant to the plan; in a refresh-only plan, all of it."""
    if plan.options.mode is Mode.REFRESH_ONLY:
        return plan.observed.drift
    # No drift contributed to a change.
    if not plan.has_changes:
        return ()
    return tuple(drift for drift in plan.observed.drift if drift.relevant)


def fold_rows(rows: Iterable[ObjectRow]) -> tuple[ObjectFold, ...]:
    """Fold rows with the same symbol and clauses and with similar addresses: `rack["1".."8"]`.

    Every row is in one fold, and folds are in the order of their first rows.
    """
    unfolded = list(rows)
    # Rows are folded only if these parts are equal. Their clauses are compared without an instance
    # key at the end.
    compared_parts = [
        (row.symbol, _remove_key(row), row.deposed, bool(row.name)) for row in unfolded
    ]
    folds = []
    for fold in fold_addresses([row.address for row in unfolded], compared_parts):
        members = tuple(unfolded[position] for position in fold.members)
        first_row = members[0]
        # A label with many instance keys has only their number. Then they are listed here, unless
        # the rows have names.
        name_text = format_names(row.name for row in members if row.name) or fold.keys
        clauses = first_row.clauses
        # A count applies to each of the objects: `3 VMs each (tainted)`.
        if len(members) > 1:
            shared_clauses: list[str] = []
            for clause in _remove_key(first_row):
                text, bracket, note = clause.partition(" (")
                shared_clauses.append(
                    f"{text} each{bracket}{note}" if clause[:1].isdigit() else clause
                )
            clauses = tuple(shared_clauses)
        folds.append(
            ObjectFold(
                rows=members,
                symbol=first_row.symbol,
                label=plan_sentences.format_object_address(fold.text, first_row.deposed),
                name=name_text,
                clauses=clauses,
            )
        )
    return _fold_across_blocks(folds)


def _fold_across_blocks(folds: Sequence[ObjectFold]) -> tuple[ObjectFold, ...]:
    """Fold blocks of equal instance keys and numbered names.

    `rack.site01[0..3]` to `rack.site04[0..3]` become `rack.site01..04[0..3]`. Blocks in the
    instances of a module are folded likewise. Other folds stay as they are.
    """
    folded: list[ObjectFold] = []
    for members in group_by(folds, _build_fold_shape).values():
        addresses = [replace(member.rows[0].address, key=None) for member in members]
        # The instances of all blocks have the same keys: their text follows the folded name
        # of the blocks.
        key_text = members[0].label.removeprefix(str(addresses[0]))
        # All of one kind.
        for block_fold in fold_addresses(addresses, [None] * len(members)):
            blocks = [members[number] for number in block_fold.members]
            # A single block has no partner. Without a bracket, the text has no keys of the block
            # itself to append.
            if len(blocks) == 1 or not key_text.startswith("["):
                folded += blocks
            else:
                rows = tuple(chain.from_iterable(block.rows for block in blocks))
                folded.append(replace(blocks[0], rows=rows, label=f"{block_fold.text}{key_text}"))
    return tuple(folded)


def _build_fold_shape(fold: ObjectFold) -> object:
    """Return a key, equal for blocks of a configuration to show in one line.

    Same change, type, modules, keys and texts. A block with one object, or with deposed objects, is
    never folded: its key is unique.
    """
    first_row = fold.rows[0]
    if len(fold.rows) == 1 or first_row.deposed:
        # The key is equal to no other.
        return id(fold)
    address = first_row.address
    modules = tuple(step.name for step in address.module)
    keys = tuple(row.address.key for row in fold.rows)
    return (fold.symbol, address.mode, address.type, modules, keys, fold.name, fold.clauses)


def _remove_key(row: ObjectRow) -> tuple[str, ...]:
    """Return the clauses of a row with its instance key replaced.

    The rows of one block become equal. For `ns["a"]`, the clause `Namespace a` becomes
    `Namespace of its name`.
    """
    key = row.address.key
    # A number is rarely the name of an object: `PickN 2`.
    if not isinstance(key, str) or key.isdecimal():
        return row.clauses
    return tuple(
        f"{clause.removesuffix(key)}of its name"
        if _KIND_PREFIX.fullmatch(clause.removesuffix(key))
        else clause
        for clause in row.clauses
    )


def _build_row(
    change: Change, schema: BlockSchema | None, placement_clauses: tuple[str, ...]
) -> ObjectRow:
    """Build the row of a change.

    If a whole object is created, read or deleted, the clauses are its key facts, else its changes.
    A note has the reason of the change and earlier addresses.
    """
    # The object leaves the state.
    if change.after is None or change.action is Action.FORGET:
        attributes = _select_visible_attributes(change.before, change.sensitive_before)
    else:
        attributes = _select_visible_attributes(change.after, change.sensitive_after)
    if change.action in _WHOLE_OBJECT_ACTIONS:
        clauses = tuple(text for describe in _FACTS if (text := describe(attributes)))
    else:
        from nexusform.rendering.report.changed_arguments import describe_changes

        clauses = describe_changes(change, schema, placement_clauses)
    note = _format_change_note(change)
    if clauses and note.startswith("("):
        # A bracketed note belongs to the last clause, not on its own line.
        clauses = (*clauses[:-1], f"{clauses[-1]} {note}")
        note = ""
    return ObjectRow(
        address=change.address,
        symbol=plan_sentences.SYMBOLS[change.action],
        name=_find_name_missing_in_address(change.address, attributes),
        clauses=(*clauses, note) if note else clauses,
        deposed=change.deposed,
    )


def _select_visible_attributes(
    attributes: _Attributes | None, sensitive: Iterable[Path]
) -> _Attributes:
    """Return the attributes, except sensitive ones and those with a sensitive part."""
    # The whole object.
    if () in sensitive:
        return {}
    hidden_names = {name for name, *_ in sensitive}
    return {
        name: value for name, value in get_mapping(attributes).items() if name not in hidden_names
    }


def _find_name_missing_in_address(address: Address, attributes: _Attributes) -> str:
    """Return the name of the object, or "" if its address contains it."""
    name = get_text(attributes, "name")
    return "" if name in {address.name, address.key} else name


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


def _format_change_note(change: Change) -> str:
    """Return the reason of the change in brackets, its import id and previous address.

    Each of them is left out if the change has none. A forgotten object has the result of forgetting
    it instead of the reason.
    """
    notes = [enclose("(", _REASON_NOTES.get(change.reason), ")")]
    if change.action is Action.FORGET:
        is_machine_action = change.address.type == MACHINE_ACTION_TYPE
        # An action has no object to destroy.
        result = "nothing is sent" if is_machine_action else "not destroyed"
        is_requested = change.reason.startswith("forgot_because_lifecycle")
        notes = [f"removed from state, {result}", "(destroy = false)" if is_requested else ""]
    notes.append(enclose('imported from "', change.importing, '"'))
    # This note names both addresses.
    if change.reason != "delete_because_no_move_target":
        notes.append(enclose("moved from ", change.previous_address))
    return join_texts(notes)


def _describe_vms(attributes: _Attributes) -> str:
    """Return `33 VMs in 3 pools` or `7 VMs`; "" without VMs."""
    count = attributes.get("node_count")
    # A VNF, or an object without VMs.
    if not isinstance(count, int):
        vnfcs = attributes.get("vnfcs")
        return format_count(len(vnfcs), "VM") if isinstance(vnfcs, dict) and vnfcs else ""
    pools = attributes.get("agent_pool")
    if not isinstance(pools, dict):
        return format_count(count, "VM")
    # Its VMs are a pool, too.
    pool_count = len(pools) + (attributes.get("control_plane") is not None)
    return f"{format_count(count, 'VM')} in {format_count(pool_count, 'pool')}"


def _describe_machines(attributes: _Attributes) -> str:
    """Return `16 machines` of a rack; "" without machines."""
    count = attributes.get("machine_count")
    return format_count(count, "machine") if isinstance(count, int) and count else ""


def _describe_machine_action(attributes: _Attributes) -> str:
    """Return the action and machine of a machine action, `ACTION of MACHINE`.

    Return "" for other objects.
    """
    if "allow_workloads" not in attributes or not isinstance(attributes.get("machine_id"), str):
        # Only machine actions have both.
        return ""
    return f"{attributes.get('action')} of {attributes['machine_id'].rpartition('/')[2]}"


def _describe_status(attributes: _Attributes) -> str:
    """Return the status of an object; "" if it is active, or without a status."""
    status = get_text(attributes, "status")
    return "" if status == "active" else status


def _describe_policy(attributes: _Attributes) -> str:
    """Return `PickN 2` of a cluster placement; "" for other objects."""
    kind = get_value_at_path(attributes, "policy", "placement_type")
    if not isinstance(kind, str):
        return ""
    number = get_value_at_path(attributes, "policy", "number_of_clusters")
    return f"{kind} {number}" if isinstance(number, int) else kind


def _describe_manifests(attributes: _Attributes) -> str:
    """Return `Deployment shop, Service shop` of a manifest."""
    manifests = list_mappings(attributes, "objects")
    return format_names(
        [f"{manifest.get('kind')} {manifest.get('name')}" for manifest in manifests], 3
    )


# The key facts of an object of any type; nonempty ones are shown.
_FACTS: Final[tuple[Callable[[_Attributes], str], ...]] = (
    _describe_vms,
    _describe_machines,
    lambda attributes: get_text(attributes, "vm_sku_name"),
    lambda attributes: get_text(attributes, "machine_sku"),
    _describe_machine_action,
    _describe_policy,
    lambda attributes: enclose("location ", get_text(attributes, "location")),
    _describe_manifests,
    _describe_status,
)


class PlacementCounts:
    """Placement counts of one resource by kind and outcome, and its objects with a row."""

    __slots__ = ("counts", "objects")

    def __init__(self) -> None:
        # By (kind, outcome).
        self.counts: Counter[tuple[str, str]] = Counter()
        # Pairs of kind and name.
        self.objects: set[tuple[str, str]] = set()

    @property
    def kinds(self) -> set[str]:
        """Kinds of the counted objects (VM, pod, binding)."""
        return {kind for kind, _ in self.counts}

    def list_counts(self, kind: str) -> list[tuple[int, str]]:
        """Return the number of objects of a kind for each outcome with any.

        They are in the order of reports: `(3, "moved")`.
        """
        outcomes = dict.fromkeys([*_OUTCOME_ORDER, *(outcome for _, outcome in self.counts)])
        return [(count, outcome) for outcome in outcomes if (count := self.counts[kind, outcome])]


NO_PLACEMENTS: Final = PlacementCounts()

# In this order, then objects that do not run.
_OUTCOME_ORDER: Final = tuple(OUTCOMES.values())


def count_placements(plan: Plan) -> dict[Address, PlacementCounts]:
    """Count the changed placements by resource."""
    by_address: dict[Address, PlacementCounts] = {}
    for row in plan.placements:
        if row.action is not PlacementAction.KEEP:
            outcome = describe_placement_effect(compute_effect(row), describe_state(row))
            placements = by_address.setdefault(row.address, PlacementCounts())
            placements.counts[row.kind, outcome] += 1
            placements.objects.add((row.kind, row.object))
    return by_address
