"""What came of applying a fleet's plan."""

from __future__ import annotations

from nexusform.domains.sites.rendering.names import names_text
from nexusform.domains.sites.rendering.summary import reasons_of
from nexusform.domains.sites.rendering.undeclared import undeclared_sections
from nexusform.domains.sites.types.fleet_plan import FleetPlan
from nexusform.domains.sites.types.work import Status
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.words import counted, form, listed

_SHOWN = (Status.APPLIED, Status.UNCHANGED, Status.REFUSED, Status.FAILED, Status.SKIPPED)


def outcome_outline(plan: FleetPlan, *, bad: bool) -> Outline:
    """The figures, what failed and why, and the waves."""
    failed = plan.of_status(Status.REFUSED, Status.FAILED)
    sections = []
    if failed:
        lines = [f"{names_text(names)}: {reason}" for reason, names in reasons_of(failed)]
        title = f"{counted(len(failed), 'site')} {form(len(failed), 'was', 'were')} not applied"
        sections.append(Section(title, tuple(lines), bad=True))
    sections += undeclared_sections(plan.undeclared, len(plan.undeclared))
    sections.append(_waves(plan))
    figures = [
        f"{len(plan.of_status(status)):,} {status.value}" for status in _SHOWN if plan.of_status(status)
    ]
    if plan.undeclared:
        figures.append(f"{len(plan.undeclared):,} no longer declared")
    title = f"Applied {len(plan.of_status(Status.APPLIED)):,} of {counted(len(plan.sites), 'site')}"
    return Outline(title, f"{listed(figures)}.", bad or bool(failed), (), tuple(sections))


def _waves(plan: FleetPlan) -> Section:
    """A row per wave."""
    heads = ("wave", "sites", *(status.value for status in _SHOWN))
    rows = []
    for wave in plan.waves:
        statuses = [site.answer.status for site in plan.of_wave(wave.name)]
        if statuses:
            figures = [len(statuses), *(statuses.count(status) for status in _SHOWN)]
            rows.append(Row((wave.name, *(f"{figure:,}" for figure in figures))))
    return Section("Waves", table=Table(heads, tuple(rows), frozenset(range(1, len(heads)))))
