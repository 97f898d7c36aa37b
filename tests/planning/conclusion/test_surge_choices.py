"""A verdict on surge capacity that depends on the VMs that Azure removes says so."""

from __future__ import annotations

import itertools
import random

from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.planning.conclusion.spare_capacity import compute_sku_capacity
from nexusform.planning.planner import make_plan
from nexusform.planning.vm_planning.site_plans import build_demand
from nexusform.plans.impact.decision_figures import build_decision
from nexusform.rendering.report.decision_lines import describe_upgrade_capacity
from tests.kill_points import scale_count
from tests.planning.harness import build_all_types, build_request, build_state_after
from tests.planning.hypothesis.edit_kinds import RandomCluster, RandomPool, RandomSite, draw_site


def plan_change(draw: random.Random) -> tuple[PlanResult, str, str, int] | None:
    """Return the plan of a site with a smaller pool and another larger one; None: it fails.

    The owner and name of the smaller pool follow, and the number of its removed VMs.
    """
    site = draw_site(draw)
    created = make_plan(build_request(site.render()))
    cluster = draw.choice(site.clusters)
    pool = draw.choice(cluster.pools)
    if created.plan.errored or pool.count < 2:
        return None
    removed_count = draw.randint(1, pool.count - 1)
    changed = resize(site, cluster, pool, -removed_count)
    larger_cluster = draw.choice(changed.clusters)
    larger_pool = draw.choice(larger_cluster.pools)
    if (larger_cluster.name, larger_pool.name) == (cluster.name, pool.name):
        return None
    changed = resize(changed, larger_cluster, larger_pool, 1)
    result = make_plan(build_request(changed.render(), build_state_after(created)))
    if result.plan.errored:
        return None
    return add_site_capacity(result, build_all_types()), cluster.name, pool.name, removed_count


def resize(site: RandomSite, cluster: RandomCluster, pool: RandomPool, change: int) -> RandomSite:
    pools = [
        replace(each, count=each.count + change) if each is pool else each for each in cluster.pools
    ]
    return site.change_cluster(replace(cluster, pools=pools))


def find_dependent_verdicts(
    result: PlanResult, cluster: str, pool: str, removed_count: int
) -> set[tuple[str, str]]:
    """Return SKU and cluster of each verdict that differs between choices of removed VMs."""
    assert result.occupied_before is not None
    before = result.occupied_before["s"]
    vms = [
        vm
        for vm in before.site.scheduler.list_vms()
        if vm.vm.pool == pool and vm.vm.owner.endswith(cluster)
    ]
    new_demands = [
        build_demand(vm_object.request.demand, demand, number)
        for vm_object in result.objects.values()
        for name, number in vm_object.placements.new_handles
        for demand in vm_object.pools
        if demand.pool == name
    ]
    skus = {demand.sku.name: demand.sku for _, demand in before.pools}
    lacking: dict[tuple[str, str], set[bool]] = {}
    for removed in itertools.combinations(vms, removed_count):
        scheduler = before.site.scheduler.copy()
        for vm in removed:
            scheduler.release(vm.handle)
        for demand in new_demands:
            scheduler.place(demand)
        occupied = replace(before, site=replace(before.site, scheduler=scheduler))
        for name, sku in skus.items():
            capacity = compute_sku_capacity(occupied, sku)
            assert capacity is not None
            for each in capacity.clusters:
                is_lacking = each in capacity.no_surge_clusters
                lacking.setdefault((name, each), set()).add(is_lacking)
    return {verdict for verdict, results in lacking.items() if len(results) == 2}


def list_conditions(result: PlanResult) -> dict[tuple[str, str], str]:
    """Return the uncertain verdicts of a plan by SKU and cluster, with their conditions."""
    rows = [(row.sku, row.after) for row in result.plan.capacity if row.after is not None]
    return {
        (sku, cluster): dict(after.surge_conditions).get(cluster, "")
        for sku, after in rows
        for cluster in after.uncertain_surge_clusters
    }


def test_each_dependent_verdict_names_the_vms_that_have_to_leave() -> None:
    # The second site has verdicts that depend on the choice.
    seeds = range(scale_count(300))
    assert 1 in seeds
    count = 0
    for seed in seeds:
        drawn = plan_change(random.Random(f"surge {seed}"))
        if drawn is None:
            continue
        result, cluster, pool, removed_count = drawn
        dependent = find_dependent_verdicts(result, cluster, pool, removed_count)
        conditions = list_conditions(result)
        assert dependent <= conditions.keys(), seed
        count += len(dependent)
        for condition in conditions.values():
            assert condition.startswith(f"fits only if {cluster}-{pool}-"), (seed, condition)
    assert count


def test_decision_block_has_the_condition() -> None:
    drawn = plan_change(random.Random("surge 1"))
    assert drawn is not None
    result, *_ = drawn
    [condition, *_] = list_conditions(result).values()
    assert condition == "fits only if c1-p0-2 leaves r1-bm02"
    text = describe_upgrade_capacity(build_decision(result.plan))
    assert f"surge capacity unknown for c1,2 ({condition})" in text
