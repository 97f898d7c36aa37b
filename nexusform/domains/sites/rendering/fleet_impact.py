"""Impact and findings of the plans of all sites, folded; weighted as in each plan.

The findings include sites that are no longer declared.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic, Position, Span, build_warning
from nexusform.diagnostics.levels import Level, PlacementImpact
from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.domains.sites.rendering.site_change_rows import format_names
from nexusform.domains.sites.types.fleet_plan import (
    FILE_NAME,
    FleetPlan,
    PlannedSite,
    UndeclaredSite,
)
from nexusform.domains.sites.types.site_tasks import SiteResult, SiteStatus
from nexusform.placement_kinds.registry import get_kind_noun, get_kind_order
from nexusform.plans.plan_checks import GuardRailOutcome
from nexusform.rendering.report.folding import replace_site
from nexusform.rendering.report.report_tree import Section

_LEVEL_MARKS: Final = {Level.WARNING: "!", Level.ADVICE: "i"}
_UNPLANNED_STATUSES: Final = (SiteStatus.REJECTED, SiteStatus.FAILED, SiteStatus.SKIPPED)
UNDECLARED: Final = "site-no-longer-declared"
_ADVICE: Final = (
    "It is not changed; its workload keeps running. To delete it, declare it with destroy = true "
    "and apply. To keep it, declare it again. To forget it, move its state away."
)


def compute_fleet_impact(plan: FleetPlan) -> PlacementImpact:
    """Compute the impact of the whole plan: the worst impact of a site."""
    impacts = [compute_site_impact(site.result) for site in plan.sites]
    is_reviewed = any(limit.result is GuardRailOutcome.REVIEW for limit in plan.guard_rails)
    # A warning, so as serious as moved objects.
    if plan.undeclared or is_reviewed:
        impacts.append(PlacementImpact.MOVES)
    return max(impacts, key=lambda impact: impact.order, default=PlacementImpact.NONE)


def compute_site_impact(result: SiteResult) -> PlacementImpact:
    """Compute the impact on one site: a missing plan counts as a loss."""
    if result.status in _UNPLANNED_STATUSES:
        return PlacementImpact.LOSES
    return result.decision.impact if result.decision is not None else PlacementImpact.NONE


def compute_site_level(result: SiteResult) -> Level:
    """Compute the level of a site.

    The level is that of its worst new diagnostic, an error without a plan, and at least a
    warning for losses.
    """
    levels = [Level(problem.level) for problem in result.diagnostics if not problem.is_preexisting]
    if result.status in _UNPLANNED_STATUSES:
        levels.append(Level.ERROR)
    if compute_site_impact(result) is PlacementImpact.LOSES:
        levels.append(Level.WARNING)
    return min(levels, key=lambda level: level.order, default=Level.NOTE)


def build_finding_sections(sites: Sequence[PlannedSite], max_rows: int) -> Iterable[Section]:
    """Build the section of warnings and advice caused by plans, worst first.

    One line is for existing findings.
    """
    # A finding is the order of its level, and its text.
    sites_by_finding: dict[tuple[int, str], dict[str, None]] = {}
    sites_with_existing: set[str] = set()
    for site in sites:
        if site.result.status in _UNPLANNED_STATUSES:
            # The site is listed with its reason among the rejected sites.
            continue
        for problem in site.result.diagnostics:
            level = Level(problem.level)
            if problem.is_preexisting:
                sites_with_existing.add(site.name)
            elif level in _LEVEL_MARKS:
                # Other levels are not listed.
                summary = problem.summary.removeprefix(f"{problem.id}: ")
                text = replace_site(f"{summary} ({problem.id})", site.name)
                sites_by_finding.setdefault((level.order, f"{_LEVEL_MARKS[level]} {text}"), {})[
                    site.name
                ] = None
    finding_lines = [
        f"{text}: {format_names(list(names))}"
        for (_, text), names in sorted(sites_by_finding.items())
    ]
    lines = limit_lines(finding_lines, max_rows, "more finding")
    if sites_with_existing:
        lines = (*lines, f"{format_count(len(sites_with_existing), 'site')}: existing issues.")
    if lines:
        yield Section("Warnings and advice", lines)


def limit_lines(
    lines: Sequence[str], max_rows: int, noun: str, complete_text: str = "-json has all"
) -> tuple[str, ...]:
    """Return the first `max_rows` lines.

    If there are more, add a line such as "3 more sites: -json has all".
    """
    hidden_count = len(lines) - max_rows
    if hidden_count <= 0:
        return tuple(lines)
    return (*lines[:max_rows], f"{format_count(hidden_count, noun)}: {complete_text}.")


def build_undeclared_sections(sites: Sequence[UndeclaredSite], max_rows: int) -> Iterable[Section]:
    """Build the section with a row per site and the advice."""
    if not sites:
        return
    lines = limit_lines(
        [f"{site.name}: {_describe_state(site)}" for site in sites], max_rows, "more site"
    )
    verb = select_word_form(len(sites), "is", "are")
    title = f"Warning: {format_count(len(sites), 'site')} {verb} no longer declared"
    yield Section(title, (*lines, _ADVICE))


def _describe_state(site: UndeclaredSite) -> str:
    """Describe the state of a site and its number of objects and placements."""
    # Its state was not read.
    if site.objects is None:
        return f"its state {site.state_location} may exist. {site.reason}"
    kinds = sorted(site.placement_counts, key=get_kind_order)
    placement_texts = [
        format_count(site.placement_counts[kind], get_kind_noun(kind)) for kind in kinds
    ]
    return (
        f"its state {site.state_location} exists, with "
        f"{format_list([format_count(site.objects, 'object'), *placement_texts])}."
    )


def build_undeclared_document(site: UndeclaredSite) -> dict[str, Any]:
    """Build an undeclared site as JSON data; `objects` is null for an unreadable state."""
    return {
        "name": site.name,
        "state": site.state_location,
        "serial": site.serial,
        "objects": site.objects,
        "placed": dict(site.placement_counts),
        "reason": site.reason,
    }


def build_undeclared_findings(sites: Sequence[UndeclaredSite]) -> Iterable[Diagnostic]:
    """Build a warning for each site, located at the start of the sites file."""
    position = Position(1, 1, 0)
    for site in sites:
        detail = f"{site.name}: {_describe_state(site)} {_ADVICE}"
        yield build_warning(UNDECLARED, detail, Span(FILE_NAME, position, position))
