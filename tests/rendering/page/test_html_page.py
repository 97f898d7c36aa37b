"""Tests of the page as an HTML document, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_error
from nexusform.plans.plan import Action, Plan, SeparationViolation, VariableValue
from nexusform.rendering.page.html_page import render_html
from nexusform.rendering.page.page_elements import SCRIPTS
from nexusform.rendering.report.report_tree import CodeOrigin
from nexusform.scheduling.placement_decision import Rejection
from nexusform.schemas.value_types import STRING
from tests.rendering.pieces import separation_verdict
from tests.rendering.real_plans import REGISTRIES, RealPlan

VIOLATION = SeparationViolation("s", "", "m1", ("a-0", "b-1"), "b-1", "new", "")
VOID = {"meta", "br", "hr", "input", "img", "link", "wbr"}


class OutlineParser(HTMLParser):
    """Collects ids, attributes and text, and checks that every element is closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def render_and_parse(plan: Plan, sources: Any = None) -> tuple[str, OutlineParser, dict[str, Any]]:
    text = render_html(plan, sources or {}, REGISTRIES)
    outline = OutlineParser()
    outline.feed(text)
    outline.close()
    assert not outline.open
    found = re.search(
        r'<script type="application/json" id="plan-data">(.*?)</script>', text, re.DOTALL
    )
    assert found is not None
    return text, outline, json.loads(found.group(1))


def test_page_is_one_file_without_external_references(examples: Mapping[str, RealPlan]) -> None:
    for real in examples.values():
        text, outline, _ = render_and_parse(real.saved.plan, real.sources)
        assert text.startswith("<!DOCTYPE html>\n<html")
        assert len(outline.ids) == len(set(outline.ids))
        assert not [
            a
            for a in outline.attributes
            if a[1] in ("src", "srcset", "action", "onclick", "onload")
        ]
        assert all(value.startswith("#") for _, name, value in outline.attributes if name == "href")
        assert "url(" not in text
        assert "@import" not in text
        assert "default-src 'none'" in "".join(
            v for _, n, v in outline.attributes if n == "content"
        )


def test_page_has_its_text_without_scripts(examples: Mapping[str, RealPlan]) -> None:
    real = examples["nexus-document"]
    _, outline, _ = render_and_parse(real.saved.plan, real.sources)
    words = "".join(outline.words)
    for expected in (
        "Plan1 to add, 0 to change, 0 to destroy.",
        "Impactno running workload affected",
        "Placements53 to place, 0 to move, 0 to remove, 125 kept",
        "spare capacity for NC_P46_224_v113182",
        "zones-pinned: pool pinned to availability zones",
        '    availability_zones = ["7", "8"]',
        "6 machines will run two VMs of cluster-d",
        "cluster-dpool1NC_P46_224_v124",
    ):
        assert expected in words


def test_page_data_equals_the_plan(examples: Mapping[str, RealPlan]) -> None:
    real = examples["nexus-document"]
    _, _, data = render_and_parse(real.saved.plan, real.sources)
    (site,) = data["sites"]
    fields = data["fields"]["vm"]
    vms = {vm[0]: dict(zip(fields, vm, strict=True)) for vm in site["vms"]}
    assert len(vms) == 178
    rows = {row.object: row for row in real.saved.plan.placements if row.target and row.trigger}
    for name, row in rows.items():
        vm = vms[name]
        assert row.target is not None
        assert vm["after"] == [
            row.target.rack,
            row.target.machine,
            row.target.availability_zone,
            *row.target.cells,
        ]
        assert vm["mark"] == 1
        assert vm["more"]["trigger"] == "new"
        assert len(vm["more"]["certainty"]) == 2
    assert sum(len(rack["machines"]) for rack in site["racks"]) == 128
    assert len(data["changes"]) == len(real.saved.plan.changes)


@pytest.mark.of_domains("azure")
def test_same_plan_gives_the_same_page(examples: Mapping[str, RealPlan]) -> None:
    real = examples["inventory"]
    assert (
        render_and_parse(real.saved.plan, real.sources)[0]
        == render_and_parse(real.saved.plan, real.sources)[0]
    )


def test_user_text_never_becomes_markup(examples: Mapping[str, RealPlan]) -> None:
    nasty = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    plan = examples["repaired"].saved.plan
    changes = tuple(
        replace(
            c, before={**(c.before or {}), "name": nasty}, after={**(c.after or {}), "name": nasty}
        )
        for c in plan.changes
        if c.address.type == "nexus_kubernetes_cluster"
    )
    kept = tuple(c for c in plan.changes if c.address.type != "nexus_kubernetes_cluster")
    finding = build_error("invalid-reference", nasty, address=nasty, headline=nasty)
    rows = tuple(replace(row, object=nasty, trigger=nasty, reason=nasty) for row in plan.placements)
    other = replace(
        plan,
        changes=(*kept, *changes),
        diagnostics=(finding,),
        placements=rows,
        options=replace(plan.options, workspace=nasty),
    )
    violation = SeparationViolation(nasty, nasty, nasty, (nasty,), nasty, nasty, nasty)
    verdicts = (separation_verdict(nasty, nasty, nasty, violation),)
    text, _, data = render_and_parse(
        replace(other, verdicts=replace(other.verdicts, separation_verdicts=verdicts))
    )
    scripts = len(re.findall(r"<script", text))
    assert scripts == len(re.findall(r"</script", text)) == 1 + len(SCRIPTS)
    assert "<img" not in text
    assert any(change[5] and nasty in change[5] for change in data["changes"])


def test_secrets_are_hidden_as_in_json(plans: SimpleNamespace) -> None:
    plan = plans.every_shape()
    hidden = replace(
        plan,
        changes=plan.changes[:1],
        root_values=replace(
            plan.root_values,
            variables={"password": VariableValue("hunter2", STRING, sensitive=True)},
        ),
    )
    text = render_html(hidden, {}, plans.registries)
    assert "(sensitive value)" in text
    for secret in ('"old"', '"new"', '"s1"', '"s2"', "hunter2", '\\"old\\"', '\\"new\\"'):
        assert secret not in text


def test_failed_plan_shows_its_error_and_the_current_placement(
    examples: Mapping[str, RealPlan],
) -> None:
    real = examples["nexus-document"]
    broken = replace(
        real.saved.plan,
        errored=True,
        diagnostics=(
            build_error(
                "insufficient-capacity",
                "No room.",
                headline="5 do not fit",
                brief="a/p does not fit",
            ),
        ),
    )
    _, outline, data = render_and_parse(broken)
    words = "".join(outline.words)
    assert "Plan: planning failed: a/p does not fit" in words
    assert "Plan failed1 error. No changes were made." in words
    assert "No room." in words
    assert "1 to add" not in words
    assert (data["changes"], data["rows"]) == ([], [])
    (site,) = data["sites"]
    marks = data["fields"]["vm"].index("mark")
    places = data["fields"]["vm"].index("before")
    assert (
        len(site["vms"])
        == sum(len(list(pool.before)) for pool in real.saved.plan.site_records.sites[0].pools)
        > 0
    )
    assert all(vm[marks] == 0 and vm[places] == vm[places + 1] for vm in site["vms"])


@pytest.mark.of_domains("fleet")
def test_fleet_and_separation_are_shown_only_if_present(plans: SimpleNamespace) -> None:
    plan = plans.fleet_and_pods()
    refused = replace(
        plan.placements[0], rejections=(Rejection("south", "taint_toleration", "it is tainted"),)
    )
    shown = replace(
        plan,
        placements=(refused, *plan.placements[1:]),
        verdicts=replace(
            plan.verdicts,
            separation_verdicts=(separation_verdict("x", "warn", "never", VIOLATION),),
        ),
    )
    _, outline, _ = render_and_parse(shown)
    words = "".join(outline.words)
    assert "Placements by cluster" in words
    assert "+ Bound" in words
    assert "southtaint_tolerationit is tainted" in words
    assert "rejected: taint_toleration" in words
    assert "nginx-0" in words
    assert "nexus_separation_rule.x (machine, warn) holds never" in words
    assert "1 violationmachine m1: a-0, b-1; joined by b-1 (new)" in words
    _, without, _ = render_and_parse(plans.added_cluster())
    assert "fleet" not in without.ids
    assert "separation" not in without.ids


@pytest.mark.of_domains("fleet")
def test_member_without_placements_has_a_column(plans: SimpleNamespace) -> None:
    plan = plans.fleet_and_pods()
    member = {"id": "south", "name": "south"}
    idle = plans.change(plans.address("fleet_member_cluster", "south"), Action.CREATE, None, member)
    _, outline, _ = render_and_parse(replace(plan, changes=(*plan.changes, idle)))
    words = "".join(outline.words)
    assert "Placementeastwestnorthsouth" in words
    assert "To see why a cluster was not picked, plan with -placements=all" in words


@pytest.mark.of_domains("fleet")
def test_placement_status_explains_unpicked_clusters(plans: SimpleNamespace) -> None:
    plan = plans.fleet_and_pods()
    unpicked = {
        "type": "Scheduled",
        "status": "False",
        "reason": "Failed",
        "message": "south is tainted",
    }
    after = {"placement_statuses": [{"cluster_name": "south", "conditions": [unpicked]}]}
    address = plan.placements[0].address
    told = plans.change(address, Action.UPDATE, after, after)
    _, outline, _ = render_and_parse(replace(plan, changes=(*plan.changes, told)))
    assert ("td", "data-tip", "south is tainted") in outline.attributes
    words = "".join(outline.words)
    assert "not picked" in words
    assert "southnot pickedsouth is tainted" in words


@pytest.mark.of_domains("fleet")
def test_matrix_explains_unpicked_clusters(examples: Mapping[str, RealPlan]) -> None:
    real = examples["fleet"]
    text, outline, _ = render_and_parse(real.saved.plan, real.sources)
    why = [value for tag, name, value in outline.attributes if tag == "td" and name == "data-tip"]
    # placements and members.
    assert len(why) == 3 * 6
    assert sum("does not score high enough" in reason for reason in why) >= 2
    assert "plan with <code>-placements=all" not in text


@pytest.mark.of_domains("fleet")
def test_large_fleet_is_listed(plans: SimpleNamespace) -> None:
    row = plans.fleet_and_pods().placements[0]
    rows = tuple(
        replace(row, object=f"c{n}", target=replace(row.target, cluster=f"c{n}"))
        for n in range(3000)
    )
    _, outline, _ = render_and_parse(replace(plans.fleet_and_pods(), placements=rows))
    words = "".join(outline.words)
    assert "The first 2,000 of 3,000 are listed." in words
    assert "c1999" in words
    assert "c2000" not in words


def test_uncomputed_certainty_is_in_no_table(examples: Mapping[str, RealPlan]) -> None:
    plan = examples["quickstart"].saved.plan
    assert "exact machines" in render_html(plan, {}, REGISTRIES)
    assert "exact machines" not in render_html(
        replace(plan, figures=replace(plan.figures, samples=0)), {}, REGISTRIES
    )


def test_empty_plan_has_a_page() -> None:
    _, outline, data = render_and_parse(Plan())
    assert "No changes." in "".join(outline.words)
    assert data["sites"] == []


@pytest.mark.of_domains("fleet")
def test_pods_without_a_node_are_shown_as_pending(plans: SimpleNamespace) -> None:
    page = render_html(plans.fleet_and_pods(), {}, REGISTRIES)
    pods = page.partition('id="pods"')[2].partition("</table>")[0]
    actions = re.findall(r'data-head="Action">(.*?)</td>', pods)
    assert actions == ["+ place", "+ place", "+ place", "+ stays Pending"]


def test_decision_block_is_coloured_by_impact(plans: SimpleNamespace) -> None:
    text, _, _ = render_and_parse(plans.changed_placements())
    block = re.findall(r'<dl class="decision (\w+)"><dt>Impact</dt><dd>(.*?)</dd>', text)
    assert block == [
        ("look", "1 VM to move (re-created), 3 VMs to remove, at most 1 down at a time")
    ]


def test_page_links_directory_and_commit_if_known(plans: SimpleNamespace) -> None:
    commit = "0123456789abcdef"
    origin = CodeOrigin(f"https://github.com/acme/sites/blob/{commit}", "par1", commit)
    page = render_html(plans.added_cluster(), {}, REGISTRIES, origin)
    assert f'<a href="https://github.com/acme/sites/blob/{commit}/par1">par1</a>' in page
    assert f'<a href="https://github.com/acme/sites/commit/{commit}">commit 0123456</a>' in page
    assert "commit" not in render_html(plans.added_cluster(), {}, REGISTRIES).partition("<main")[0]
