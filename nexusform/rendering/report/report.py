"""A plan as rows, format-neutral: what every renderer draws and none computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic
from nexusform.placement_kinds.kinds import KINDS, MAPS, kind_order
from nexusform.plain_data import Path
from nexusform.plans.impact.effects import effect_of, state_of
from nexusform.plans.plan import (
    Action,
    Change,
    Draws,
    Drift,
    Mode,
    OutputChange,
    PlacementAction,
    PlacementTable,
    Plan,
    SeparationVerdict,
    all_decided,
)
from nexusform.ports import Registries
from nexusform.rendering.notation.hcl_text import Marks
from nexusform.rendering.report import wording
from nexusform.rendering.report.body import body_difference
from nexusform.rendering.report.difference_tree import (
    ABSENT,
    CHANGED,
    DELETED,
    Difference,
    Walk,
    value_difference,
)
from nexusform.rendering.report.entries import Finding, plan_findings
from nexusform.rendering.report.placement_rows import (
    OUTCOMES,
    Detail,
    PlacementGroup,
    PlacementSummary,
    outcome_of,
    placement_groups,
    summaries,
)
from nexusform.schema import BlockSchema
from nexusform.words import counted, form

if TYPE_CHECKING:  # few plans roll out anything
    from nexusform.rendering.report.rollout_rows import RolloutTable

# A rack's machines follow from its arguments: told one by one only where they change.
_MACHINES: Final = "machines"

# A status per cluster follows from the bindings; `show` prints it in full.
_STATUSES: Final = "placement_statuses"
_CONDITIONS: Final = "conditions"

SchemaOf = Callable[[Address], BlockSchema | None]


class Stanza(Struct, frozen=True):
    """One object's change: `address headline`, comments, the block's header and its body.

    `symbol` is "+", "-", "~", "-/+", "+/-", "<=", "." or "" (moved or imported only).
    """

    address: str
    symbol: str
    headline: str
    comments: tuple[str, ...]
    header: str
    body: Difference


class Report(Struct, frozen=True):
    """Everything a renderer shows of a plan.

    `verdict` is the `Plan:` line, or the `No changes.` sentence when applying would do nothing
    (`unchanged` is what was compared then);
    `denied`: it may not be applied, be it in error or not. `summaries` starts with the total. `tables` are
    those of pools that change (all of them with the detail `all`). `decided`: no VM that it places is
    predicted.
    """

    mode: Mode
    errored: bool
    denied: bool
    has_changes: bool
    verdict: str
    actions: frozenset[Action]
    stanzas: tuple[Stanza, ...]
    drift: tuple[Stanza, ...]
    outputs: tuple[Difference, ...]
    summaries: tuple[PlacementSummary, ...]
    groups: tuple[PlacementGroup, ...]
    tables: tuple[PlacementTable, ...]
    tie_breaks: int
    draws: Draws | None
    placed: int
    racks_certain: int
    machines_certain: int
    decided: bool
    folded: bool
    diagnostics: tuple[Diagnostic, ...]
    findings: tuple[Finding, ...] = ()
    unchanged: str = ""
    separations: tuple[SeparationVerdict, ...] = ()
    rollouts: tuple[RolloutTable, ...] = ()


def schema_lookup(registries: Registries) -> SchemaOf:
    """Where the schema of an address is found."""

    def find(address: Address) -> BlockSchema | None:
        table = registries.data_sources if address.mode == "data" else registries.resource_types
        resource_type = table.get(address.type)
        return resource_type.schema if resource_type else None

    return find


def build_report(plan: Plan, registries: Registries, detail: Detail = Detail.CHANGED) -> Report:
    """The report of a plan. Linear in the size of what changes."""
    schema_of = schema_lookup(registries)
    placement_counts = _placement_counts(plan)
    placements_follow = detail is not Detail.NONE
    stanzas = []
    for change in plan.changes:
        if is_shown(change):
            counts = placement_counts.get(change.address, _NO_PLACEMENTS)
            stanzas.append(_stanza(change, schema_of, counts, placements_follow=placements_follow))
    groups = placement_groups(plan, detail)
    return Report(
        mode=plan.mode,
        errored=plan.errored,
        denied=plan.denied,
        has_changes=plan.has_changes,
        verdict=wording.plan_line(plan) if plan.has_changes else wording.no_changes(plan)[0],
        unchanged=wording.no_changes(plan)[1],
        actions=frozenset(change.action for change in plan.changes) - {Action.NO_OP},
        stanzas=tuple(stanzas),
        drift=tuple(_drift_stanza(drift, schema_of) for drift in shown_drift(plan)),
        outputs=tuple(
            output_difference(output) for output in plan.outputs if output.action is not Action.NO_OP
        ),
        summaries=summaries(plan),
        groups=groups,
        tables=tuple(group.table for group in groups if group.table is not None),
        tie_breaks=plan.tie_breaks,
        draws=plan.draws,
        placed=sum(table.placed for table in plan.placement_tables) if placements_follow else 0,
        racks_certain=sum(table.racks_certain for table in plan.placement_tables),
        machines_certain=sum(table.machines_certain for table in plan.placement_tables),
        decided=all_decided(plan.placement_tables),
        folded=any(_is_folded(group) for group in groups),
        diagnostics=plan.diagnostics,
        findings=plan_findings(plan),
        separations=plan.separation_rules,
        rollouts=rollouts_of(plan) if placements_follow else (),
    )


def shown_drift(plan: Plan) -> tuple[Drift, ...]:
    """Drift that the plan responds to; in a refresh-only plan, all of it."""
    if plan.mode is Mode.REFRESH_ONLY:
        return plan.drift
    return tuple(drift for drift in plan.drift if drift.relevant) if plan.has_changes else ()


def _is_folded(group: PlacementGroup) -> bool:
    return any(line.count > 1 for line in group.lines)


def is_shown(change: Change) -> bool:
    """Whether a plan has something to say of the object."""
    moved = change.previous_address is not None and change.previous_address != change.address
    return change.action is not Action.NO_OP or bool(change.importing) or moved


def block_header(address: Address) -> str:
    """`resource "type" "name"`, as in the configuration."""
    word = "data" if address.mode == "data" else "resource"
    return f'{word} "{address.type}" "{address.name}"'


def _stanza(
    change: Change, schema_of: SchemaOf, counts: _PlacementCounts, *, placements_follow: bool
) -> Stanza:
    """A change as a block with what differs in it."""
    after = change.before if change.action is Action.FORGET else change.after
    body = body_difference(
        change.before,
        after,
        schema_of(change.address),
        marks=Marks.of(change.sensitive_before, change.sensitive_after, change.replace_paths),
        walk=Walk(show_unchanged=bool(change.importing)),
        condensed=_condensed(change.before, change.after, counts, placements_follow=placements_follow),
    )
    return Stanza(
        address=wording.headline_address(change),
        symbol=wording.SYMBOLS[change.action],
        headline=wording.headline(change),
        comments=wording.comments(change),
        header=block_header(change.address),
        body=body,
    )


def _drift_stanza(drift: Drift, schema_of: SchemaOf) -> Stanza:
    """What changed outside of nexusform, as such a block."""
    gone = drift.after is None
    # What an object that is gone had placed counts, not every place.
    condensed = _condensed(drift.before, None, _NO_PLACEMENTS, placements_follow=False) if gone else {}
    body = body_difference(
        drift.before,
        drift.after,
        schema_of(drift.address),
        marks=Marks.of(drift.sensitive, drift.sensitive),
        condensed=condensed,
    )
    return Stanza(
        address=str(drift.address),
        symbol=DELETED if gone else CHANGED,
        headline="has been deleted" if gone else "has changed",
        comments=(),
        header=block_header(drift.address),
        body=body,
    )


def output_difference(output: OutputChange) -> Difference:
    """The change of an output as a tree."""
    whole: tuple[Path, ...] = ((),) if output.sensitive else ()
    marks = Marks.of(whole, whole)
    before = ABSENT if output.action is Action.CREATE else output.before
    after = ABSENT if output.action is Action.DELETE else output.after
    return value_difference(output.name, before, after, output.type, marks=marks, walk=Walk())


# --- placements in a stanza --------------------------------------------------------------------


class _PlacementCounts:
    """The rows of one resource: how many of a kind do what, and which objects have one."""

    __slots__ = ("counts", "objects")

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.objects: set[tuple[str, str]] = set()

    @property
    def kinds(self) -> set[str]:
        """The kinds of which an object has a row."""
        return {kind for kind, _ in self.counts}

    def words(self, kind: str) -> list[str]:
        """`53 placed`, `2 moved`: what happens to objects of a kind."""
        return [f"{count:,} {word}" for count, word in self.numbers(kind)]

    def numbers(self, kind: str) -> list[tuple[int, str]]:
        """How many objects of a kind have each thing happen to them; none that is nought."""
        words = dict.fromkeys([*_WORDS, *(word for _, word in self.counts)])
        counts = [(self.counts[kind, word], word) for word in words]
        return [(count, word) for count, word in counts if count]


_NO_PLACEMENTS: Final = _PlacementCounts()

_WORDS: Final = tuple(OUTCOMES.values())  # in this order, then what runs nowhere


def _placement_counts(plan: Plan) -> dict[Address, _PlacementCounts]:
    """The rows that do something, by the resource they belong to."""
    by_address: dict[Address, _PlacementCounts] = {}
    for row in plan.placements:
        if row.action is not PlacementAction.KEEP:
            counts = by_address.setdefault(row.address, _PlacementCounts())
            counts.counts[row.kind, outcome_of(effect_of(row), state_of(row))] += 1
            counts.objects.add((row.kind, row.object))
    return by_address


def placement_words(plan: Plan) -> dict[Address, tuple[str, ...]]:
    """`2 VMs moved`, by the resource whose placements change."""
    words: dict[Address, tuple[str, ...]] = {}
    for address, counts in _placement_counts(plan).items():
        clauses = []
        for kind in sorted(counts.kinds, key=kind_order):
            noun = KINDS[kind].short_noun or KINDS[kind].noun
            clauses += [f"{counted(count, noun)} {word}" for count, word in counts.numbers(kind)]
        words[address] = tuple(clauses)
    return words


# The attributes of an object on one side of a change; None where it is not there.
_Side: TypeAlias = Mapping[str, Any] | None


def _condensed(
    before: _Side, after: _Side, counts: _PlacementCounts, *, placements_follow: bool
) -> dict[str, str]:
    """Texts such as `(53 placed, see below)` for the maps of placements of one object.

    A map that changes without any placement changing (observed figures) is shown as it is.
    """
    texts: dict[str, str] = {}
    for name, kind in MAPS.items():
        old, new = _map_of(before, name), _map_of(after, name)
        changes = counts.words(kind)
        if changes and (old or new):
            # What stands deeper cannot be counted here.
            if not KINDS[kind].nested:
                changes += _words_without_row(kind, old, new, counts)
            hint = ", see below" if placements_follow else ""
            texts[name] = f"({', '.join(changes)}{hint})"
        elif new and not before:
            texts[name] = f"({len(new):,} placed)"
        elif old and not after:
            texts[name] = f"({len(old):,} removed)"
    return (
        texts
        | _conditions_text(before, after)
        | _statuses_text(before, after)
        | _machines_text(before, after)
    )


def _words_without_row(
    kind: str, old: Mapping[str, Any], new: Mapping[str, Any], counts: _PlacementCounts
) -> list[str]:
    """What stands on both sides and has no row: as it was, or changed in a way that no row tells."""
    names = [name for name in new if name in old and (kind, name) not in counts.objects]
    as_it_was = sum(1 for name in names if old[name] == new[name])
    changed = len(names) - as_it_was
    words = [(as_it_was, "kept"), (changed, "otherwise changed")]
    return [f"{count:,} {word}" for count, word in words if count]


def _conditions_text(before: _Side, after: _Side) -> dict[str, str]:
    """Conditions as what they are in a plan: what will be seen once everything that starts is ready."""
    conditions = (after or {}).get(_CONDITIONS)
    if not isinstance(conditions, list) or not conditions or conditions == (before or {}).get(_CONDITIONS):
        return {}
    last = conditions[-1]
    return {_CONDITIONS: f"(predicted: {last.get('type')} {last.get('status')}, {last.get('reason')})"}


def _statuses_text(before: _Side, after: _Side) -> dict[str, str]:
    statuses = (after or {}).get(_STATUSES)
    if not isinstance(statuses, list) or not statuses or statuses == (before or {}).get(_STATUSES):
        return {}
    return {_STATUSES: f"({len(statuses):,} {form(len(statuses), 'cluster')})"}


def _machines_text(before: _Side, after: _Side) -> dict[str, str]:
    machines = _map_of(before, _MACHINES) or _map_of(after, _MACHINES)
    stays = before is not None and after is not None
    if stays or not machines:
        return {}
    return {_MACHINES: f"({len(machines):,} {form(len(machines), 'machine')})"}


def _map_of(side: _Side, name: str) -> dict[str, Any]:
    plain = (side or {}).get(name)
    return plain if plain.__class__ is dict else {}


def rollouts_of(plan: Plan) -> tuple[RolloutTable, ...]:
    """How what changes in a fleet rolls out, in the plan's order."""
    if not plan.rollouts:
        return ()
    from nexusform.rendering.report.rollout_rows import rollout_tables

    return rollout_tables(plan)
