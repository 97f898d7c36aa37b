"""Tests of short texts about many sites."""

from __future__ import annotations

from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.report.site_rows import SiteRow, describe_other_sites
from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
from tests.planning.harness import build_all_types, build_state, plan, require_success

SITES = """
locals {{
  names = [for n in [1, 2, 3, 4, 5, 6, 7, 8, 9] : "location-${{n}}"]
}}
resource "nexus_site" "s" {{
  for_each = toset(local.names)
  name     = each.key
}}
resource "nexus_rack" "r" {{
  for_each      = nexus_site.s
  site_id       = each.value.id
  name          = "rack1"
  machine_count = 3
}}
resource "nexus_kubernetes_cluster" "core" {{
  for_each           = nexus_site.s
  site_id            = each.value.id
  name               = "core"
  kubernetes_version = "1.31.2"
  control_plane {{
    count       = each.key == "location-3" ? {here} : 1
    vm_sku_name = "NC_G12_56_v1"
  }}
  depends_on = [nexus_rack.r]
}}
"""


def test_unchanged_sites_are_named_in_natural_order() -> None:
    rows = [SiteRow(f"par{number}", before=9, after=9) for number in range(40, 0, -1)]
    (told,) = describe_other_sites(rows)
    assert told.startswith("40 sites unchanged: par1, par2, par3, ")


def test_unchanged_sites_are_folded_by_width_and_capacity() -> None:
    stands = build_state(SITES.format(here=1))
    made = add_site_capacity(
        require_success(plan(SITES.format(here=3), stands)), build_all_types()
    ).plan
    text = render_plan(made, {}, PlanTextOptions(registries=build_all_types()))
    assert "8 sites unchanged: location-1, location-2," in text
    assert max(map(len, text.split("\n"))) <= 80
    _, _, rooms = render_markdown(made, {}, build_all_types()).partition(
        "Spare capacity of every site"
    )
    rooms = rooms.partition("</details>")[0]
    assert rooms.count("spare capacity for ") == 2
    assert "| location-3: spare capacity" in rooms
    assert "| location-1,2,4..9: spare capacity" in rooms
