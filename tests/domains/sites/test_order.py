"""A plan of sites says which wave cannot start, and which site waits for which."""

from __future__ import annotations

from collections.abc import Callable

from nexusform.domains.sites.rendering.fleet_page import render_fleet_plan_page
from nexusform.domains.sites.rendering.fleet_summary import build_fleet_summary
from nexusform.domains.sites.types.fleet_definition import Wave
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.site_tasks import SiteResult, SiteStatus
from nexusform.rendering.text.report_text import render_report_text

Golden = Callable[[str, str], None]


def planned(name: str, wave: str, *dependencies: str, status: SiteStatus = SiteStatus.PLANNED) -> PlannedSite:
    return PlannedSite(wave, SiteResult(name, status, rows=("+ x",), placed=1), dependencies=dependencies)


def test_the_order_of_dependent_sites_is_a_tree(golden: Golden) -> None:
    sites = (
        planned("lon1", "canary"),
        planned("hub1", "rest"),
        planned("hub2", "rest", "lon1"),
        *(planned(f"par{number}", "rest", "hub1") for number in range(12)),
        planned("shared", "rest", "hub1", "hub2"),
        planned("report", "rest", "shared", "hub1"),
        planned("alone", "rest"),
    )
    plan = FleetPlan(sites, (Wave("canary"), Wave("rest")), "", "")
    golden("waiting_tree.txt", render_report_text(build_fleet_summary(plan)))
    assert "hub1" in render_fleet_plan_page(plan)


def test_a_wave_that_cannot_start_is_named_with_what_comes_before(golden: Golden) -> None:
    rejected = [planned(f"par{number}", "rest", status=SiteStatus.REFUSED) for number in range(3)]
    waves = (Wave("canary"), Wave("rest", max_failures=1), Wave("last"))
    sites = (planned("lon1", "canary"), *rejected, planned("par9", "rest"), planned("rom1", "last"))
    golden("blocked_wave.txt", render_report_text(build_fleet_summary(FleetPlan(sites, waves, "", ""))))
    tolerant = (waves[0], Wave("rest", max_failures=3), waves[2])
    assert "cannot start" not in render_report_text(build_fleet_summary(FleetPlan(sites, tolerant, "", "")))
