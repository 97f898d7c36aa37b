"""Tests of pages of plans over several sites.

Each part names its site, and changed sites come first.
"""

from __future__ import annotations

import re

from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.rendering.page.html_page import render_html
from tests.planning.harness import build_all_types, build_state, plan, require_success

SITES = """
variable "workers" {{
  default = {{ ber1 = 2, par1 = {par1} }}
}}
resource "nexus_site" "s" {{
  for_each = var.workers
  name     = each.key
}}
resource "nexus_rack" "r" {{
  for_each      = var.workers
  site_id       = nexus_site.s[each.key].id
  name          = "rack1"
  machine_count = 6
}}
resource "nexus_kubernetes_cluster" "core" {{
  for_each           = var.workers
  site_id            = nexus_site.s[each.key].id
  name               = "core"
  kubernetes_version = "1.31.2"
  control_plane {{
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }}
  agent_pool "w" {{
    count       = each.value
    vm_sku_name = "NC_P46_224_v1"
  }}
  depends_on = [nexus_rack.r]
}}
"""


def test_pools_are_grouped_by_site_with_changed_sites_first() -> None:
    stands = build_state(SITES.format(par1=2))
    made = add_site_capacity(
        require_success(plan(SITES.format(par1=3), stands)), build_all_types()
    ).plan
    page = render_html(made, {}, build_all_types())
    pools = page.partition('id="pools"')[2]
    sites = re.findall(r">VM placement on (\w+)", pools.partition("</section>")[0])
    assert sites == ["par1", "ber1"]


def test_capacity_of_equal_sites_is_reported_once() -> None:
    made = add_site_capacity(require_success(plan(SITES.format(par1=2))), build_all_types()).plan
    page = render_html(made, {}, build_all_types())
    verdict, _, _ = page.partition("</main>")
    capacity = re.search(r"<dt>Capacity</dt>(.*?)<dt>", verdict)
    assert capacity is not None
    assert re.findall(r"<dd>(.*?) 9 x", capacity[1]) == ["ber1, par1: each"]
    assert "no running workload affected" in verdict
