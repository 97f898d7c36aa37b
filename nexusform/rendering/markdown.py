"""A plan for a pull request: the verdict first, then tables, the rest folded away."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.plan import PlacementTable, Plan
from nexusform.ports import Registries
from nexusform.rendering.colours import harmless
from nexusform.rendering.diagnostic_text import consolidate, render_diagnostic
from nexusform.rendering.inside import ChangedPart, changed_parts
from nexusform.rendering.placement_rows import Detail, table_row
from nexusform.rendering.placement_text import placement_text
from nexusform.rendering.report import PLACEMENT_MAPS, Report, build_report
from nexusform.rendering.stanza_text import output_lines, stanza_text
from nexusform.rendering.wording import SYMBOLS, headline, plan_counts, plan_line
from nexusform.schema import order_attribute
from nexusform.source import SourceFile

_NO_REGISTRIES = Registries()
# deepdiff takes a fraction of a millisecond per object: this many get lines of what changed.
_UPDATES = 100


def render_markdown(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: Registries = _NO_REGISTRIES,
    placements: Detail = Detail.CHANGED,
) -> str:
    """The whole report as GitHub-flavoured Markdown, with a newline at the end."""
    report = build_report(plan, registries, placements)
    if report.errored:
        # As in the terminal: what was planned up to an error would only bury it.
        return f"{_verdict(plan, report)}\n\n{_diagnostics(report.diagnostics, sources)}\n"
    parts = [_verdict(plan, report), _counts(plan, report), _changes(plan), _tables(report.tables)]
    parts += [_diagnostics(report.diagnostics, sources)]
    parts.append(_folded("Placements by pool", placement_text(report, width=120)) if report.groups else "")
    stanzas = "\n\n".join(stanza_text(s) for s in report.stanzas)
    parts.append(_folded("Every change", _as_diff(stanzas), "diff") if stanzas else "")
    drift = "\n\n".join(stanza_text(s) for s in report.drift)
    parts.append(_folded("Changed outside of nexusform", _as_diff(drift), "diff") if drift else "")
    outputs = "\n".join(output_lines(report.outputs))
    parts.append(_folded("Changes to outputs", _as_diff(outputs), "diff") if outputs else "")
    return "\n\n".join(part for part in parts if part) + "\n"


# --- first lines -------------------------------------------------------------------------------


def _verdict(plan: Plan, report: Report) -> str:
    if report.errored:
        return "### nexusform: planning failed"
    if not report.has_changes:
        return "### nexusform: no changes"
    imports, add, change, destroy, forget = plan_counts(plan)
    words = [
        f"{n} {word}"
        for n, word in (
            (imports, "to import"),
            (add, "to add"),
            (change, "to change"),
            (destroy, "to destroy"),
            (forget, "to forget"),
        )
        if n
    ]
    noun = "placement moves" if report.moves == 1 else "placements move"
    moves = f"**{report.moves} {noun}**" if report.moves else "nothing moves"
    return f"### nexusform: {', '.join([*words, moves] if words else ['outputs only', moves])}"


def _counts(plan: Plan, report: Report) -> str:
    total = report.summaries[0]
    lines = [plan_line(plan) if report.has_changes else report.verdict]
    if total.anything:
        text = f"{total.place} placed, **{total.move} moved**, {total.remove} removed, {total.keep} kept"
        if report.placed and report.tie_breaks:
            text += f" · racks certain for {report.racks_certain} of {report.placed}"
            text += f", machines for {report.machines_certain} (over {report.tie_breaks} tie-breaks)"
        lines.append(text)
    return "  \n".join(lines)


def _changes(plan: Plan) -> str:
    """Each changed object in a line, with what changed inside those that are updated."""
    lines: list[str] = []
    updates = 0
    for change in plan.changes:
        symbol = SYMBOLS[change.action]
        if not symbol:
            continue
        lines.append(f"- `{symbol}` {_code(str(change.address))} {headline(change)}")
        if change.before is None or change.after is None or updates >= _UPDATES:
            continue
        updates += 1
        hidden = (*change.sensitive_before, *change.sensitive_after)
        parts, more = changed_parts(_compared(change.before), _compared(change.after), hidden, limit=8)
        lines += [f"  - {_code(part.place)}: {_turned(part)}" for part in parts]
        lines += [f"  - and {more} more"] if more else []
    return "\n".join(lines)


def _compared(side: Mapping[str, Any]) -> dict[str, Any]:
    # Placements have a part of their own, and the order of labelled blocks stands beside them.
    orders = {order_attribute(name) for name in side}
    return {k: v for k, v in side.items() if k not in PLACEMENT_MAPS and k not in orders}


def _turned(part: ChangedPart) -> str:
    if not part.old:
        return f"added, {_code(part.new)}"
    if not part.new:
        return f"removed, was {_code(part.old)}"
    return f"{_code(part.old)} → {_code(part.new)}"


# --- tables and details ------------------------------------------------------------------------

_HEADS = (
    "Cluster",
    "Pool",
    "SKU",
    "Total count",
    "Expected racks",
    "Actual racks",
    "Expected VMs per rack",
    "Actual VMs per rack",
)


def _tables(tables: Sequence[PlacementTable]) -> str:
    if not tables:
        return ""
    rows = [[_cell(c) for c in table_row(t)] for t in tables]
    rule = ["---"] * 3 + ["---:"] * 5
    return "\n".join(f"| {' | '.join(row)} |" for row in (_HEADS, rule, *rows))


def _diagnostics(diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> str:
    parts = []
    for found in consolidate(diagnostics):
        mark = "**Error**" if found.severity is Severity.ERROR else "**Warning**"
        where = f" ({_code(f'{found.subject.filename}:{found.subject.start.line}')})" if found.subject else ""
        parts.append(f"{mark}: {_plain(found.summary)}{where}")
        parts.append(_folded("Details", render_diagnostic(found, sources, width=100).rstrip()))
    return "\n\n".join(parts)


def _folded(summary: str, body: str, language: str = "") -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", body)), default=0))
    head = f"<details><summary>{_plain(summary)}</summary>"
    return f"{head}\n\n{fence}{language}\n{body}\n{fence}\n\n</details>"


_SIGN = re.compile(r"^( *)([-+~])( |/[-+] )")


def _as_diff(text: str) -> str:
    # GitHub colours a line by its first column: the sign goes there, the rest stays aligned.
    lines = []
    for line in text.split("\n"):
        found = _SIGN.match(line)
        if found is None:
            lines.append(line)
            continue
        sign = "!" if found.group(2) == "~" or "/" in found.group(3) else found.group(2)
        rest = line[found.end(1) :] if "/" in found.group(3) else f" {line[found.end(2) :]}"
        lines.append(f"{sign}{found.group(1)[1:]}{rest}" if found.group(1) else f"{sign}{rest}")
    return "\n".join(lines)


def _code(text: str) -> str:
    shown = harmless(text).replace("\n", " ")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", shown)), default=0))
    return f"{fence} {shown} {fence}" if len(fence) > 1 else f"`{shown}`"


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", harmless(text)).replace("<", "&lt;").replace("\n", " ")


def _cell(text: str) -> str:
    return _plain(text)
