"""Tests of planned cluster upgrades: batches, concurrently unavailable VMs, and blockers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.whatif.questions.kubernetes_upgrade import simulate_kubernetes_upgrade
from nexusform.plans.maintenance import Upgrade
from nexusform.rendering.report.upgrade_sentences import describe_upgrade_course, describe_upgrades
from tests.domains.whatif.questions.failures import build_start
from tests.planning.harness import (
    RACKS,
    build_state,
    cluster,
    list_errors,
    plan,
    pool,
    require_success,
)
from tests.worlds.small_worlds import build_applied_state, get_site

OLD = 'kubernetes_version = "1.29.4"'
NEW = 'kubernetes_version = "1.30.1"'
IN_PLACE = 'upgrade_settings {\n max_surge = "0"\n max_unavailable = "2"\n}'
SHOP = """
resource "fleet_hub_manifest" "shop" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-YAML
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: shop, namespace: default}
    spec:
      replicas: 1
      selector: {matchLabels: {app: shop}}
      template:
        metadata: {labels: {app: shop}}
        spec: {containers: [{name: shop, image: shop}]}
    ---
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: shop, namespace: default}
    spec:
      minAvailable: 1
      selector: {matchLabels: {app: shop}}
  YAML
}
"""


def build_configuration(version: str, more: str = "") -> str:
    pools = pool("p", 4) + pool("q", 3, more=IN_PLACE)
    return RACKS + cluster("a", arguments=version, pools=pools, count=3) + more


def plan_upgrade(before: str, after: str) -> Upgrade:
    (upgrade,) = require_success(plan(after, build_state(before))).plan.impact.upgrades
    return upgrade


def test_pools_upgrade_in_batches_above_allowed_minimum() -> None:
    upgrade = plan_upgrade(build_configuration(OLD), build_configuration(NEW))
    assert (upgrade.cluster, upgrade.before, upgrade.after) == ("a", "1.29.4", "1.30.1")
    shapes = [
        (each.pool, each.vms, each.batches, each.concurrent_vms, each.minimum_up)
        for each in upgrade.pools
    ]
    assert shapes == [("control-plane", 3, 3, 1, 3), ("p", 4, 4, 1, 4), ("q", 3, 2, 2, 1)]
    assert [each.surges for each in upgrade.pools] == [True, True, False]
    assert upgrade.is_feasible
    assert upgrade.vms == 10


@pytest.mark.of_domains("fleet")
def test_budget_without_allowed_disruptions_blocks_upgrade() -> None:
    upgrade = plan_upgrade(build_configuration(OLD, SHOP), build_configuration(NEW, SHOP))
    assert upgrade.budgets == ("default/shop",)
    assert upgrade.single_replicas == ("default/Deployment/shop",)
    assert not upgrade.is_feasible


def test_other_changes_are_no_upgrade() -> None:
    changed = build_configuration(OLD).replace("count       = 4", "count       = 5")
    assert (
        require_success(plan(changed, build_state(build_configuration(OLD)))).plan.impact.upgrades
        == ()
    )


@pytest.mark.of_domains("fleet")
def test_changed_sku_re_creates_pool_at_once() -> None:
    bigger = build_configuration(OLD, SHOP).replace(
        pool("q", 3, more=IN_PLACE), pool("q", 3, "NC_G12_56_v1", more=IN_PLACE)
    )
    upgrade = plan_upgrade(build_configuration(OLD, SHOP), bigger)
    assert (upgrade.trigger, upgrade.before, upgrade.after, upgrade.is_rolling) == (
        "sku_changed",
        "",
        "",
        False,
    )
    (of_pool,) = upgrade.pools
    assert (of_pool.pool, of_pool.vms, of_pool.batches, of_pool.concurrent_vms) == ("q", 3, 1, 3)
    assert (of_pool.surges, of_pool.minimum_up) == (False, 0)


@pytest.mark.of_domains("fleet")
def test_pods_on_other_pools_are_not_affected() -> None:
    """The only pod of the shop runs on one of the two pools.

    It is down only when that pool is re-created.
    """
    small = pool("q", 3, more=IN_PLACE)
    other = pool("p", 4)
    changed_q = build_configuration(OLD, SHOP).replace(
        small, pool("q", 3, "NC_G12_56_v1", more=IN_PLACE)
    )
    changed_p = build_configuration(OLD, SHOP).replace(other, pool("p", 4, "NC_G12_56_v1"))
    at_stake = [
        plan_upgrade(build_configuration(OLD, SHOP), changed).single_replicas
        for changed in (changed_q, changed_p)
    ]
    assert sorted(at_stake) == [(), ("default/Deployment/shop",)]


def test_failed_batch_of_upgrade_is_reported() -> None:
    """Two full machines: no surge VM fits."""
    big = "NC_P46_224_v1"
    racks = RACKS.replace("= 3\n", "= 1\n").replace("= 4\n", "= 2\n")

    def build_full_site(version: str) -> str:
        return racks + cluster("a", arguments=version, plane=big, pools=pool("p", 3, big))

    result = plan(build_full_site(NEW), build_state(build_full_site(OLD)))
    assert {problem.id for problem in list_errors(result)} == {"insufficient-capacity"}
    (upgrade,) = result.plan.impact.upgrades
    assert [each.failed_batch for each in upgrade.pools] == [1, 1]
    assert all(each.reason for each in upgrade.pools)
    assert not upgrade.is_feasible


def test_nodes_added_during_re_creation_are_not_counted_as_up() -> None:
    """The new node does not exist yet when the old ones are deleted."""
    upgrade = plan_upgrade(
        RACKS + cluster("a", pools=pool("p", 2)),
        RACKS + cluster("a", pools=pool("p", 3, more="labels = { a = 1 }")),
    )
    assert "p: all 2 nodes are down at once (labels_changed)." in describe_upgrade_course(upgrade)
    assert upgrade.lost_pools == ("p",)


def test_nodes_added_during_upgrade_in_place_are_not_counted_as_up() -> None:
    all_at_once = IN_PLACE.replace('"2"', '"100%"')
    upgrade = plan_upgrade(
        RACKS + cluster("a", arguments=OLD, pools=pool("p", 2, more=all_at_once)),
        RACKS + cluster("a", arguments=NEW, pools=pool("p", 3, more=all_at_once)),
    )
    assert upgrade.lost_pools == ("p",)


def test_scale_out_during_upgrade_keeps_quorum_of_existing_nodes() -> None:
    upgrade = plan_upgrade(
        RACKS + cluster("a", arguments=OLD, count=1), RACKS + cluster("a", arguments=NEW, count=3)
    )
    assert upgrade.lost_pools == ()


def test_pool_re_created_during_upgrade_is_down_at_once() -> None:
    both = build_configuration(NEW).replace(pool("p", 4), pool("p", 4, "NC_G12_56_v1"))
    upgrade = plan_upgrade(build_configuration(OLD), both)
    shapes = {
        each.pool: (each.batches, each.concurrent_vms, each.minimum_up, each.surges)
        for each in upgrade.pools
    }
    assert shapes["p"] == (1, 4, 0, False)
    assert shapes["control-plane"] == (3, 1, 3, True)


def test_nodes_with_lost_hosts_during_upgrade_are_missing() -> None:
    state = build_state(build_configuration(OLD))
    made = require_success(plan(build_configuration(NEW), state, replaces=("nexus_rack.r[0]",)))
    (upgrade,) = made.plan.impact.upgrades
    on_rack = [row for row in made.plan.placements if row.trigger == "machine_replaced"]
    of_pools = {each.pool: sum(row.pool == each.pool for row in on_rack) for each in upgrade.pools}
    assert of_pools["p"] > 0
    for each in upgrade.pools:
        if each.pool in ("control-plane", "p"):
            count = {"control-plane": 3, "p": 4}[each.pool]
            assert each.minimum_up == count - of_pools[each.pool]
            assert each.surges is (of_pools[each.pool] == 0)


ONE_RACK = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 2
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 4
}
"""


def build_two_clusters(version: str, wide: int, narrow: int) -> str:
    """Return a cluster to upgrade in one zone, beside a shrinking one in both zones."""
    zoned = pool("p", narrow, "NC_P46_224_v1", more='availability_zones = ["r0"]')
    return (
        ONE_RACK
        + cluster("a", arguments=version, pools=zoned)
        + cluster("b", pools=pool("q", wide, "NC_P46_224_v1"))
    )


@pytest.mark.parametrize(("narrow", "hangs"), [(4, ("b/q",)), (3, ())])
def test_capacity_depending_on_scale_in_is_uncertain(narrow: int, hangs: tuple[str, ...]) -> None:
    # A rack has eight cells: with four of a/p in r0, the six of b/q may leave none there
    # for a fifth.
    upgrade = plan_upgrade(build_two_clusters(OLD, 6, narrow), build_two_clusters(NEW, 5, narrow))
    by_pool = {each.pool: each.scale_in_pools for each in upgrade.pools}
    assert by_pool["p"] == hangs
    assert upgrade.is_feasible == (not hangs)
    said = "may lack surge capacity, depending on the VMs of b/q that Azure removes"
    assert (said in describe_upgrade_course(upgrade)) == bool(hangs)


def test_added_zones_re_create_the_pool_and_the_fix_says_so() -> None:
    def full(version: str) -> str:
        zoned = pool("p", 4, "NC_P46_224_v1", more='availability_zones = ["r0"]')
        wide = pool("q", 7, "NC_P46_224_v1")
        return ONE_RACK + cluster("a", arguments=version, pools=zoned) + cluster("b", pools=wide)

    (refused,) = list_errors(plan(full(NEW), build_state(full(OLD)), suggested_fixes=True))
    ways = refused.extra["fit"]["suggested_fixes"]
    assert any(way["kind"] == "zones" for way in ways)
    price = "a/p has no node for some time: all 4 nodes are re-created at once"
    assert f"Temporary loss: {price}." in refused.detail


@pytest.mark.of_domains("fleet")
def test_blocked_upgrade_is_reported_as_warning() -> None:
    result = require_success(
        plan(build_configuration(NEW, SHOP), build_state(build_configuration(OLD, SHOP)))
    )
    (warning,) = [each for each in result.diagnostics if each.id == "blocked-upgrade"]
    assert "a: default/shop allows no eviction" in warning.brief
    assert "simulate kubernetes-upgrade nexus_kubernetes_cluster.a" in warning.detail
    assert warning.subject is not None
    plain = require_success(plan(build_configuration(NEW), build_state(build_configuration(OLD))))
    assert not [each for each in plain.diagnostics if each.id == "blocked-upgrade"]


@pytest.mark.of_domains("fleet")
def test_headline_reports_blocked_upgrade() -> None:
    upgrade = plan_upgrade(build_configuration(OLD, SHOP), build_configuration(NEW, SHOP))
    assert describe_upgrades([upgrade]) == ["the upgrade of a to 1.30.1 is blocked"]
    stops = replace(upgrade, budgets=(), pools=(replace(upgrade.pools[1], failed_batch=2),))
    assert describe_upgrades([stops]) == ["the upgrade of a to 1.30.1 stops at batch 2 of p"]
    assert describe_upgrades([replace(upgrade, budgets=())]) == ["a is upgraded to 1.30.1"]
    assert describe_upgrades([upgrade] * 3) == ["the upgrades of 3 clusters cannot complete"]


def test_course_names_the_largest_surge() -> None:
    large_surge = pool("q", 3, more='upgrade_settings {\n max_surge = "2"\n}')
    before, after = (
        text.replace(pool("q", 3, more=IN_PLACE), large_surge)
        for text in map(build_configuration, (OLD, NEW))
    )
    course = describe_upgrade_course(plan_upgrade(before, after))
    assert (
        course == "1.29.4 -> 1.30.1 fits: 10 nodes in 9 batches, max surge 2, capacity never drops."
    )


def test_headline_counts_clusters_of_one_name_on_several_sites() -> None:
    upgrade = plan_upgrade(build_configuration(OLD), build_configuration(NEW))
    sites = [replace(upgrade, site_id=site_id) for site_id in ("s1", "s2", "s3")]
    assert describe_upgrades(sites[:2]) == ["s1/a and s2/a are upgraded to 1.30.1"]
    assert describe_upgrades(sites) == ["3 clusters are upgraded to 1.30.1"]
    recreations = [replace(site, trigger="sku_changed", after="") for site in sites]
    assert describe_upgrades(recreations) == ["30 nodes of 3 clusters are re-created"]
    assert describe_upgrades(recreations[:2]) == [
        "10 nodes of s1/a are re-created",
        "10 nodes of s2/a are re-created",
    ]


@pytest.mark.of_domains("whatif")
@pytest.mark.parametrize(("off", "minimum"), [("m1", 1), ("m2", 1), ("m3", 0)])
def test_nodes_on_a_machine_that_is_off_are_not_up(off: str, minimum: int) -> None:
    """m1, m2 and m3 have a node of the control plane. The last node of `p` is on m3.

    The plan and the simulation agree.
    """
    machines = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  for_each      = toset(["r1", "r2", "r3"])
  site_id       = nexus_site.s.id
  name          = each.key
  machine_count = 0
}
resource "nexus_bare_metal_machine" "m" {
  for_each    = toset(["m1", "m2", "m3", "m4"])
  rack_id     = nexus_rack.r[each.key == "m4" ? "r1" : replace(each.key, "m", "r")].id
  name        = each.key
  slot        = tonumber(substr(each.key, 1, 1))
  machine_sku = "bom-1.7.3"
  power_state = "On"
}
"""
    one_by_one = IN_PLACE.replace('"2"', '"1"')
    pools = pool("p", 2, "NC_P46_224_v1", one_by_one)
    text = machines + cluster("a", arguments=OLD, pools=pools, count=3)
    broken = text.replace('= "On"', f'= each.key == "{off}" ? "Off" : "On"')
    state = build_applied_state(broken, build_applied_state(text))
    (upgrade,) = plan(broken.replace(OLD, NEW), state).plan.impact.upgrades
    planned = {each.pool: (each.minimum_up, each.is_lost) for each in upgrade.pools}
    site = get_site(state)
    simulated = simulate_kubernetes_upgrade(build_start(state), site, site.clusters[0])
    assert planned == {
        each.course.pool: (each.course.minimum_up, each.course.is_lost) for each in simulated.pools
    }
    assert planned == {"control-plane": (2, False), "p": (minimum, minimum == 0)}
