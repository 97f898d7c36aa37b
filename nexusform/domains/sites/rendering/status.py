"""What the states of all sites say, folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nexusform.domains.sites.rendering.findings import findings_document, findings_outline, unasked_sites
from nexusform.domains.sites.rendering.names import names_text
from nexusform.domains.sites.rendering.summary import reasons_of
from nexusform.domains.sites.rendering.undeclared import undeclared_document, undeclared_sections
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.work import Answer, Asked, Status
from nexusform.json_forms import Form
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.words import counted

_WORDS = {
    Status.APPLIED: "applied",
    Status.FAILED: "begun and not ended",
    Status.REFUSED: "cannot be read",
    Status.SKIPPED: "nothing applied yet",
}


def status_outline(plan: FleetPlan, certainty: Sequence[Answer] = ()) -> Outline:
    """The figures by wave, and what is wrong; the certainty of placements where sites were asked for it."""
    bad = plan.of_status(Status.REFUSED, Status.FAILED)
    sections = []
    if bad:
        lines = tuple(f"{names_text(names)}: {reason}" for reason, names in reasons_of(bad))
        sections.append(Section("To be looked at", lines, bad=True))
    sections += undeclared_sections(plan.undeclared, len(plan.undeclared))
    heads = ("wave", "sites", *_WORDS.values())
    rows = []
    for wave in plan.waves:
        statuses = [site.answer.status for site in plan.of_wave(wave.name)]
        figures = [len(statuses), *(statuses.count(status) for status in _WORDS)]
        rows.append(Row((wave.name, *(f"{figure:,}" for figure in figures))))
    sections.append(Section("Waves", table=Table(heads, tuple(rows), frozenset(range(1, len(heads))))))
    figures_text = [
        f"{len(plan.of_status(status)):,} {words}"
        for status, words in _WORDS.items()
        if plan.of_status(status)
    ]
    if plan.undeclared:
        figures_text.append(f"{len(plan.undeclared):,} no longer declared")
    unasked = unasked_sites(certainty)
    if certainty:
        outline = findings_outline(Asked.CERTAINTY, certainty)
        sections += (Section(outline.title, (outline.verdict,)), *outline.sections)
    title = f"States of {counted(len(plan.sites), 'site')}"
    return Outline(title, f"{', '.join(figures_text)}.", bool(bad or unasked), (), tuple(sections))


_SITE: Final = Form(
    PlannedSite,
    "name wave status=answer.status reason=answer.reason serial=answer.serial state=answer.state labels",
)


def status_document(plan: FleetPlan, certainty: Sequence[Answer] = ()) -> dict[str, Any]:
    """The same for machines."""
    document = {
        "format_version": "1.0",
        "sites": [_SITE(site) for site in plan.sites],
        "undeclared": undeclared_document(plan.undeclared),
    }
    if certainty:
        document["certainty"] = findings_document(Asked.CERTAINTY, certainty)["sites"]
    return document
