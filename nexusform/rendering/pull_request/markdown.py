"""A plan for a pull request: what to decide on in the first lines, then tables, the rest folded away.

The report never exceeds a number of bytes (hosts cut comments off at 65,536 characters): what matters
least is cut first, and what was cut is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.plan import PlacementAction, PlacementTable, Plan, SeparationVerdict
from nexusform.ports import Registries
from nexusform.rendering.pull_request.markdown_changes import change_lines, every_stanza
from nexusform.rendering.pull_request.markdown_parts import Part, as_diff, code, fit, folded, plain, table
from nexusform.rendering.report.overview import Overview, ResourceCount, TriggerCount, build_overview
from nexusform.rendering.report.placement_rows import Detail, table_row
from nexusform.rendering.report.report import Report, build_report
from nexusform.rendering.report.room import RoomRow
from nexusform.rendering.text.diagnostic_text import consolidate, render_diagnostic
from nexusform.rendering.text.placement_text import placement_text
from nexusform.rendering.text.stanza_text import output_lines, stanza_text
from nexusform.source import SourceFile
from nexusform.words import counted, first_of

MAX_BYTES: Final = 65_000
_NO_REGISTRIES = Registries()
# In the first lines: sites side by side, moved VMs by name, warnings by name.
_SITES = 3
_NAMED = 5
_LONGEST_LINE = 700


def render_markdown(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: Registries = _NO_REGISTRIES,
    placements: Detail = Detail.CHANGED,
    *,
    max_bytes: int = MAX_BYTES,
) -> str:
    """The whole report as GitHub-flavoured Markdown, with a newline at the end, in `max_bytes`."""
    report = build_report(plan, registries, placements)
    overview = build_overview(plan, report)
    parts = [Part("The first lines", 100, tuple(_head(plan, report, overview)), whole=True)]
    if report.errored:
        # As in the terminal: what was planned up to an error would only bury it.
        parts += _diagnostics(report.diagnostics, sources)
        return fit(parts, max_bytes)
    outputs = "\n".join(output_lines(report.outputs))
    parts += [
        Part("Summary", 80, tuple(_summary(overview))),
        Part("Separation rules", 75, tuple(_rules(plan.separation_rules))),
        Part("Changes", 60, tuple(change_lines(plan))),
        Part("Placement tables", 70, tuple(_tables(report.tables))),
        *_diagnostics(report.diagnostics, sources),
        _folded("Room of every site", 45, _all_rooms(overview)),
        _folded("Placements by pool", 40, placement_text(report, width=120) if report.groups else ""),
        _folded("Every change", 10, as_diff(every_stanza(plan, report)), "diff"),
        _folded("Changed outside of nexusform", 30, as_diff(_drift(report)), "diff"),
        _folded("Changes to outputs", 20, as_diff(outputs), "diff"),
    ]
    return fit(parts, max_bytes)


def _folded(title: str, importance: int, body: str, language: str = "") -> Part:
    lines = tuple(body.split("\n")) if body else ()
    return Part(title, importance, lines, lambda text: folded(title, text, language))


# --- first lines -------------------------------------------------------------------------------


def _head(plan: Plan, report: Report, overview: Overview) -> list[str]:
    """At most twelve lines."""
    if overview.denied:
        denied = _clipped(f"**Denied** by {plain(overview.denied)}")
        return [f"### nexusform: {overview.headline}", "", denied]
    clauses = overview.headline.split(", ")
    if report.moves:
        clauses[-1] = f"**{clauses[-1]}**"
    because = f" ({plain('; '.join(overview.reasons))})" if overview.reasons else ""
    facts = (f"**Allowed**{because}", _placements(plan, report, overview), overview.certainty)
    lines = [f"### nexusform: {', '.join(clauses)}", "", f"{_dotted(facts)}  ", report.verdict]
    if overview.room:
        lines += ["", *_room(overview.sites, overview.room)]
    inventory = f"Inventory: {overview.inventory}" if overview.inventory else ""
    last = _dotted((inventory, _warnings(overview)))
    return [*lines, "", last] if last else lines


def _dotted(texts: Iterable[str]) -> str:
    return _clipped(" · ".join(text for text in texts if text))


def _warnings(overview: Overview) -> str:
    if not overview.risks:
        return ""
    risks = first_of([plain(risk) for risk in overview.risks], _NAMED, "; ")
    return f"{counted(overview.warnings, 'warning')}: {risks}"


def _clipped(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 3]}..."


def _placements(plan: Plan, report: Report, overview: Overview) -> str:
    moved = f"{report.moves:,} moved"
    names = [code(row.object) for row in plan.placements if row.action is PlacementAction.MOVE]
    who = f" ({first_of(names, _NAMED)})" if names else ""
    return overview.placements.replace(moved, f"**{moved}**{who}", 1)


def _room(sites: Sequence[str], rows: Sequence[RoomRow]) -> list[str]:
    """The room table, of the sites side by side that a reviewer should see first."""
    picked = _picked_sites(len(sites), rows)
    heads = [plain(sites[0]) if len(sites) == 1 else ""]
    if len(sites) > len(picked):
        heads = [f"{len(picked)} of {len(sites)} sites"]
    for number in picked:
        prefix = f"{plain(sites[number])} " if len(sites) > 1 else ""
        heads += [f"{prefix}before", f"{prefix}after"]
    return table(heads, [_room_cells(row, picked) for row in rows], figures=2 * len(picked))


def _picked_sites(count: int, rows: Sequence[RoomRow]) -> list[int]:
    """The numbers of sites where the plan leaves less room, then of those it changes, then of the rest."""

    def rank(number: int) -> tuple[bool, bool, int]:
        worse = any(row.worse[number] for row in rows)
        changed = any(row.values[number][0] != row.values[number][1] for row in rows)
        return not worse, not changed, number

    return sorted(sorted(range(count), key=rank)[:_SITES])


def _room_cells(row: RoomRow, picked: Iterable[int]) -> list[str]:
    cells = [plain(row.label)]
    for number in picked:
        before, after = row.values[number]
        cells += [plain(before), f"**{plain(after)}**" if row.worse[number] else plain(after)]
    return cells


def _all_rooms(overview: Overview) -> str:
    """Where the first lines show some of the sites only: all of them, as text."""
    if len(overview.sites) <= _SITES:
        return ""
    lines = []
    for number, site in enumerate(overview.sites):
        lines.append(f"{site}:")
        for row in overview.room:
            before, after = row.values[number]
            lines.append(f"  {row.label}: {before} -> {after}")
    return "\n".join(lines)


# --- tables ------------------------------------------------------------------------------------

_KINDS: Final = {"vm": "VMs", "binding": "Fleet bindings", "pod": "Pods"}


def _summary(overview: Overview) -> list[str]:
    rows = [_resource_row(resource) for resource in overview.resources]
    rows += [_trigger_row(trigger) for trigger in overview.triggers]
    rows += [("Risk", "", plain(risk)) for risk in overview.risks]
    return table(("What", "How many", "Why"), rows) if rows else []


def _resource_row(resource: ResourceCount) -> tuple[str, str, str]:
    counts = ((resource.add, "add"), (resource.change, "change"), (resource.destroy, "destroy"))
    clauses = [f"{count:,} to {verb}" for count, verb in counts if count]
    return code(resource.type), ", ".join(clauses), ""


def _trigger_row(trigger: TriggerCount) -> tuple[str, str, str]:
    kind = _KINDS.get(trigger.kind, plain(trigger.kind))
    return kind, f"{trigger.count:,} to {trigger.action.value}", code(trigger.trigger)


def _rules(verdicts: Sequence[SeparationVerdict]) -> list[str]:
    rows = [_rule_row(verdict) for verdict in verdicts]
    return table(("Separation rule", "Enforcement", "Holds", "Violations"), rows, figures=1) if rows else []


def _rule_row(verdict: SeparationVerdict) -> tuple[str, str, str, str]:
    address, enforcement, holds = code(str(verdict.address)), plain(verdict.enforcement), plain(verdict.holds)
    return address, enforcement, holds, str(len(verdict.violations))


_HEADS: Final = (
    "Cluster",
    "Pool",
    "SKU",
    "Total count",
    "Expected racks",
    "Actual racks",
    "Expected VMs per rack",
    "Actual VMs per rack",
)


def _tables(tables: Sequence[PlacementTable]) -> list[str]:
    rows = [_plain_cells(pool) for pool in tables]
    return table(_HEADS, rows, figures=5) if rows else []


def _plain_cells(pool: PlacementTable) -> list[str]:
    return [plain(cell) for cell in table_row(pool)]


def _drift(report: Report) -> str:
    return "\n\n".join(stanza_text(stanza) for stanza in report.drift)


# --- diagnostics -------------------------------------------------------------------------------


def _diagnostics(diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> list[Part]:
    """A line per finding, and the boxes with source lines folded away."""
    lines: list[str] = []
    boxes: list[str] = []
    for diagnostic in consolidate(diagnostics):
        lines.append(_diagnostic_line(diagnostic))
        boxes += render_diagnostic(diagnostic, sources, width=100).rstrip().split("\n")
    return [
        Part("Findings", 90, tuple(lines)),
        _folded("Source lines and what to do", 50, "\n".join(boxes)),
    ]


def _diagnostic_line(diagnostic: Diagnostic) -> str:
    mark = "**Error**" if diagnostic.severity is Severity.ERROR else "**Warning**"
    line = f"- {mark}: {plain(diagnostic.summary)}"
    if diagnostic.subject is None:
        return line
    return f"{line} ({code(f'{diagnostic.subject.filename}:{diagnostic.subject.start.line}')})"
