"""Tests of the tables of sections: each entry shows something in its format.

Without an entry, something visible is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_error, build_warning
from nexusform.plans.machine_losses import MachineLoss
from nexusform.plans.plan import CheckResult, Plan, Rollout, RolloutStep, build_hypothetical_plan
from nexusform.plans.site_capacity.site_resource_capacity import (
    SiteResourceCapacity,
    SiteResourceKind,
)
from nexusform.rendering.page import html_page
from nexusform.rendering.pull_request import plan_comment
from nexusform.rendering.report import domain_sections
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.rendering.text import plan_text
from nexusform.scheduling.listing.site_listing import DifferenceKind, ListedDifference, ListedSite
from tests.rendering.pieces import address
from tests.rendering.real_plans import REGISTRIES, RealPlan, nexusform, plan_directory
from tests.rendering.test_facts import read_page

Renderer = Callable[[Plan], str]


def render_short(plan: Plan) -> str:
    return plan_text.render_plan(plan, {}, plan_text.PlanTextOptions(registries=REGISTRIES))


def render_full(plan: Plan) -> str:
    options = plan_text.PlanTextOptions(registries=REGISTRIES, details=True)
    return plan_text.render_plan(plan, {}, options)


def render_comment(plan: Plan) -> str:
    return plan_comment.render_markdown(
        plan, {}, REGISTRIES, ShownPlacements.CHANGED, max_bytes=10_000_000
    )


def render_page(plan: Plan) -> str:
    return read_page(html_page.render_html(plan, {}, REGISTRIES))


TABLES: tuple[tuple[ModuleType, str, Renderer], ...] = (
    (plan_text, "_SHORT_PLAN", render_short),
    (plan_text, "_FULL_SECTIONS", render_full),
    (plan_comment, "_COMMENT", render_comment),
    (plan_comment, "_FAILED_COMMENT", render_comment),
    (html_page, "_PAGE", render_page),
    (html_page, "_FAILED_PAGE", render_page),
)


TWO_SITES = """
resource "nexus_site" "s" {
  for_each = toset(["a", "b"])
  name     = each.key
}

resource "nexus_rack" "r" {
  for_each      = nexus_site.s
  name          = "rack-${each.key}"
  site_id       = each.value.id
  machine_count = 6
}

resource "nexus_kubernetes_cluster" "RENAMED" {
  site_id = nexus_site.s["a"].id

  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "workers" {
    count       = 2
    vm_sku_name = "NC_P46_224_v1"
  }
}

resource "nexus_kubernetes_cluster" "upgraded" {
  site_id            = nexus_site.s["b"].id
  kubernetes_version = "VERSION"

  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "workers" {
    count       = 2
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""


def plan_rename_and_upgrade(directory: Path) -> Plan:
    """Return a plan of two sites with a renamed block, an upgrade, and what no example has."""
    main = directory / "main.nf.hcl"
    main.write_text(TWO_SITES.replace("RENAMED", "old").replace("VERSION", "1.30.1"))
    nexusform(directory, "apply", "-auto-approve", "-samples=0")
    main.write_text(TWO_SITES.replace("RENAMED", "new").replace("VERSION", "1.31.1"))
    plan = plan_directory(directory).saved.plan
    difference = ListedDifference(DifferenceKind.NOT_LISTED, "rack-a is not on the site")
    balancer = SiteResourceCapacity("b", "b", SiteResourceKind.BALANCER_ADDRESSES, "pool", 8, 1, 2)
    steps = (RolloutStep("update", "", 0, ("a", "b")),)
    return replace(
        plan,
        observed=replace(plan.observed, listed=(ListedSite("a", "a", (difference,)),)),
        workloads=replace(
            plan.workloads, rollouts=(Rollout(address("thing", "placement"), "a change", 1, steps),)
        ),
        site_records=replace(plan.site_records, other_capacity=(balancer,)),
        verdicts=replace(
            plan.verdicts, checks=(CheckResult("check", "check.spread", "fail", ("no room",)),)
        ),
    )


@pytest.fixture
def all_plans(
    plans: SimpleNamespace, examples: Mapping[str, RealPlan], tmp_path: Path
) -> list[Plan]:
    """Return plans that have every section in one of them."""
    hand_written = [
        plans.fleet_and_pods(),
        plans.changed_placements(),
        plans.every_action(),
        plans.drifted(),
        plans.refresh_only(),
        plans.outputs_only(),
    ]
    names = ("separation", "repaired", "inventory", "fleet", "end-to-end", "hardware-aware")
    made = [examples[name].saved.plan for name in names]
    loss = MachineLoss(site_id="lab", machines=("m1",), pools=(), unmanaged_vms=("v",))
    made.append(replace(build_hypothetical_plan(made[0], ()), losses=(loss,)))
    problems = (build_error("no-capacity", "No machine is free."), build_warning("w", "Beware."))
    failed = [
        replace(examples[name].saved.plan, errored=True, diagnostics=problems)
        for name in ("repaired", "separation")
    ]
    return [*hand_written, *made, plan_rename_and_upgrade(tmp_path), *failed]


@pytest.mark.of_domains("fleet", "azure", "vnf")
@pytest.mark.parametrize(
    ("module", "table", "render"), TABLES, ids=[table for _, table, _ in TABLES]
)
def test_each_section_shows_something(
    module: ModuleType,
    table: str,
    render: Renderer,
    all_plans: list[Plan],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = getattr(module, table)
    texts = list(map(render, all_plans))
    silent: list[str] = []
    for number in range(len(entries)):
        monkeypatch.setattr(module, table, (*entries[:number], *entries[number + 1 :]))
        if not any(
            len(render(plan)) < len(text) for plan, text in zip(all_plans, texts, strict=True)
        ):
            silent.append(str(entries[number]))
    assert silent == []


@pytest.mark.of_domains("fleet")
def test_each_section_of_a_domain_is_on_the_page(
    plans: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plans.fleet_and_pods()
    page = render_page(plan)
    domains = domain_sections.find_domains()
    with_sections = [name for name, domain in domains.items() if domain.plan_sections]
    assert with_sections == ["fleet", "pods"]
    for name in with_sections:
        silent = {**domains, name: replace(domains[name], plan_sections={})}
        monkeypatch.setattr(domain_sections, "find_domains", lambda silent=silent: silent)
        assert len(render_page(plan)) < len(page)
