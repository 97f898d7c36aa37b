"""A plan for a pull request: what to decide on in the first lines, then tables, the rest folded away.

The report never exceeds a number of bytes (hosts cut comments off at 65,536 characters): what matters
least is cut first, and what was cut is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.plan import Action, PlacementAction, PlacementTable, Plan
from nexusform.ports import Registries
from nexusform.rendering.pull_request.inside import ChangedPart, changed_parts
from nexusform.rendering.pull_request.markdown_budget import Part, fit
from nexusform.rendering.pull_request.markdown_text import as_diff, code, folded, plain, table
from nexusform.rendering.report.overview import Overview, SeparationRule, overview
from nexusform.rendering.report.placement_rows import Detail, table_row
from nexusform.rendering.report.report import Report, build_report
from nexusform.rendering.report.room import RoomRow
from nexusform.rendering.report.wording import SYMBOLS, headline
from nexusform.rendering.text.alike import alike_changes, alike_stanzas, compared, drawn_changes
from nexusform.rendering.text.diagnostic_text import consolidate, render_diagnostic
from nexusform.rendering.text.placement_text import placement_text
from nexusform.rendering.text.stanza_text import output_lines, stanza_text
from nexusform.source import SourceFile
from nexusform.words import counted

MAX_BYTES: Final = 65_000
_NO_REGISTRIES = Registries()
# deepdiff takes a fraction of a millisecond per object: this many get lines of what changed.
_UPDATES = 100
# In the first lines: sites side by side, moved VMs by name, warnings by name.
_SITES = 3
_NAMED = 5
# Of what is destroyed or replaced, more are named: nobody should have to look for them.
_LOST = 40
_LOSING = frozenset({Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST, Action.FORGET})
_LONGEST_LINE = 700


def render_markdown(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: Registries = _NO_REGISTRIES,
    placements: Detail = Detail.CHANGED,
    *,
    rules: Sequence[SeparationRule] = (),
    max_bytes: int = MAX_BYTES,
) -> str:
    """The whole report as GitHub-flavoured Markdown, with a newline at the end, in `max_bytes`."""
    report = build_report(plan, registries, placements)
    found = overview(plan, report, rules)
    parts = [Part("The first lines", 100, tuple(_head(plan, report, found)), whole=True)]
    if report.errored:
        # As in the terminal: what was planned up to an error would only bury it.
        parts += _diagnostics(report.diagnostics, sources)
        return fit(parts, max_bytes)
    parts += [
        _summary(found),
        Part("Separation rules", 75, tuple(_rules(rules))),
        Part("Changes", 60, tuple(_changes(plan))),
        Part("Placement tables", 70, tuple(_tables(report.tables))),
        *_diagnostics(report.diagnostics, sources),
        _folded("Room of every site", 45, _all_rooms(found)),
        _folded("Placements by pool", 40, placement_text(report, width=120) if report.groups else ""),
        _folded("Every change", 10, as_diff(_every_change(plan, report)), "diff"),
        _folded("Changed outside of nexusform", 30, as_diff(_drift(report)), "diff"),
        _folded("Changes to outputs", 20, as_diff("\n".join(output_lines(report.outputs))), "diff"),
    ]
    return fit(parts, max_bytes)


def _folded(title: str, importance: int, body: str, language: str = "") -> Part:
    lines = tuple(body.split("\n")) if body else ()
    return Part(title, importance, lines, lambda text: folded(title, text, language))


# --- first lines -------------------------------------------------------------------------------


def _head(plan: Plan, report: Report, found: Overview) -> list[str]:
    """At most twelve lines."""
    if found.denied:
        return [f"### nexusform: {found.headline}", "", _clipped(f"**Denied** by {plain(found.denied)}")]
    words = found.headline.split(", ")
    if report.moves:
        words[-1] = f"**{words[-1]}**"
    lines = [f"### nexusform: {', '.join(words)}", ""]
    because = f" ({plain('; '.join(found.reasons))})" if found.reasons else ""
    facts = [f"**Allowed**{because}", _placements(plan, report, found), found.certainty]
    lines.append(_clipped(" · ".join(fact for fact in facts if fact)) + "  ")
    lines.append(report.verdict)
    if found.room:
        lines += ["", *_room(found.sites, found.room)]
    last = [f"Inventory: {found.inventory}"] if found.inventory else []
    if found.risks:
        named = "; ".join(plain(risk) for risk in found.risks[:_NAMED])
        more = f" and {len(found.risks) - _NAMED} more" if len(found.risks) > _NAMED else ""
        last.append(f"{counted(found.warnings, 'warning')}: {named}{more}")
    return [*lines, "", _clipped(" · ".join(last))] if last else lines


def _clipped(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 3]}..."


def _placements(plan: Plan, report: Report, found: Overview) -> str:
    if not found.placements:
        return ""
    text = found.placements.replace(f"{report.moves:,} moved", f"**{report.moves:,} moved**", 1)
    names = [row.object for row in plan.placements if row.action is PlacementAction.MOVE]
    if not names:
        return text
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return text.replace("moved**", f"moved** ({', '.join(code(n) for n in names[:_NAMED])}{more})", 1)


def _room(sites: Sequence[str], rows: Sequence[RoomRow]) -> list[str]:
    """The sites where the plan leaves less room come first, then those it changes, then the rest."""

    def rank(number: int) -> tuple[bool, bool, int]:
        worse = any(row.worse[number] for row in rows)
        changed = any(row.values[number][0] != row.values[number][1] for row in rows)
        return not worse, not changed, number

    picked = sorted(sorted(range(len(sites)), key=rank)[:_SITES])
    first = plain(sites[0]) if len(sites) == 1 else ""
    heads = [f"{len(picked)} of {len(sites)} sites" if len(sites) > len(picked) else first]
    for number in picked:
        prefix = f"{plain(sites[number])} " if len(sites) > 1 else ""
        heads += [f"{prefix}before", f"{prefix}after"]
    drawn = []
    for row in rows:
        cells = [plain(row.label)]
        for number in picked:
            before, after = row.values[number]
            cells += [plain(before), f"**{plain(after)}**" if row.worse[number] else plain(after)]
        drawn.append(cells)
    return table(heads, drawn, figures=2 * len(picked))


def _all_rooms(found: Overview) -> str:
    """Where the first lines show some of the sites only: all of them, as text."""
    if len(found.sites) <= _SITES:
        return ""
    lines = []
    for number, site in enumerate(found.sites):
        lines.append(f"{site}:")
        lines += [f"  {row.label}: {row.values[number][0]} -> {row.values[number][1]}" for row in found.room]
    return "\n".join(lines)


# --- tables ------------------------------------------------------------------------------------

_KINDS: Final = {"vm": "VMs", "binding": "Fleet bindings", "pod": "Pods"}


def _summary(found: Overview) -> Part:
    rows = []
    for r in found.resources:
        told = [
            f"{n:,} to {word}"
            for n, word in ((r.add, "add"), (r.change, "change"), (r.destroy, "destroy"))
            if n
        ]
        rows.append((code(r.type), ", ".join(told), ""))
    rows += [
        (_KINDS.get(t.kind, plain(t.kind)), f"{t.count:,} to {t.action.value}", code(t.trigger))
        for t in found.triggers
    ]
    rows += [("Risk", "", plain(risk)) for risk in found.risks]
    return Part("Summary", 80, tuple(table(("What", "How many", "Why"), rows)) if rows else ())


def _rules(rules: Sequence[SeparationRule]) -> list[str]:
    rows = [
        (
            code(str(rule.get("address", ""))),
            plain(str(rule.get("enforcement", ""))),
            plain(str(rule.get("holds", ""))),
            str(len(rule.get("violations") or ())),
        )
        for rule in rules
    ]
    return table(("Separation rule", "Enforcement", "Holds", "Violations"), rows, figures=1) if rows else []


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
    rows = [[plain(cell) for cell in table_row(t)] for t in tables]
    return table(_HEADS, rows, figures=5) if rows else []


# --- changes -----------------------------------------------------------------------------------


def _changes(plan: Plan) -> list[str]:
    """Changes in a line each, like ones together, with what changed inside those that are updated."""
    lines: list[str] = []
    updates = 0
    for group in alike_changes(plan):
        change = group.change
        line = f"- `{SYMBOLS[change.action]}` {code(str(change.address))} {headline(change)}"
        lines.append(f"{line}{_likewise(group.others, _LOST if change.action in _LOSING else _NAMED)}")
        if change.before is None or change.after is None or updates >= _UPDATES:
            continue
        updates += 1
        hidden = (*change.sensitive_before, *change.sensitive_after)
        parts, more = changed_parts(compared(change.before), compared(change.after), hidden, limit=8)
        lines += [f"  - {code(part.place)}: {_turned(part)}" for part in parts]
        lines += [f"  - and {more} more"] if more else []
    return lines


def _likewise(addresses: Sequence[str], most: int) -> str:
    if not addresses:
        return ""
    named = ", ".join(code(address) for address in addresses[:most])
    more = f" and {len(addresses) - most:,} more" if len(addresses) > most else ""
    return f"; likewise {named}{more}"


def _turned(part: ChangedPart) -> str:
    if not part.old:
        return f"added, {code(part.new)}"
    if not part.new:
        return f"removed, was {code(part.old)}"
    return f"{code(part.old)} → {code(part.new)}"


def _every_change(plan: Plan, report: Report) -> str:
    texts = []
    for group in alike_stanzas(drawn_changes(plan, report)):
        named = ", ".join(group.others[:_NAMED])
        more = f" and {len(group.others) - _NAMED:,} more" if len(group.others) > _NAMED else ""
        texts.append(f"{group.text}\n  # likewise: {named}{more}" if group.others else group.text)
    return "\n\n".join(texts)


def _drift(report: Report) -> str:
    return "\n\n".join(stanza_text(stanza) for stanza in report.drift)


# --- diagnostics -------------------------------------------------------------------------------


def _diagnostics(diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> list[Part]:
    """A line per finding, and the boxes with source lines folded away."""
    found = consolidate(diagnostics)
    lines, boxes = [], []
    for one in found:
        mark = "**Error**" if one.severity is Severity.ERROR else "**Warning**"
        where = f" ({code(f'{one.subject.filename}:{one.subject.start.line}')})" if one.subject else ""
        lines.append(f"- {mark}: {plain(one.summary)}{where}")
        boxes += render_diagnostic(one, sources, width=100).rstrip().split("\n")
    title = "Source lines and what to do"
    return [
        Part("Findings", 90, tuple(lines)),
        Part(title, 50, tuple(boxes), lambda body: folded(title, body)),
    ]
