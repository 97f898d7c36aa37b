"""Tests of order in plans of sites: blocked waves are named, and so are dependencies of sites."""

from __future__ import annotations

from collections.abc import Callable

from nexusform.diagnostics.diagnostic import Position, Span
from nexusform.domains.sites.rendering.fleet_page import render_fleet_plan_page
from nexusform.domains.sites.rendering.fleet_summary import build_fleet_summary
from nexusform.domains.sites.types.fleet_plan import (
    FleetDefinition,
    FleetPlan,
    PlannedSite,
    SiteEntry,
    Wave,
)
from nexusform.domains.sites.types.site_tasks import SiteResult, SiteStatus
from nexusform.domains.sites.workflow.fleet_tasks import check_site_order
from nexusform.plans.impact.decision_figures import ImpactSummary
from nexusform.rendering.text.report_text import render_report_text

Golden = Callable[[str, str], None]


def build_planned_site(
    name: str, wave: str, *dependencies: str, status: SiteStatus = SiteStatus.PLANNED
) -> PlannedSite:
    return PlannedSite(
        wave,
        SiteResult(name, status, rows=("+ x",), impact=ImpactSummary(placed=1)),
        dependencies=dependencies,
    )


def test_order_of_dependent_sites_is_a_tree(golden: Golden) -> None:
    sites = (
        build_planned_site("lon1", "canary"),
        build_planned_site("hub1", "rest"),
        build_planned_site("hub2", "rest", "lon1"),
        *(build_planned_site(f"par{number}", "rest", "hub1") for number in range(12)),
        build_planned_site("shared", "rest", "hub1", "hub2"),
        build_planned_site("report", "rest", "shared", "hub1"),
        build_planned_site("alone", "rest"),
    )
    plan = FleetPlan(sites, (Wave("canary"), Wave("rest")), "", "")
    golden("waiting_tree.txt", render_report_text(build_fleet_summary(plan)))
    assert "hub1" in render_fleet_plan_page(plan)


def test_cycle_of_sites_is_an_error() -> None:
    span = Span("nexusform.sites.hcl", Position(1, 1, 0), Position(1, 1, 0))
    entries = tuple(
        SiteEntry(name, "./site", "all", span, span, {}) for name in ("a", "b", "c", "d", "e")
    )
    definition = FleetDefinition(entries, (Wave("all"),), "")
    dependencies = {"a": ("b", "e"), "b": ("c",), "c": ("d",), "d": ("b",), "e": ()}
    (problem,) = check_site_order(definition, dependencies)
    assert problem.id == "cycle"
    assert '"b" -> "c" -> "d" -> "b"' in problem.detail


def test_blocked_wave_is_named_with_its_predecessors(golden: Golden) -> None:
    rejected = [
        build_planned_site(f"par{number}", "rest", status=SiteStatus.REJECTED)
        for number in range(3)
    ]
    waves = (Wave("canary"), Wave("rest", max_failures=1), Wave("last"))
    sites = (
        build_planned_site("lon1", "canary"),
        *rejected,
        build_planned_site("par9", "rest"),
        build_planned_site("rom1", "last"),
    )
    golden(
        "blocked_wave.txt", render_report_text(build_fleet_summary(FleetPlan(sites, waves, "", "")))
    )
    tolerant = (waves[0], Wave("rest", max_failures=3), waves[2])
    assert "cannot start" not in render_report_text(
        build_fleet_summary(FleetPlan(sites, tolerant, "", ""))
    )
