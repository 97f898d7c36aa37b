"""The parts of the page that need no script: overview, diagnostics, tables, fleet, separation rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.plan import CheckResult, PlacementTable, SeparationVerdict
from nexusform.rendering.notation.markup import Markup, Part, element, joined
from nexusform.rendering.notation.snippet import snippet_of
from nexusform.rendering.report.difference import Difference
from nexusform.rendering.report.overview import Overview, violation_text
from nexusform.rendering.report.placement_rows import table_row
from nexusform.rendering.report.report import Report, Stanza
from nexusform.rendering.text.stanza_text import output_lines, stanza_text
from nexusform.source import SourceFile
from nexusform.words import counted

TABLE_HEADS: Final = (
    "Cluster",
    "Pool",
    "SKU",
    "Total count",
    "Expected racks",
    "Actual racks",
    "Expected VMs per rack",
    "Actual VMs per rack",
)
_KINDS: Final = {"vm": "VMs", "binding": "Fleet bindings", "pod": "Pods"}


def section(identifier: str, title: str, *parts: Part, **attributes: Any) -> Markup:
    """A titled part of the page."""
    head = element("h2", title, id=f"{identifier}-title")
    return element(
        "section", head, *parts, id=identifier, aria_labelledby=f"{identifier}-title", **attributes
    )


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Part]],
    figures: int = 0,
    *,
    firm: bool = False,
) -> Markup:
    """A table in a box that scrolls; the last `figures` columns are numbers. A `firm` one keeps every
    cell on one line.
    """
    first = len(heads) - figures
    head = [
        element("th", text, scope="col", class_="n" if n >= first else None) for n, text in enumerate(heads)
    ]
    body = [
        element(
            "tr",
            [
                element("th", cell, scope="row")
                if n == 0
                else element("td", cell, class_="n" if n >= first else None)
                for n, cell in enumerate(row)
            ],
        )
        for row in rows
    ]
    inner = element(
        "table",
        element("caption", caption, class_="quiet"),
        element("thead", element("tr", head)),
        element("tbody", body),
    )
    return element(
        "div",
        inner,
        class_="scroll firm" if firm else "scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


# --- overview ----------------------------------------------------------------------------------


def overview_part(report: Report, found: Overview) -> Markup:
    """The verdict and the figures."""
    verdict: Part
    if found.denied:
        verdict = element("p", element("strong", "Denied"), f" by {found.denied}", class_="verdict denied")
    else:
        because = f" ({'; '.join(found.reasons)})" if found.reasons else ""
        verdict = element("p", element("strong", "Allowed"), because, class_="verdict allowed")
    facts = [text for text in (found.placements, found.certainty) if text]
    lines: list[Part] = [element("p", report.verdict, class_="plan-line")] if not report.errored else []
    lines += [element("p", text) for text in facts] if not report.errored else []
    if found.inventory:
        lines.append(element("p", f"Inventory: {found.inventory}"))
    if found.risks:
        lines.append(element("p", f"{counted(found.warnings, 'warning')}: {'; '.join(found.risks)}"))
    return section("overview", "Overview", verdict, lines, _room(found), _counts(found))


def _room(found: Overview) -> Part:
    if not found.room:
        return None
    heads = [""]
    for site in found.sites:
        prefix = f"{site} " if len(found.sites) > 1 else ""
        heads += [f"{prefix}before", f"{prefix}after"]
    rows = []
    for row in found.room:
        cells: list[Part] = [row.label]
        for (before, after), worse in zip(row.values, row.worse, strict=True):
            cells += [before, element("strong", after) if worse else after]
        rows.append(cells)
    return table("Room before and after", heads, rows, figures=len(heads) - 1)


def _counts(found: Overview) -> list[Markup]:
    parts = []
    if found.resources:
        rows = [(r.type, f"{r.add:,}", f"{r.change:,}", f"{r.destroy:,}") for r in found.resources]
        parts.append(table("Resources", ("Type", "Add", "Change", "Destroy"), rows, figures=3))
    if found.triggers:
        counts = [
            (_KINDS.get(t.kind, t.kind), t.action.value, t.trigger, f"{t.count:,}") for t in found.triggers
        ]
        parts.append(
            table("Placements by trigger", ("Kind", "Action", "Trigger", "Count"), counts, figures=1)
        )
    return [element("div", parts, class_="side-by-side")] if parts else []


# --- diagnostics -------------------------------------------------------------------------------


def diagnostics_part(diagnostics: Sequence[Diagnostic], sources: Mapping[str, SourceFile]) -> Part:
    """Every finding with the source lines it speaks of."""
    if not diagnostics:
        return None
    errors = sum(d.severity is Severity.ERROR for d in diagnostics)
    words = [counted(n, noun) for n, noun in ((errors, "error"), (len(diagnostics) - errors, "warning")) if n]
    shown = [_diagnostic(d, sources) for d in diagnostics]
    return section("diagnostics", f"Findings: {', '.join(words)}", shown)


def _diagnostic(found: Diagnostic, sources: Mapping[str, SourceFile]) -> Markup:
    is_error = found.severity is Severity.ERROR
    word = "Error" if is_error else "Warning"
    where = f"{found.subject.filename}:{found.subject.start.line}" if found.subject else ""
    place = " \N{MIDDLE DOT} ".join(text for text in (found.address, where) if text)
    return element(
        "article",
        element("h3", element("span", word, class_="tag"), " ", found.summary),
        element("p", element("code", place), class_="quiet") if place else None,
        _lines(found, sources),
        [element("p", text) for text in found.detail.split("\n") if text.strip()],
        class_=f"finding {'error' if is_error else 'warning'}",
    )


def _lines(found: Diagnostic, sources: Mapping[str, SourceFile]) -> Part:
    snippet = snippet_of(found, sources)
    if snippet is None:
        return None
    lines = []
    for number, (before, marked, after) in enumerate(snippet.highlighted(), start=snippet.start_line):
        shown = element("mark", marked) if marked else None
        lines.append(
            joined(element("span", f"{number:>4} ", class_="line-number"), before, shown, after, "\n")
        )
    return element("pre", lines, class_="source", tabindex="0", role="group", aria_label="Source lines")


# --- tables ------------------------------------------------------------------------------------


def tables_part(tables: Sequence[PlacementTable]) -> Part:
    """The document's table with certainty, one row per pool."""
    if not tables:
        return None
    rows = [(*table_row(t), *_certainty(t)) for t in tables]
    drawn = table("How each pool is spread over the racks", (*TABLE_HEADS, *_SURE), rows, firm=True)
    return section("pools", "Pools", drawn)


_SURE: Final = ("Racks certain", "Machines certain")


def _certainty(given: PlacementTable) -> tuple[str, str]:
    if not given.placed:
        return "", ""
    return f"{given.racks_certain} of {given.placed}", f"{given.machines_certain} of {given.placed}"


def rules_part(verdicts: Sequence[SeparationVerdict]) -> Part:
    """The separation rules and whether they hold."""
    if not verdicts:
        return None
    heads = ("Rule", "Enforcement", "Holds", "Violations")
    rows = [_rule_row(verdict) for verdict in verdicts]
    return section("separation", "Separation rules", table("Who must not share hardware", heads, rows))


def _rule_row(verdict: SeparationVerdict) -> tuple[str, str, str, str]:
    violations = "; ".join(violation_text(violation) for violation in verdict.violations) or "none"
    return str(verdict.address), verdict.enforcement, verdict.holds, violations


def checks_part(checks: Sequence[CheckResult]) -> Part:
    """Conditions and their verdicts."""
    if not checks:
        return None
    rows = [(c.address, c.kind.replace("_", " "), c.status, "; ".join(c.problems)) for c in checks]
    return section("checks", "Checks", table("Conditions", ("Address", "Kind", "Verdict", "Problems"), rows))


def outputs_part(outputs: Sequence[Difference]) -> Part:
    """Outputs that change."""
    if not outputs:
        return None
    return section("outputs", "Outputs that change", diff_lines("\n".join(output_lines(outputs)), "Outputs"))


def drift_part(stanzas: Sequence[Stanza]) -> Part:
    """What changed outside nexusform."""
    if not stanzas:
        return None
    text = "\n\n".join(stanza_text(s) for s in stanzas)
    return section("drift", "Changed outside of nexusform", diff_lines(text, "Changed outside of nexusform"))


def diff_lines(text: str, label: str) -> Markup:
    """Lines coloured by the sign they start with."""
    shown = []
    for line in text.split("\n"):
        sign = line.lstrip()[:1]
        kind = {"+": "added", "-": "removed", "~": "changed"}.get(sign)
        shown.append(element("span", f"{line}\n", class_=kind) if kind else joined(f"{line}\n"))
    return element("pre", shown, class_="diff", tabindex="0", role="group", aria_label=label)
