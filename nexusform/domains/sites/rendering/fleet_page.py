"""Plan of a fleet as a page: a map with a square per site, then the summary."""

from typing import Final

from nexusform.diagnostics.levels import PlacementImpact
from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    format_count,
    format_list,
    select_word_form,
)
from nexusform.domains.sites.rendering.fleet_impact import compute_site_impact
from nexusform.domains.sites.rendering.fleet_summary import build_fleet_summary
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.site_tasks import SiteStatus
from nexusform.rendering.notation.markup import Markup, build_element, build_svg_element
from nexusform.rendering.page.page_elements import build_section
from nexusform.rendering.page.report_page import render_report_page
from nexusform.rendering.report.summed_decision import list_record_risks

# Of a square, including the gap.
_SQUARE_SIZE: Final = 14
_SQUARES_PER_ROW: Final = 60  # squares
_STATUS_COLORS: Final = {
    SiteStatus.UNCHANGED: "#b8bec6",
    SiteStatus.PLANNED: "#2f7ed8",
    SiteStatus.APPLIED: "#2e9e5b",
    SiteStatus.REJECTED: "#d03b3b",
    SiteStatus.FAILED: "#d03b3b",
    SiteStatus.SKIPPED: "#ffffff",
}
_LOSS_COLOR: Final = "#e08a00"
_UNLIMITED: Final = 1_000_000


def render_fleet_plan_page(plan: FleetPlan) -> str:
    """Render the page of a plan: a map of the sites by wave, its legend, and the summary."""
    report = build_fleet_summary(plan, _UNLIMITED)
    # One for each wave: sites by the label region, then by name.
    maps: list[Markup] = []
    for wave in plan.waves:
        sites = sorted(
            plan.select_wave(wave.name),
            key=lambda site: (site.labels.get("region", ""), compute_natural_sort_key(site.name)),
        )
        if sites:
            site_count = format_count(len(sites), "site")
            status_map = build_element(
                "svg",
                [_render_square(site, number) for number, site in enumerate(sites)],
                width=str(min(len(sites), _SQUARES_PER_ROW) * _SQUARE_SIZE),
                height=str(((len(sites) - 1) // _SQUARES_PER_ROW + 1) * _SQUARE_SIZE),
                role="img",
                aria_label=f"{site_count} of the wave {wave.name}",
            )
            maps += [build_element("h3", f"{wave.name}: {site_count}"), status_map]
    legend = []
    for status in _STATUS_COLORS:
        count = len(plan.select_by_status(status))
        if count:
            legend += [_render_swatch(_STATUS_COLORS[status]), f" {count:,} {status.value}  "]
    # Number of sites with losses.
    losing = sum(map(_has_losses, plan.sites))
    if losing:
        verb = select_word_form(losing, "loses", "lose")
        legend += [
            _render_swatch(_LOSS_COLOR),
            f" {losing:,} of them {verb} what runs, or its protection",
        ]
    return render_report_page(
        report, build_section("fleet-map", "Sites by wave", [build_element("p", legend), *maps])
    )


def _has_losses(site: PlannedSite) -> bool:
    """Return True if a planned site has losses."""
    is_planned = site.result.status in (SiteStatus.PLANNED, SiteStatus.APPLIED)
    return is_planned and compute_site_impact(site.result) is PlacementImpact.LOSES


def _render_swatch(color: str) -> Markup:
    square = build_svg_element("rect", width="12", height="12", fill=color, stroke="#555")
    return build_element("svg", square, width="12", height="12", aria_hidden="true")


def _render_square(site: PlannedSite, number: int) -> Markup:
    """Render the square of a site at position `number` of the grid.

    Its tooltip has status, reason, losses, labels.
    """
    result = site.result
    texts = [
        f"{site.name}: {result.status.value}",
        result.reason,
        *list_record_risks(result.decision),
    ]
    if site.labels:
        texts.append(format_list(f"{name} {value}" for name, value in site.labels.items()))
    color = _LOSS_COLOR if _has_losses(site) else _STATUS_COLORS[result.status]
    return build_svg_element(
        "rect",
        build_svg_element("title", ". ".join(text for text in texts if text)),
        x=str(number % _SQUARES_PER_ROW * _SQUARE_SIZE),
        y=str(number // _SQUARES_PER_ROW * _SQUARE_SIZE),
        width=str(_SQUARE_SIZE - 2),
        height=str(_SQUARE_SIZE - 2),
        fill=color,
        stroke="#555",
    )
