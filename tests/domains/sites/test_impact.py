"""Tests of the impact of site plans: rows are grouped, and all formats are equal.

They show the same impact.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.diagnostics.levels import Level, PlacementImpact
from nexusform.domains.sites.rendering.fleet_impact import compute_fleet_impact, compute_site_level
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite, UndeclaredSite
from nexusform.domains.sites.types.site_tasks import SiteDiagnostic, SiteResult, SiteStatus

Command = Callable[..., tuple[int, str, str]]
Fleet = Callable[..., None]
Golden = Callable[[str, str], None]
START: dict[str, Any] = {
    "par1": {"racks": 3},
    "par2": {"workers": 4},
    "par3": {},
    "par4": {"workers": 4},
}
THEN: dict[str, Any] = {
    "par1": {"racks": 2},
    "par2": {"workers": 2},
    "par3": {"racks": 3},
    "par4": {"workers": 2},
}


def test_removals_are_reported_in_every_format(
    fleet: Fleet, command: Command, golden: Golden
) -> None:
    fleet(START)
    command("plan", "-out=f.nfsites")
    assert command("apply", "f.nfsites")[0] == 0
    fleet(THEN)
    reports = [f"-report={each}:r.{each}" for each in ("text", "markdown", "html", "json", "sarif")]
    code, _, _ = command("plan", *reports)
    assert code == 0
    golden("at_stake.txt", Path("r.text").read_text())
    golden("at_stake.md", Path("r.markdown").read_text())
    assert '<dl class="decision caution"><dt>Caution</dt>' in Path("r.html").read_text()
    document = json.loads(Path("r.json").read_text())
    assert (document["level"], document["impact"]) == ("warning", "caution")
    notes = [site["name"] for site in document["sites"] if site["impact"] == "note"]
    # A smaller count of workers is no loss.
    assert notes == ["lon1", "par2", "par3", "par4"]
    results = json.loads(Path("r.sarif").read_text())["runs"][0]["results"]
    losing = [each for each in results if each["ruleId"] == "site-loses-workloads"]
    assert [each["level"] for each in losing] == ["warning"]


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (SiteResult("s", SiteStatus.UNCHANGED), Level.NOTE),
        (SiteResult("s", SiteStatus.REJECTED), Level.ERROR),
        (SiteResult("s", SiteStatus.PLANNED, impact=PlacementImpact.LOSES), Level.WARNING),
        (SiteResult("s", SiteStatus.PLANNED, redundancy_lost=("p",)), Level.WARNING),
        (
            SiteResult(
                "s",
                SiteStatus.PLANNED,
                diagnostics=(SiteDiagnostic("warning", "i", "", "", level="advice"),),
            ),
            Level.ADVICE,
        ),
        (
            SiteResult(
                "s",
                SiteStatus.UNCHANGED,
                diagnostics=(
                    SiteDiagnostic("warning", "i", "", "", level="warning", is_preexisting=True),
                ),
            ),
            Level.NOTE,
        ),
    ],
)
def test_level_of_site_follows_from_its_impact(answer: SiteResult, level: Level) -> None:
    assert compute_site_level(answer) is level


def test_fleet_impact_equals_impact_of_worst_site() -> None:
    def build_fleet(*stakes: PlacementImpact) -> FleetPlan:
        answers = [
            SiteResult(f"s{n}", SiteStatus.PLANNED, impact=stake) for n, stake in enumerate(stakes)
        ]
        return FleetPlan(tuple(PlannedSite("w", answer) for answer in answers), (), "", "")

    assert compute_fleet_impact(build_fleet()) is PlacementImpact.NONE
    assert (
        compute_fleet_impact(build_fleet(PlacementImpact.NONE, PlacementImpact.MOVES))
        is PlacementImpact.MOVES
    )
    assert (
        compute_fleet_impact(build_fleet(PlacementImpact.LOSES, PlacementImpact.MOVES))
        is PlacementImpact.LOSES
    )
    standing = FleetPlan((), (), "", "", undeclared=(UndeclaredSite("old", "s"),))
    assert compute_fleet_impact(standing) is PlacementImpact.MOVES
