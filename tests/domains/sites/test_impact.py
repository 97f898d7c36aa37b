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
from nexusform.rendering.report.decision_record import DecisionRecord

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
        (
            SiteResult(
                "s", SiteStatus.PLANNED, decision=DecisionRecord(impact=PlacementImpact.LOSES)
            ),
            Level.WARNING,
        ),
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
            SiteResult(f"s{n}", SiteStatus.PLANNED, decision=DecisionRecord(impact=stake))
            for n, stake in enumerate(stakes)
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


def test_block_of_many_sites_names_equal_consequences_once(fleet: Fleet, command: Command) -> None:
    names = [f"par{number}" for number in range(1, 13)]
    fleet({name: {"racks": 3} for name in names})
    command("plan", "-out=f.nfsites")
    assert command("apply", "f.nfsites")[0] == 0
    fleet({name: {"racks": 2} for name in names})
    code, out, err = command("plan", "-report=json:p.json", "-report=markdown:p.md")
    assert code == 0, err
    text = " ".join(out.split())
    assert "Destroys: par1..12: each rack rack3" in text
    assert text.count("loses etcd quorum: 1 of 1 control-plane VMs down at once") == 1
    assert "12 VMs to move (re-created), at most 1 down at a time per cluster" in text
    decision = json.loads(Path("p.json").read_text())["decision"]
    assert decision["impact"]["moved"] == 12
    assert [row["site"] for row in decision["destroys"]] == sorted(names)
    assert {row["site"] for row in decision["consequences"]} == set(names)
    comment = Path("p.md").read_text()
    # Neither a minus that Markdown turns into a list, nor a table wider than a phone.
    assert "- `-` nexus\\_rack" in comment
    assert "| --- |" not in comment


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (["-fail-on=removed:4"], 0, "passed removed:4"),
        (["-fail-on=removed:3"], 1, "BLOCKED by removed:3: 4 in all: par2,4: each 2 VMs"),
        (["-fail-on=risk:0"], 1, "BLOCKED by risk:0: par1: 1 lasting risk: par1 loses"),
        (["-warn-on=moved:0"], 0, "REVIEW needed by moved:0: par1: 1 VM is re-created"),
        (["-fail-on=capacity:13"], 0, "passed capacity:13"),
        (["-fail-on=capacity:14"], 1, "BLOCKED by capacity:14: "),
    ],
)
def test_limits_hold_for_the_sums_of_all_sites(
    fleet: Fleet, command: Command, flags: list[str], code: int, sentence: str
) -> None:
    fleet(START)
    command("plan", "-out=f.nfsites")
    assert command("apply", "f.nfsites")[0] == 0
    fleet(THEN)
    result, out, err = command(
        "plan", "-out=g.nfsites", "-report=json:p.json", "-report=sarif:p.sarif", *flags
    )
    assert result == code, err
    assert sentence in " ".join(out.split())
    document = json.loads(Path("p.json").read_text())
    assert [limit["result"] for limit in document["decision"]["guard_rails"]] == [
        "blocked" if code else "review" if "-warn" in flags[0] else "passed"
    ]
    findings = json.loads(Path("p.sarif").read_text())["runs"][0]["results"]
    found = {finding["ruleId"] for finding in findings}
    assert ("guard-rail" in found, "guard-rail-review" in found) == (
        code == 1,
        flags[0].startswith("-warn"),
    )
    if code:
        # No blocked plan can be applied.
        assert command("apply", "g.nfsites")[0] == 1
        assert "- ends" not in out
        assert out.splitlines()[1].startswith("Blocked: ")


def test_limits_of_sites_without_a_plan_are_unknown(fleet: Fleet, command: Command) -> None:
    fleet({"par1": {"workers": 900}})
    code, out, _ = command("plan", "-fail-on=removed:0")
    assert code == 1
    assert "BLOCKED, unknown: removed:0: par1: planning failed" in " ".join(out.split())
    Path("nexusform.sites.hcl").write_text("site {")
    code, _, _ = command("plan", "-fail-on=removed:0", "-report=markdown:p.md")
    comment = Path("p.md").read_text()
    assert code == 1
    assert "[!CAUTION]" in comment
    assert "BLOCKED, unknown: removed:0: planning failed" in comment
    code, _, err = command("plan", "-fail-on=removd:0")
    assert code != 0
    assert 'there is no limit "removd"' in " ".join(err.split())
