"""Tests of finding levels (error, warning, advice, pre-existing).

All reports agree on each finding.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_error, build_warning
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.planning.conclusion.existing_findings import mark_existing_findings
from nexusform.plans.plan import Plan
from nexusform.plans.site_capacity.occupancy import PoolVms, SiteSkuCapacity, SiteVms, SpareCapacity
from nexusform.rendering.json.json_document import build_plan_document, encode_document
from nexusform.rendering.json.json_stream import create_finding_event
from nexusform.rendering.page.html_page import render_html
from nexusform.rendering.pull_request.junit import render_junit
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.pull_request.sarif import build_sarif_document
from nexusform.rendering.report.finding_entries import build_finding_entries, collect_findings
from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
from nexusform.resources.address import parse_address
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

OLD = parse_address("nexus_kubernetes_cluster.old")
NEW = parse_address("nexus_kubernetes_cluster.new")
LEVELS = {"new": "warning", "old": "warning", "advice": "advice"}


@pytest.fixture
def plan(plans: SimpleNamespace) -> Plan:
    """Return a plan with one cluster without surge capacity before and after, and one losing it."""
    sku = CATALOGUES[NEWEST].vm_skus["NC_P46_224_v1"]
    before = SpareCapacity(4, 2, "rack1", ("old", "new"), ("old",))
    after = SpareCapacity(3, 1, "rack1", ("old", "new"), ("old", "new"))
    pools = tuple(PoolVms(address, address.name, "p", sku) for address in (OLD, NEW))
    told = replace(
        plans.added_cluster(),
        diagnostics=(
            build_warning(
                "no-surge-capacity", "old", brief="old/p: an upgrade would fail", address=str(OLD)
            ),
            build_warning(
                "no-surge-capacity", "new", brief="new/p: an upgrade would fail", address=str(NEW)
            ),
            build_warning("zones-pinned", "advice", brief="new/p: pinned"),
        ),
        site_records=replace(
            plans.added_cluster().site_records,
            sites=(SiteVms("lab", "lab", pools=pools),),
            capacity=(SiteSkuCapacity("lab", "lab", sku.name, 1, before, after),),
        ),
    )
    return mark_existing_findings(told)


def test_documents_have_the_level_of_every_finding(plan: Plan) -> None:
    document = json.loads(encode_document(build_plan_document(plan, None)))
    assert {each["detail"]: each["level"] for each in document["diagnostics"]} == LEVELS
    assert [each["detail"] for each in document["diagnostics"] if each.get("preexisting")] == [
        "old"
    ]
    results = build_sarif_document(plan)["runs"][0]["results"]
    assert [each["level"] for each in results] == ["warning", "warning", "note"]
    assert [each["properties"]["weight"] for each in results] == list(LEVELS.values())
    assert [each["baselineState"] for each in results] == ["new", "unchanged", "new"]
    assert "Not caused by this plan" in results[1]["message"]["text"]
    events = [create_finding_event(finding, {}, "") for finding in collect_findings(plan)]
    assert [each["@level"] for each in events] == ["warn", "warn", "info"]
    assert [each["diagnostic"]["level"] for each in events] == list(LEVELS.values())


def test_only_errors_fail_a_test_report(plan: Plan) -> None:
    text = render_junit(plan)
    assert "<failure" not in text
    assert "Warning: new" in text
    assert "Advice: advice" in text
    assert "<error" in render_junit(
        replace(plan, diagnostics=(build_error("insufficient-capacity", "x"),))
    )
    notes = re.findall(r"<system-out>(.*?)</system-out>", text, re.DOTALL)
    assert any("old" in note and "Not caused by this plan" in note for note in notes)


def test_reports_label_every_level(plan: Plan) -> None:
    page = render_html(plan, {}, PluginRegistries())
    assert "1 warning, 1 piece of advice, 1 not caused by this plan" in page
    tags = re.findall(r'<span class="tag">(.*?)</span>', page)
    assert tags == ["Warning", "Warning, not caused by this plan", "Advice"]
    assert 'class="decision safe"' in page
    details = render_plan(plan, {}, PlanTextOptions(details=True, hints=False))
    boxes = re.findall(r"^(?:│ (\w+): |(Not caused by this plan):)", details, re.MULTILINE)
    assert ["".join(box) for box in boxes] == [
        "Warning",
        "Advice",
        "Not caused by this plan",
        "Warning",
    ]
    comment = render_markdown(plan, {})
    assert "- **Warning** no-surge-capacity: new/p: an upgrade would fail" in comment
    assert comment.startswith(
        "### nexusform: 1 to add, 53 VMs to place, nothing moves\n> [!NOTE]\n"
    )


def test_plan_with_only_preexisting_findings_is_no_warning(plan: Plan) -> None:
    quiet = replace(plan, diagnostics=(plan.diagnostics[0], plan.diagnostics[2]))
    assert "> [!NOTE]\n" in render_markdown(quiet, {})
    assert "Mind:" not in render_markdown(quiet, {})
    assert 'class="decision safe"' in render_html(quiet, {}, PluginRegistries())


def test_moves_and_smaller_counts_get_a_warning_verdict(plans: SimpleNamespace) -> None:
    page = render_html(plans.changed_placements(), {}, PluginRegistries())
    assert 'class="decision look"' in page
    headline = "1 VM is re-created on another machine, 3 VMs are removed from cluster-d/pool2"
    assert f"<h1>Plan: {headline}</h1>" in page


def test_code_in_a_finding_is_code_on_the_page(plan: Plan) -> None:
    asking = build_warning("no-surge-capacity", "Ask `nexusform advise` what to do.")
    page = render_html(replace(plan, diagnostics=(asking,)), {}, PluginRegistries())
    assert "<p>Ask <code>nexusform advise</code> what to do.</p>" in page


def test_subject_is_the_resource_if_the_brief_names_none(plan: Plan) -> None:
    even = build_warning(
        "even-control-plane", "Take 3.", brief="2 survive no more failures than 1", address=str(NEW)
    )
    (entry,) = build_finding_entries(replace(plan, diagnostics=(even,))).caused
    assert (entry.subjects, entry.text) == ((str(NEW),), "2 survive no more failures than 1")
