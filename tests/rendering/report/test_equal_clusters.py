"""Tests of equal changes of many clusters: terminal, comment and page show them together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.plan import Plan
from nexusform.rendering.page.html_page import render_html
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.report.plan_verdict import build_headline
from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
from tests.planning.harness import build_all_types, build_state, plan, require_success
from tests.rendering.browser import CHROMIUM, DRIVER, MISSING, Browser

CLUSTERS = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  count         = 8
  site_id       = nexus_site.lab.id
  name          = "rack${count.index + 1}"
  machine_count = 16
}

resource "nexus_kubernetes_cluster" "edge" {
  count              = 40
  site_id            = nexus_site.lab.id
  name               = format("edge%02d", count.index + 1)
  kubernetes_version = "1.29.4"
  depends_on         = [nexus_rack.rack]

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "pool1" {
    count       = 4
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""
# The changed argument, and a text that each format shows once.
CHANGES = {
    "upgrade": (('"1.29.4"', '"1.30.3"'), "edge01..40-pool1-0..3"),
    "scale out": (("count       = 4", "count       = 5"), "edge01..40-pool1-4"),
    "scale in": (("count       = 4", "count       = 3"), "edge01..40/pool1: 1 of 4 VMs each"),
}


@pytest.fixture(scope="module")
def changed_plans() -> Mapping[str, Plan]:
    """Plan each change of the 40 clusters."""
    state = build_state(CLUSTERS)
    plans = {}
    for name, ((old, new), _) in CHANGES.items():
        result = require_success(plan(CLUSTERS.replace(old, new), state=state))
        plans[name] = add_site_capacity(result, build_all_types()).plan
    return plans


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()


def render_terminal(made: Plan) -> str:
    return render_plan(made, {}, PlanTextOptions(registries=build_all_types(), width=80))


def render_visible_comment(made: Plan) -> str:
    """Return the comment without the contents of its folded parts."""
    comment = render_markdown(made, {}, build_all_types())
    return re.sub(r"</summary>.*?</details>", "</summary></details>", comment, flags=re.DOTALL)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("render", [render_terminal, render_visible_comment])
def test_change_of_40_clusters_has_less_than_40_lines(
    render: object, change: str, changed_plans: Mapping[str, Plan]
) -> None:
    assert callable(render)
    text = render(changed_plans[change])
    assert len(text.splitlines()) < 40
    assert text.count(CHANGES[change][1]) == 1


@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason=MISSING)
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("change", CHANGES)
def test_page_of_40_clusters_is_short_on_a_phone(
    change: str, changed_plans: Mapping[str, Plan], browser: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text(render_html(changed_plans[change], {}, build_all_types()), encoding="utf-8")
    browser.open(page, 390)
    height, width = browser.run(
        "return [document.documentElement.scrollHeight, document.documentElement.scrollWidth]"
    )
    assert height < 3000
    assert width <= 390
    assert change == "scale out" or CHANGES[change][1] in browser.text(".moves")


SITE_RISKS = CLUSTERS.replace("count              = 40", "count              = var.clusters")
SITE_RISKS = SITE_RISKS.replace("count       = 1", "count       = var.control_planes")
SITE_RISKS += """
variable "clusters" {
  default = 12
}

variable "control_planes" {
  default = 3
}
"""
# The change of the configuration, and the only line of its risks.
EQUAL_RISKS = {
    "shrink": (
        ("default = 3", "default = 1"),
        "edge01..12: each of 12 keeps 1 of 3 control-plane VMs; losing one breaks etcd quorum",
    ),
    "delete": (("default = 12", "default = 0"), "edge01..12 (7 VMs each)"),
    "empty pool": (
        ("count       = 4", "count       = 0"),
        "edge01..12/pool1: each of 12 is scaled to 0: it keeps none of its 4 VMs",
    ),
}


@pytest.mark.parametrize("change", EQUAL_RISKS)
def test_equal_risks_of_many_clusters_are_one_line(change: str) -> None:
    (old, new), line = EQUAL_RISKS[change]
    result = plan(SITE_RISKS.replace(old, new), state=build_state(SITE_RISKS))
    made = add_site_capacity(require_success(result), build_all_types()).plan
    texts = [render_terminal(made), render_visible_comment(made)]
    texts.append(re.sub("<[^>]*>", "", render_html(made, {}, build_all_types())))
    headline = build_headline(made)
    for text in texts:
        below = " ".join(text.replace("\\", "").split()).replace(headline, "")
        assert below.count(line) == 1


def test_clusters_without_common_name_are_counted() -> None:
    state = build_state(NAMED)
    result = plan(NAMED.replace("count       = 2", "count       = 3"), state=state)
    text = render_terminal(add_site_capacity(require_success(result), build_all_types()).plan)
    assert "+ pool1-2 of amf, ausf, nef, nrf, nssf and 6 more" in text


NAMED = CLUSTERS.replace(
    "count              = 40", 'for_each           = toset(split(" ", var.names))'
)
NAMED = NAMED.replace('format("edge%02d", count.index + 1)', "each.key")
NAMED = NAMED.replace("count       = 4", "count       = 2")
NAMED += """
variable "names" {
  default = "amf smf upf nrf ausf udm udr pcf nssf nef scp"
}
"""
