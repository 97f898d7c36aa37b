from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.diagnostics.levels import get_diagnostic_level
from nexusform.plans.plan import Action, Plan
from nexusform.rendering.pull_request import sarif
from nexusform.rendering.pull_request.sarif import build_findings_document, build_sarif_document
from nexusform.rendering.report.finding_entries import Finding
from tests.rendering.real_plans import RealPlan


def weighed(diagnostics: Iterable[Diagnostic]) -> list[Finding]:
    return [Finding(each, get_diagnostic_level(each)) for each in diagnostics]


def test_finding_points_to_its_line(examples: Mapping[str, RealPlan]) -> None:
    document = build_sarif_document(examples["nexus-document"].saved.plan)
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["zones-pinned"]
    (result,) = run["results"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("zones-pinned", 0, "note")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "clusters.nf.hcl", "uriBaseId": "SRCROOT"}
    text = (
        examples["nexus-document"]
        .sources["clusters.nf.hcl"]
        .text.split("\n")[place["region"]["startLine"] - 1]
    )
    low = place["region"]["startColumn"] - 1
    high = place["region"]["endColumn"] - 1
    assert text[low:high] == '["7", "8"]'
    assert (
        result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
        == "nexus_kubernetes_cluster.d[0]"
    )


def test_finding_without_a_line_points_to_its_block(plans: SimpleNamespace) -> None:
    found = build_error("unknown-site", "There is none.", address="nexus_rack.r")
    block = plans.span_of('agent_pool "pool1"')
    rack = plans.change(plans.address("nexus_rack", "r"), Action.CREATE, None, {}, source=block)
    document = build_sarif_document(Plan(changes=(rack,), diagnostics=(found,)))
    (result,) = document["runs"][0]["results"]
    assert result["ruleId"] == "unknown-site"
    assert result["level"] == "error"
    assert result["message"]["text"] == "Unknown site\n\nThere is none."
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region["startLine"] == block.start.line


def test_rules_are_listed_once_and_indexed(plans: SimpleNamespace) -> None:
    span = plans.span_of("count")
    found = [
        build_warning("zones-pinned", "", span, headline="zones-pinned: x"),
        build_error("invalid-expression", "", replace(span, filename="/abs/with space.nf.hcl")),
        build_warning(
            "zones-pinned",
            "",
            replace(span, filename="../up/main.nf.hcl"),
            headline="zones-pinned: x",
        ),
        build_error("invalid-expression"),
    ]
    run = build_findings_document(weighed(found), "1.2.3")["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["invalid-expression", "zones-pinned"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    uris = [
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for r in run["results"]
        if "locations" in r
    ]
    assert uris == ["main.nf.hcl", "file:///abs/with%20space.nf.hcl", "../up/main.nf.hcl"]
    assert "locations" not in run["results"][3]


@pytest.mark.of_domains("azure")
def test_every_rule_has_help_and_advice_is_a_note() -> None:
    told = [
        build_warning("zones-pinned"),
        build_warning("no-surge-capacity"),
        build_error("unknown-site"),
        build_warning("old-inventory"),
    ]
    run = build_findings_document(weighed(told))["runs"][0]
    levels = {
        rule["id"]: rule["defaultConfiguration"]["level"] for rule in run["tool"]["driver"]["rules"]
    }
    assert levels == {
        "zones-pinned": "note",
        "no-surge-capacity": "warning",
        "unknown-site": "error",
        "old-inventory": "note",
    }
    assert [result["level"] for result in run["results"]] == ["note", "warning", "error", "note"]
    for rule in run["tool"]["driver"]["rules"]:
        assert rule["help"]["text"]
        assert rule["help"]["markdown"]
    pinned = next(rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "zones-pinned")
    assert "Omit availability_zones" in pinned["help"]["text"]
    assert "`# nexusform:ignore zones-pinned`" in pinned["help"]["markdown"]


REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("kind", ["pending-pods", "guard-rail", "zones-pinned"])
def test_rule_help_links_to_its_documentation(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (rule,) = build_findings_document(weighed([build_warning(kind)]))["runs"][0]["tool"]["driver"][
        "rules"
    ]
    # Until the repository exists.
    assert "helpUri" not in rule
    monkeypatch.setattr(sarif, "PROJECT_URL", "https://code.example/team/nexusform")
    (rule,) = build_findings_document(weighed([build_warning(kind)]))["runs"][0]["tool"]["driver"][
        "rules"
    ]
    page, _, anchor = rule["helpUri"].rpartition("/")[2].partition("#")
    assert anchor == kind
    text = (REFERENCE / page).read_text(encoding="utf-8")
    assert f"# {kind}\n" in text


def test_report_without_findings() -> None:
    run = build_findings_document([])["runs"][0]
    assert run["results"] == []
    assert run["tool"]["driver"]["name"] == "nexusform"
