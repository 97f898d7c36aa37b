"""The plan of a fleet as a page: a map with a square per site, then the summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.domains.sites.rendering.at_stake import losses, site_stake
from nexusform.domains.sites.rendering.summary import fleet_outline
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.work import Status
from nexusform.rendering.answers.answer_page import answer_page
from nexusform.rendering.notation.markup import Markup, element, shape
from nexusform.rendering.page.page_parts import section
from nexusform.weights import Stake
from nexusform.words import counted, form, listed, natural

_SIDE: Final = 14  # of a square, with the gap beside it
_ACROSS: Final = 60  # squares
_COLOURS: Final = {
    Status.UNCHANGED: "#b8bec6",
    Status.PLANNED: "#2f7ed8",
    Status.APPLIED: "#2e9e5b",
    Status.REFUSED: "#d03b3b",
    Status.FAILED: "#d03b3b",
    Status.SKIPPED: "#ffffff",
}
_LOSING: Final = "#e08a00"
_ALL: Final = 1_000_000


def fleet_page(plan: FleetPlan) -> str:
    """The page."""
    outline = fleet_outline(plan, _ALL)
    return answer_page(outline, section("fleet-map", "Sites by wave", [_legend(plan), *_maps(plan)]))


def _legend(plan: FleetPlan) -> Markup:
    """What the colours mean, with figures."""
    parts = []
    for status in _COLOURS:
        count = len(plan.of_status(status))
        if count:
            parts += [_swatch(_COLOURS[status]), f" {count:,} {status.value}  "]
    losing = sum(_loses(site) for site in plan.sites)
    if losing:
        words = form(losing, "loses", "lose")
        parts += [_swatch(_LOSING), f" {losing:,} of them {words} what runs, or rack redundancy"]
    return element("p", parts)


def _loses(site: PlannedSite) -> bool:
    """Whether a site that is planned loses something."""
    is_planned = site.answer.status in (Status.PLANNED, Status.APPLIED)
    return is_planned and site_stake(site.answer) is Stake.LOSES


def _swatch(colour: str) -> Markup:
    square = shape("rect", width="12", height="12", fill=colour, stroke="#555")
    return element("svg", square, width="12", height="12", aria_hidden="true")


def _maps(plan: FleetPlan) -> list[Markup]:
    """A map for each wave: sites by region where labels name one, then by name."""
    maps: list[Markup] = []
    for wave in plan.waves:
        sites = plan.of_wave(wave.name)
        if sites:
            maps.append(element("h3", f"{wave.name}: {counted(len(sites), 'site')}"))
            maps.append(_map(sorted(sites, key=_place), wave.name))
    return maps


def _place(site: PlannedSite) -> tuple[str, list[tuple[int, int, str]]]:
    return site.labels.get("region", ""), natural(site.name)


def _map(sites: Sequence[PlannedSite], wave: str) -> Markup:
    """Squares in rows; each says of its site what becomes of it."""
    squares = [_square(site, number) for number, site in enumerate(sites)]
    width = min(len(sites), _ACROSS) * _SIDE
    height = ((len(sites) - 1) // _ACROSS + 1) * _SIDE
    return element(
        "svg",
        squares,
        width=str(width),
        height=str(height),
        role="img",
        aria_label=f"{counted(len(sites), 'site')} of the wave {wave}",
    )


def _square(site: PlannedSite, number: int) -> Markup:
    answer = site.answer
    words = [f"{site.name}: {answer.status.value}", answer.reason, *losses(answer), *answer.redundancy_lost]
    if site.labels:
        words.append(listed(f"{name} {value}" for name, value in site.labels.items()))
    colour = _LOSING if _loses(site) else _COLOURS[answer.status]
    return shape(
        "rect",
        shape("title", ". ".join(word for word in words if word)),
        x=str(number % _ACROSS * _SIDE),
        y=str(number // _ACROSS * _SIDE),
        width=str(_SIDE - 2),
        height=str(_SIDE - 2),
        fill=colour,
        stroke="#555",
    )
