"""A plan as rows, format-neutral: what every renderer draws and none computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic
from nexusform.plain_data import Path
from nexusform.planning.plan import (
    Action,
    Change,
    Drift,
    Mode,
    OutputChange,
    PlacementAction,
    PlacementTable,
    Plan,
    SeparationVerdict,
)
from nexusform.ports import Registries
from nexusform.rendering.notation.marks import Marks
from nexusform.rendering.report.body import body_difference
from nexusform.rendering.report.difference import ABSENT, Difference, Walk, difference
from nexusform.rendering.report.placement_rows import (
    Detail,
    PlacementGroup,
    PlacementSummary,
    placement_groups,
    summaries,
)
from nexusform.rendering.report.wording import (
    NO_CHANGES,
    SYMBOLS,
    comments,
    headline,
    headline_address,
    plan_line,
)
from nexusform.schema import BlockSchema
from nexusform.source import Span

# Computed maps of placements: their rows stand in the placement part, not in the stanza.
# The kind of their rows stands beside each.
PLACEMENT_MAPS: Final = {"nodes": "vm", "vnfcs": "vm", "bindings": "binding", "workloads": "pod"}

# A rack's machines follow from its arguments: told one by one only where they change.
_MACHINES: Final = "machines"

# A status per cluster follows from the bindings; `show` prints it in full.
_STATUSES: Final = "placement_statuses"

SchemaOf = Callable[[Address], BlockSchema | None]


class Stanza(Struct, frozen=True):
    """One object's change: `address headline`, comments, the block's header and its body.

    `symbol` is "+", "-", "~", "-/+", "+/-", "<=", "." or "" (moved or imported only).
    """

    address: str
    action: Action
    symbol: str
    headline: str
    comments: tuple[str, ...]
    header: str
    body: Difference
    source: Span | None = None


class Report(Struct, frozen=True):
    """Everything a renderer shows of a plan.

    `verdict` is the `Plan:` line, or the `No changes.` sentence when applying would do nothing;
    `moves` counts moved placements. `summaries` starts with the total. `tables` are those of
    pools that change (all of them with the detail `all`).
    """

    mode: Mode
    errored: bool
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
    placed: int
    racks_certain: int
    machines_certain: int
    folded: bool
    diagnostics: tuple[Diagnostic, ...]
    separations: tuple[SeparationVerdict, ...] = ()

    @property
    def moves(self) -> int:
        """How many placements move."""
        return self.summaries[0].move


def schema_lookup(registries: Registries) -> SchemaOf:
    """Where the schema of an address is found."""

    def find(address: Address) -> BlockSchema | None:
        table = registries.data_sources if address.mode == "data" else registries.resource_types
        found = table.get(address.type)
        return found.schema if found else None

    return find


def build_report(plan: Plan, registries: Registries, detail: Detail = Detail.CHANGED) -> Report:
    """The report of a plan. Linear in the size of what changes."""
    schema_of = schema_lookup(registries)
    placed = _placed_rows(plan)
    below = detail is not Detail.NONE
    groups = placement_groups(plan, detail)
    tables = tuple(g.table for g in groups if g.table is not None)
    shown_drift = plan.mode is Mode.REFRESH_ONLY or plan.has_changes
    return Report(
        mode=plan.mode,
        errored=plan.errored,
        has_changes=plan.has_changes,
        verdict=plan_line(plan) if plan.has_changes else NO_CHANGES[plan.mode][0],
        actions=frozenset(c.action for c in plan.changes if c.action is not Action.NO_OP),
        stanzas=tuple(_stanza(c, schema_of, placed, below) for c in plan.changes if _is_shown(c)),
        drift=tuple(
            _drift(d, schema_of)
            for d in plan.drift
            if shown_drift and (d.relevant or plan.mode is Mode.REFRESH_ONLY)
        ),
        outputs=tuple(_output(o) for o in plan.outputs if o.action is not Action.NO_OP),
        summaries=summaries(plan),
        groups=groups,
        tables=tables,
        tie_breaks=plan.tie_breaks,
        placed=sum(t.placed for t in plan.placement_tables) if below else 0,
        racks_certain=sum(t.racks_certain for t in plan.placement_tables),
        machines_certain=sum(t.machines_certain for t in plan.placement_tables),
        folded=any(line.count > 1 for g in groups for line in g.lines),
        diagnostics=plan.diagnostics,
        separations=plan.separation_rules,
    )


def _is_shown(change: Change) -> bool:
    moved = change.previous_address is not None and change.previous_address != change.address
    return change.action is not Action.NO_OP or bool(change.importing) or moved


def block_header(address: Address) -> str:
    """`resource "type" "name"`, as in the configuration."""
    word = "data" if address.mode == "data" else "resource"
    return f'{word} "{address.type}" "{address.name}"'


def _stanza(change: Change, schema_of: SchemaOf, placed: Mapping[Address, _Rows], below: bool) -> Stanza:
    forgets = change.action is Action.FORGET
    marks = Marks.of(change.sensitive_before, change.sensitive_after, change.replace_paths)
    body = body_difference(
        change.before,
        change.before if forgets else change.after,
        schema_of(change.address),
        marks=marks,
        walk=Walk(show_unchanged=bool(change.importing)),
        condensed=_condensed(change.before, change.after, placed.get(change.address), below),
    )
    return Stanza(
        headline_address(change),
        change.action,
        SYMBOLS[change.action],
        headline(change),
        comments(change),
        block_header(change.address),
        body,
        change.source,
    )


def _drift(drift: Drift, schema_of: SchemaOf) -> Stanza:
    marks = Marks.of(drift.sensitive, drift.sensitive)
    gone = drift.after is None
    # What an object that is gone had placed counts, not every place.
    condensed = _condensed(drift.before, None, None, below=False) if gone else {}
    body = body_difference(
        drift.before, drift.after, schema_of(drift.address), marks=marks, condensed=condensed
    )
    return Stanza(
        str(drift.address),
        Action.DELETE if gone else Action.UPDATE,
        "-" if gone else "~",
        "has been deleted" if gone else "has changed",
        (),
        block_header(drift.address),
        body,
    )


def _output(output: OutputChange) -> Difference:
    whole: tuple[Path, ...] = ((),) if output.sensitive else ()
    before = ABSENT if output.action is Action.CREATE else output.before
    after = ABSENT if output.action is Action.DELETE else output.after
    return difference(output.name, before, after, output.type, marks=Marks.of(whole, whole), walk=Walk())


# --- placements in a stanza --------------------------------------------------------------------


class _Rows:
    """The rows of one resource: how many of a kind do what, and which objects have one."""

    __slots__ = ("counts", "objects")

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, PlacementAction]] = Counter()
        self.objects: set[tuple[str, str]] = set()


def _placed_rows(plan: Plan) -> dict[Address, _Rows]:
    found: dict[Address, _Rows] = {}
    for row in plan.placements:
        if row.action is not PlacementAction.KEEP:
            rows = found.setdefault(row.address, _Rows())
            rows.counts[row.kind, row.action] += 1
            rows.objects.add((row.kind, row.object))
    return found


_WORDS: Final = (
    (PlacementAction.PLACE, "placed"),
    (PlacementAction.MOVE, "moved"),
    (PlacementAction.REMOVE, "removed"),
    (PlacementAction.UPDATE, "updated"),
)


def _condensed(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    rows: _Rows | None,
    below: bool,
) -> dict[str, str]:
    """Texts such as `(53 placed, see below)` for the maps of placements of one object.

    A map that changes without any placement changing (observed figures) is shown as it is.
    """
    found: dict[str, str] = {}
    rows = rows or _Rows()
    for name, kind in PLACEMENT_MAPS.items():
        old, new = _placements(before, name), _placements(after, name)
        parts = [f"{rows.counts[kind, act]} {word}" for act, word in _WORDS if rows.counts[kind, act]]
        if parts and (old or new):
            # Pods stand two levels deeper, so what is kept of them cannot be told here.
            told = parts if kind == "pod" else [*parts, *_untold(old, new, rows, kind)]
            found[name] = f"({', '.join(told)}{', see below' if below else ''})"
        elif new and not before:
            found[name] = f"({len(new)} placed)"
        elif old and not after:
            found[name] = f"({len(old)} removed)"
    statuses = (after or {}).get(_STATUSES)
    if isinstance(statuses, list) and statuses and statuses != (before or {}).get(_STATUSES):
        found[_STATUSES] = f"({len(statuses)} cluster{'' if len(statuses) == 1 else 's'})"
    machines = _placements(before, _MACHINES) or _placements(after, _MACHINES)
    if machines and (before is None or after is None):
        found[_MACHINES] = f"({len(machines)} machine{'' if len(machines) == 1 else 's'})"
    return found


def _placements(side: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    plain = (side or {}).get(name)
    return plain if plain.__class__ is dict else {}


def _untold(old: dict[str, Any], new: dict[str, Any], rows: _Rows, kind: str) -> list[str]:
    # What stands on both sides and has no row: as it was, or changed in a way that no row tells.
    both = [name for name in new if name in old and (kind, name) not in rows.objects]
    kept = sum(1 for name in both if old[name] == new[name])
    found = [f"{kept} kept"] if kept else []
    return [*found, f"{len(both) - kept} otherwise changed"] if len(both) > kept else found
