"""Stanzas of a plan: the change of each object, with its header and its difference."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import format_count, format_counts
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.json_data.plain_data import Path, get_list, get_value_at_path
from nexusform.placement_kinds.registry import KINDS, MAPS
from nexusform.plans.plan import Action, OutputChange, Plan
from nexusform.rendering.notation.hcl_text import PathMarks
from nexusform.rendering.report import plan_sentences
from nexusform.rendering.report.difference_tree import (
    ABSENT,
    CHANGED,
    DELETED,
    Comparison,
    DifferenceNode,
    NodeKind,
)
from nexusform.rendering.report.object_rows import (
    NO_PLACEMENTS,
    PlacementCounts,
    count_placements,
    create_schema_lookup,
    select_drift,
)
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.resources.address import Address
from nexusform.schemas.value_types import DYNAMIC, describe_type, is_same_type

# Machines follow from the arguments of a rack, so they are listed only if they change.
_MACHINES: Final = "machines"
# End of the headline of a change rejected by its provider.
REJECTED: Final = " (rejected)"

# A status per cluster follows from the bindings; `show` prints it in full.
_STATUSES: Final = "placement_statuses"
_CONDITIONS: Final = "conditions"


class ChangeStanza(Struct, frozen=True):
    """The change of one object: `address headline`, comments, block header and body.

    `symbol` is "+", "-", "~", "-/+", "+/-", "<=", "." or "" (only moved or imported).
    """

    address: str
    symbol: str
    headline: str
    comments: tuple[str, ...]
    header: str
    body: DifferenceNode


def build_stanzas(
    plan: Plan, registries: PluginRegistries, detail: ShownPlacements = ShownPlacements.CHANGED
) -> tuple[ChangeStanza, ...]:
    """Build the stanza of each reported change: header and difference.

    `detail` decides if hints mention placements.
    """
    find_schema = create_schema_lookup(registries)
    placement_counts = count_placements(plan)
    stanzas = []
    for change in plan.reported_changes:
        counts = placement_counts.get(change.address, NO_PLACEMENTS)
        # A forgotten object is unchanged.
        after = change.before if change.action is Action.FORGET else change.after
        marks = PathMarks.create(
            change.sensitive_before, change.sensitive_after, change.replace_paths
        )
        texts = _build_condensed_texts(
            change.before,
            change.after,
            counts,
            placements_follow=(detail is not ShownPlacements.NONE),
        )
        # An import shows the whole object.
        comparison = Comparison(show_unchanged=bool(change.importing))
        body = comparison.compare_objects(
            change.before, after, find_schema(change.address), marks, texts
        )
        headline = plan_sentences.format_headline(change)
        if str(change.address) in plan.verdicts.rejected:
            headline += REJECTED
        stanza = ChangeStanza(
            address=plan_sentences.format_headline_address(change),
            symbol=plan_sentences.SYMBOLS[change.action],
            headline=headline,
            comments=plan_sentences.build_change_comments(change),
            header=format_block_header(change.address),
            body=body,
        )
        stanzas.append(stanza)
    return tuple(stanzas)


def build_drift_stanzas(plan: Plan, registries: PluginRegistries) -> tuple[ChangeStanza, ...]:
    """Build the stanzas of changes made outside of nexusform."""
    find_schema = create_schema_lookup(registries)
    stanzas = []
    for drift in select_drift(plan):
        symbol = CHANGED
        headline = "has changed"
        texts = {}
        if drift.after is None:
            symbol = DELETED
            headline = "has been deleted"
            # A deleted object shows only the number of its placements, as "(53 removed)".
            texts = _build_condensed_texts(
                drift.before, None, NO_PLACEMENTS, placements_follow=False
            )
        # Of the old and new side.
        marks = PathMarks.create(drift.sensitive, drift.sensitive)
        body = Comparison().compare_objects(
            drift.before, drift.after, find_schema(drift.address), marks, texts
        )
        stanza = ChangeStanza(
            address=str(drift.address),
            symbol=symbol,
            headline=headline,
            comments=(),
            header=format_block_header(drift.address),
            body=body,
        )
        stanzas.append(stanza)
    return tuple(stanzas)


def format_block_header(address: Address) -> str:
    """Return `resource "type" "name"`, as in the configuration."""
    keyword = "data" if address.mode == "data" else "resource"
    return f'{keyword} "{address.type}" "{address.name}"'


def compare_output(output: OutputChange) -> DifferenceNode:
    """Return the change of an output as a tree."""
    # The empty path: the whole value.
    sensitive_paths: tuple[Path, ...] = ((),) if output.sensitive else ()
    marks = PathMarks.create(sensitive_paths, sensitive_paths)
    before = ABSENT if output.action is Action.CREATE else output.before
    after = ABSENT if output.action is Action.DELETE else output.after
    has_same_value = output.action is Action.UPDATE and before == after
    if has_same_value and not is_same_type(output.before_type, output.type):
        return DifferenceNode(
            NodeKind.CONDENSED, CHANGED, output.name, new=_describe_type_change(output)
        )
    # As Terraform, which compares outputs as JSON: maps are objects, and null is a value.
    return Comparison(keep_null=True).compare_values(output.name, before, after, DYNAMIC, marks)


def _describe_type_change(output: OutputChange) -> str:
    """Return a text for an output with an equal value of another type."""
    old = describe_type(output.before_type)
    new = describe_type(output.type)
    # The names of attributes are a part of the type: they may be secret.
    if output.sensitive or old == new:
        return "(another type, same value)"
    return f"({new}, before {old})"


# The attributes of an object on one side of a change, or None.
_Mapping: TypeAlias = Mapping[str, Any]
_Side: TypeAlias = _Mapping | None


def _build_condensed_texts(
    before: _Side, after: _Side, counts: PlacementCounts, *, placements_follow: bool
) -> dict[str, str]:
    """Return short texts for attributes too long to show in full, by name.

    An example is `(53 to place, see below)`. These attributes are the maps of placed VMs, bindings
    or pods, long lists such as conditions, and machines. `before` and `after` are the attributes of
    the object, None if it does not exist then. `counts` has its changed placements.
    """
    texts: dict[str, str] = {}
    for name, kind in MAPS.items():
        old = _get_mapping_attribute(before, name)
        new = _get_mapping_attribute(after, name)
        changes = format_counts(counts.list_counts(kind))
        if changes and (old or new):
            # The entries of a nested map (by cluster, workload) are no placements.
            if not KINDS[kind].is_nested:
                changed_names = {name for row_kind, name in counts.objects if row_kind == kind}
                changes += _describe_further_entries(old, new, changed_names)
            hint = ", see below" if placements_follow else ""
            texts[name] = f"({', '.join(changes)}{hint})"
        elif new and not before:
            # A new object, without counts of its placements.
            texts[name] = f"({len(new):,} placed)"
        elif old and not after:
            # A deleted object, such as a drift.
            texts[name] = f"({len(old):,} removed)"
    texts |= _format_changed_lists(before, after)
    machines = _get_mapping_attribute(before, _MACHINES) or _get_mapping_attribute(after, _MACHINES)
    # Of a whole rack; changed machines are listed by name.
    if machines and (before is None or after is None):
        texts[_MACHINES] = f"({format_count(len(machines), 'machine')})"
    return texts


def _describe_further_entries(old: _Mapping, new: _Mapping, changed_names: set[str]) -> list[str]:
    """Return the entries of both maps without a changed placement as text.

    Examples are `3 kept` and `1 other changes`.
    """
    names = old.keys() & new.keys() - changed_names
    kept_count = sum(old[name] == new[name] for name in names)
    return format_counts([(kept_count, "kept"), (len(names) - kept_count, "other changes")])


def _format_changed_lists(before: _Side, after: _Side) -> dict[str, str]:
    """Return short texts in place of changed lists, by attribute.

    The conditions give the last one, as predicted for the time when everything is ready. The
    statuses give their number: `(3 clusters)`.
    """
    texts: dict[str, str] = {}
    conditions = _get_changed_list(before, after, _CONDITIONS)
    if conditions:
        last = conditions[-1]
        texts[_CONDITIONS] = escape_name(
            f"(predicted: {last.get('type')} {last.get('status')}, {last.get('reason')})"
        )
    statuses = _get_changed_list(before, after, _STATUSES)
    if statuses:
        texts[_STATUSES] = f"({format_count(len(statuses), 'cluster')})"
    return texts


def _get_changed_list(before: _Side, after: _Side, name: str) -> Sequence[Any]:
    """Return the items of a list attribute after a change; () if it is unchanged, or not a list."""
    items = get_list(after, name)
    return () if items == get_value_at_path(before, name) else items


def _get_mapping_attribute(side: _Side, name: str) -> dict[str, Any]:
    """Return a map of the object; {} if it is missing, unknown, or the object does not exist."""
    value = get_value_at_path(side, name)
    return value if value.__class__ is dict else {}
