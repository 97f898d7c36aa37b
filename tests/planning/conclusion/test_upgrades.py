"""What a plan says of the upgrade of a cluster: batches, how many are away at once, what holds it up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.plans.maintenance import Upgrade
from nexusform.rendering.report.upgrade_sentences import describe_upgrade_course, describe_upgrades
from tests.planning.harness import RACKS, cluster, errors, good, plan, pool, state_of

OLD, NEW = 'kubernetes_version = "1.29.4"', 'kubernetes_version = "1.30.1"'
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


def text(version: str, more: str = "") -> str:
    pools = pool("p", 4) + pool("q", 3, more=IN_PLACE)
    return RACKS + cluster("a", arguments=version, pools=pools, count=3) + more


def upgrade_of(before: str, after: str) -> Upgrade:
    (upgrade,) = good(plan(after, state_of(before))).plan.upgrades
    return upgrade


def test_pools_go_in_batches_and_never_below_what_is_allowed() -> None:
    upgrade = upgrade_of(text(OLD), text(NEW))
    assert (upgrade.cluster, upgrade.before, upgrade.after) == ("a", "1.29.4", "1.30.1")
    shapes = [(each.pool, each.vms, each.batches, each.concurrent_vms, each.minimum_up) for each in upgrade.pools]
    assert shapes == [("control-plane", 3, 3, 1, 3), ("p", 4, 4, 1, 4), ("q", 3, 2, 2, 1)]
    assert [each.surges for each in upgrade.pools] == [True, True, False]
    assert upgrade.is_feasible
    assert upgrade.vms == 10


@pytest.mark.of_domains("fleet")
def test_a_budget_that_lets_no_pod_go_holds_it_up() -> None:
    upgrade = upgrade_of(text(OLD, SHOP), text(NEW, SHOP))
    assert upgrade.budgets == ("default/shop",)
    assert upgrade.single_replicas == ("default/Deployment/shop",)
    assert not upgrade.is_feasible


def test_other_changes_are_no_upgrade() -> None:
    changed = text(OLD).replace("count       = 4", "count       = 5")
    assert good(plan(changed, state_of(text(OLD)))).plan.upgrades == ()


@pytest.mark.of_domains("fleet")
def test_another_sku_makes_a_pool_anew_at_once() -> None:
    bigger = text(OLD, SHOP).replace(pool("q", 3, more=IN_PLACE), pool("q", 3, "NC_G12_56_v1", more=IN_PLACE))
    upgrade = upgrade_of(text(OLD, SHOP), bigger)
    assert (upgrade.trigger, upgrade.before, upgrade.after, upgrade.is_rolling) == ("sku_changed", "", "", False)
    (of_pool,) = upgrade.pools
    assert (of_pool.pool, of_pool.vms, of_pool.batches, of_pool.concurrent_vms) == ("q", 3, 1, 3)
    assert (of_pool.surges, of_pool.minimum_up) == (False, 0)


@pytest.mark.of_domains("fleet")
def test_pods_on_other_pools_are_not_at_stake() -> None:
    """The one pod of the shop runs on one of the two pools: it is down only when that one is made anew."""
    small = pool("q", 3, more=IN_PLACE)
    other = pool("p", 4)
    changed_q = text(OLD, SHOP).replace(small, pool("q", 3, "NC_G12_56_v1", more=IN_PLACE))
    changed_p = text(OLD, SHOP).replace(other, pool("p", 4, "NC_G12_56_v1"))
    at_stake = [upgrade_of(text(OLD, SHOP), changed).single_replicas for changed in (changed_q, changed_p)]
    assert sorted(at_stake) == [(), ("default/Deployment/shop",)]


def test_where_it_stops_is_told() -> None:
    """Two machines, both full: no surge VM finds room."""
    big = "NC_P46_224_v1"
    racks = RACKS.replace("= 3\n", "= 1\n").replace("= 4\n", "= 2\n")

    def full(version: str) -> str:
        return racks + cluster("a", arguments=version, plane=big, pools=pool("p", 3, big))

    result = plan(full(NEW), state_of(full(OLD)))
    assert {problem.id for problem in errors(result)} == {"insufficient-capacity"}
    (upgrade,) = result.plan.upgrades
    assert [each.failed_batch for each in upgrade.pools] == [1, 1]
    assert all(each.reason for each in upgrade.pools)
    assert not upgrade.is_feasible


def test_a_pool_that_another_argument_makes_anew_beside_the_upgrade_is_away_at_once() -> None:
    both = text(NEW).replace(pool("p", 4), pool("p", 4, "NC_G12_56_v1"))
    upgrade = upgrade_of(text(OLD), both)
    shapes = {each.pool: (each.batches, each.concurrent_vms, each.minimum_up, each.surges) for each in upgrade.pools}
    assert shapes["p"] == (1, 4, 0, False)
    assert shapes["control-plane"] == (3, 1, 3, True)


def test_nodes_that_lose_their_machine_beside_the_upgrade_are_missing() -> None:
    state = state_of(text(OLD))
    made = good(plan(text(NEW), state, replaces=("nexus_rack.r[0]",)))
    (upgrade,) = made.plan.upgrades
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


def beside_a_scale_in(version: str, wide: int, narrow: int) -> str:
    """A cluster in one zone that is upgraded, beside one over both that shrinks."""
    zoned = pool("p", narrow, "NC_P46_224_v1", more='availability_zones = ["r0"]')
    return (
        ONE_RACK + cluster("a", arguments=version, pools=zoned) + cluster("b", pools=pool("q", wide, "NC_P46_224_v1"))
    )


@pytest.mark.parametrize(("narrow", "hangs"), [(4, ("b/q",)), (3, ())])
def test_room_that_hangs_on_whom_a_scale_in_takes_is_not_sure(narrow: int, hangs: tuple[str, ...]) -> None:
    # Eight cells to a rack: with four of a/p in r0 all six of b/q leave no room there for a fifth.
    upgrade = upgrade_of(beside_a_scale_in(OLD, 6, narrow), beside_a_scale_in(NEW, 5, narrow))
    by_pool = {each.pool: each.scale_in_pools for each in upgrade.pools}
    assert by_pool["p"] == hangs
    assert upgrade.is_feasible == (not hangs)
    said = "may lack surge capacity, depending on the VMs of b/q that Azure removes"
    assert (said in describe_upgrade_course(upgrade)) == bool(hangs)


def test_more_zones_for_an_upgrade_make_its_pool_anew_and_say_so() -> None:
    def full(version: str) -> str:
        zoned = pool("p", 4, "NC_P46_224_v1", more='availability_zones = ["r0"]')
        wide = pool("q", 7, "NC_P46_224_v1")
        return ONE_RACK + cluster("a", arguments=version, pools=zoned) + cluster("b", pools=wide)

    (refused,) = errors(plan(full(NEW), state_of(full(OLD)), suggested_fixes=True))
    ways = refused.extra["fit"]["suggested_fixes"]
    assert any(way["kind"] == "zones" for way in ways)
    assert "Other zones re-create the pool: 4 nodes down at once, not in batches." in refused.detail


@pytest.mark.of_domains("fleet")
def test_an_upgrade_that_is_held_up_is_warned_of() -> None:
    result = good(plan(text(NEW, SHOP), state_of(text(OLD, SHOP))))
    (warning,) = [each for each in result.diagnostics if each.id == "blocked-upgrade"]
    assert "a: default/shop allows no eviction" in warning.brief
    assert "simulate kubernetes-upgrade nexus_kubernetes_cluster.a" in warning.detail
    assert warning.subject is not None
    plain = good(plan(text(NEW), state_of(text(OLD))))
    assert not [each for each in plain.diagnostics if each.id == "blocked-upgrade"]


@pytest.mark.of_domains("fleet")
def test_a_headline_does_not_promise_an_upgrade_that_comes_to_a_halt() -> None:
    upgrade = upgrade_of(text(OLD, SHOP), text(NEW, SHOP))
    assert describe_upgrades([upgrade]) == ["the upgrade of a to 1.30.1 is blocked"]
    stops = replace(upgrade, budgets=(), pools=(replace(upgrade.pools[1], failed_batch=2),))
    assert describe_upgrades([stops]) == ["the upgrade of a to 1.30.1 stops at batch 2 of p"]
    assert describe_upgrades([replace(upgrade, budgets=())]) == ["a is upgraded to 1.30.1"]
    assert describe_upgrades([upgrade] * 3) == ["the upgrades of 3 clusters cannot complete"]
