"""The tiles say the same as the tables below them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_error
from nexusform.interfaces.plugins import Registries
from nexusform.plans.plan import Action, PlacementAction, Plan, PoolUpgrade, Upgrade
from nexusform.rendering.page.html_page import build_page_content, render_html


def tiles(plan: Plan) -> dict[str, tuple[str, str]]:
    page = render_html(plan, {}, Registries())
    found = re.findall(r'<h2>([^<]*)</h2><p class="large(?: sentence)?">(.*?)</p>(?:<p>(.*?)</p>)?', page)
    return {title: (large, re.sub("<.*?>", "", words)) for title, large, words in found}


def upgraded(plans: SimpleNamespace, *, surges: bool) -> Plan:
    """A plan whose one move is that of a pool that is upgraded."""
    plan = plans.changed_placements()
    (row,) = [row for row in plan.placements if row.action is PlacementAction.MOVE]
    node = replace(row, trigger="kubernetes_version_changed")
    pool = PoolUpgrade(row.pool, row.sku, 1, 1, 1, surges=surges, minimum_up=int(surges))
    told = Upgrade(row.address, row.cluster, row.site_id, "1.29.4", "1.30.1", (pool,))
    return replace(plan, placements=(node,), upgrades=(told,), diagnostics=())


def test_a_long_sentence_is_not_written_in_large_letters(plans: SimpleNamespace) -> None:
    page = render_html(upgraded(plans, surges=False), {}, Registries())
    assert '<p class="large sentence">' in page
    assert '<p class="large">1 VM to re-create pool by pool</p>' in page


def test_an_upgrade_with_surge_leaves_no_node_missing(plans: SimpleNamespace) -> None:
    said = tiles(upgraded(plans, surges=True))
    assert said["Moves"][0] == "1 VM to re-create pool by pool"
    assert said["Impact"][0] == "rolling surge: capacity never drops"
    plan = upgraded(plans, surges=False)
    pool = f"{plan.upgrades[0].cluster}/{plan.upgrades[0].pools[0].pool}"
    only = f"{pool} has no node for some time: its only node is re-created at once"
    assert tiles(plan)["Impact"][0] == only


@pytest.mark.of_domains("fleet")
def test_pods_that_wait_on_do_not_move(plans: SimpleNamespace) -> None:
    plan = plans.fleet_and_pods()
    waits = [row for row in plan.placements if row.kind == "pod" and not row.target.node]
    still = replace(waits[0], action=PlacementAction.KEEP, source=waits[0].target)
    large, words = tiles(replace(plan, placements=(still,)))["Moves"]
    assert large == "nothing"
    assert "1 pod Pending" in words


def test_what_is_refused_would_move(plans: SimpleNamespace) -> None:
    limit = build_error("guard-rail", "1 VM moves; -fail-on=moved:0 allows 0 at most.", extra={"guard_rail": "moved:0"})
    plan = replace(plans.changed_placements(), diagnostics=(limit,))
    said = tiles(plan)
    assert "Moves" not in said
    assert said["Impact"][1].startswith("by guard rail moved:0; 1 VM moves; -fail-on=moved:0 allows 0 at most;")
    assert build_page_content(plan, {}, Registries()).data["denied"]


def test_where_an_object_goes_nobody_reads_that_nothing_is_touched(plans: SimpleNamespace) -> None:
    member = plans.change(plans.address("thing", "m"), Action.DELETE, {"id": "m"}, None)
    assert tiles(Plan(changes=(member,)))["Impact"][0] == "1 object to destroy"
