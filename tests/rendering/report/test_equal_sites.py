"""Tests of equal sites: sites with equal figures share a row in terminal, comment and page."""

from __future__ import annotations

import re

import pytest

from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.plan import Plan
from nexusform.rendering.page.html_page import render_html
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.text.plan_text import PlanTextOptions
from nexusform.rendering.text.plan_text import render_plan as render_short_plan
from tests.planning.harness import build_all_types, plan, require_success

SITE = """
resource "nexus_site" "NAME" {}

resource "nexus_rack" "NAME" {
  count         = 2
  site_id       = nexus_site.NAME.id
  name          = "rack${count.index + 1}"
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "NAME" {
  site_id    = nexus_site.NAME.id
  name       = "CLUSTER"
  depends_on = [nexus_rack.NAME]

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }
}
"""


def make_plan(*clusters: str, last_count: int = 3, different: int = 40, rack: str = "rack") -> Plan:
    """Plan 40 sites with these cluster names in turn; NUMBER is the number of the site.

    The site with number `different` has `last_count` nodes.
    """
    texts = []
    for number in range(1, 41):
        cluster = (clusters or ("core",))[number % max(len(clusters), 1)].replace(
            "NUMBER", f"{number:02}"
        )
        text = (
            SITE.replace('"rack$', f'"{rack}$')
            .replace("CLUSTER", cluster)
            .replace("NAME", f"site{number:02}")
        )
        texts.append(
            text.replace(
                "count       = 3", f"count       = {last_count if number == different else 3}"
            )
        )
    return add_site_capacity(require_success(plan("".join(texts))), build_all_types()).plan


def render_text(made: Plan) -> str:
    return render_short_plan(made, {}, PlanTextOptions(registries=build_all_types(), width=80))


@pytest.fixture(scope="module")
def equal_sites() -> Plan:
    return make_plan()


def test_terminal_has_one_row_for_equal_sites(equal_sites: Plan) -> None:
    text = render_text(equal_sites)
    assert len(text.splitlines()) < 33
    assert "  site01..40  3 (+3) each  3 to place\n" in text
    assert "  + nexus_rack.site01..40[0,1]" in text
    assert "VM placement on site01..40, each" in text
    assert re.search(r"^Capacity:    site01\.\.40: each \d+ x NC_G12_56_v1 \(", text, re.MULTILINE)


def test_different_site_has_its_own_rows() -> None:
    text = render_text(make_plan(last_count=1))
    assert "  site01..39  3 (+3) each  3 to place\n" in text
    assert "  site40      1 (+1)       1 to place\n" in text
    assert "VM placement on site01..39, each" in text
    assert "VM placement on site40" in text


def test_site_names_in_cluster_names_do_not_separate_sites() -> None:
    text = render_text(make_plan("NAME-core"))
    assert "VM placement on site01..40, each" in text
    assert re.search(r"^  SITE-core +control-plane", text, re.MULTILINE)


def test_numbered_clusters_do_not_separate_sites() -> None:
    text = render_text(make_plan("edgeNUMBER"))
    assert "VM placement on site01..40, each" in text
    assert re.search(r"^  edge01\.\.40 +control-plane", text, re.MULTILINE)
    assert len(text.splitlines()) < 33


def test_sites_with_different_cluster_names_are_separate() -> None:
    text = render_text(make_plan("web", "db"))
    assert re.search(
        r"^VM placement on site01,03,05[^\n]*, each \(predicted\):\n.*\n  db ", text, re.MULTILINE
    )
    assert re.search(
        r"^VM placement on site02,04,06[^\n]*, each \(predicted\):\n.*\n  web ", text, re.MULTILINE
    )
    assert text.count("VM placement on ") == 2


def test_comment_is_not_cut(equal_sites: Plan) -> None:
    comment = render_markdown(equal_sites, {}, build_all_types())
    assert "Cut to stay" not in comment
    assert len(comment) < 10_000
    assert "| **site01..40** | 3 (+3) each | 3 to place |\n" in comment
    assert "**Capacity**: site01..40: each" in comment


def test_capacity_table_of_page_has_few_columns(equal_sites: Plan) -> None:
    page = render_html(equal_sites, {}, build_all_types())
    table = page.partition("Capacity before and after</caption>")[2].partition("</table>")[0]
    assert "site01..40, each" in table
    assert table.count('<th scope="col"') == 3
    assert "-report=html" not in page


def test_different_site_does_not_separate_numbered_clusters() -> None:
    text = render_text(make_plan("edgeNUMBER", last_count=1, different=3))
    assert "VM placement on site01,02,04..40, each" in text
    assert re.search(r"^  edge01,02,04\.\.40 +control-plane", text, re.MULTILINE)
    assert len(text.splitlines()) < 41


def test_racks_named_after_their_site_are_folded() -> None:
    text = render_text(make_plan(rack="NAME-r"))
    assert re.search(r"^  core +control-plane .* 3  SITE-r1,2 ", text, re.MULTILINE)
