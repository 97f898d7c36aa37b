"""A verdict on surge capacity that depends on the VMs that Azure removes says so."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import TypeAlias

import pytest
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

# A smaller pool: the name of its cluster, its own, and the number of removed VMs.
Shrunk: TypeAlias = tuple[str, str, int]
# What shrinks, and whether another pool grows; and seeds with verdicts that depend on the choice.
KINDS = {
    "pool": (190, 337, 395),
    "control plane": (155,),
    "two pools": (24, 107),
    "no new VMs": (45, 69, 129),
}


def plan_change(draw: random.Random, kind: str) -> tuple[PlanResult, list[Shrunk]] | None:
    """Return the plan of a site with smaller pools, and these pools; None: it fails."""
    site = draw_site(draw)
    created = make_plan(build_request(site.render()))
    if created.plan.errored:
        return None
    changed = site
    shrunk: list[Shrunk] = []
    if kind == "control plane":
        cluster = draw.choice(site.clusters)
        changed = site.change_cluster(replace(cluster, control_plane=1))
        shrunk = [(cluster.name, "control-plane", cluster.control_plane - 1)]
    for cluster in draw.sample(site.clusters, {"control plane": 0, "two pools": 2}.get(kind, 1)):
        pool = draw.choice(cluster.pools)
        removed_count = draw.randint(1, max(pool.count - 1, 1))
        changed = resize(changed, cluster, pool, -removed_count)
        shrunk.append((cluster.name, pool.name, removed_count))
    larger_cluster = draw.choice(changed.clusters)
    larger_pool = draw.choice(larger_cluster.pools)
    counts = {
        (each.name, pool.name): pool.count for each in changed.clusters for pool in each.pools
    }
    is_empty = not all(counts.get((owner, name), 1) and count for owner, name, count in shrunk)
    if is_empty or (larger_cluster.name, larger_pool.name) in {each[:2] for each in shrunk}:
        return None
    if kind != "no new VMs":
        changed = resize(changed, larger_cluster, larger_pool, 1)
    result = make_plan(build_request(changed.render(), build_state_after(created)))
    if result.plan.errored:
        return None
    return add_site_capacity(result, build_all_types()), shrunk


def resize(site: RandomSite, cluster: RandomCluster, pool: RandomPool, change: int) -> RandomSite:
    pools = [
        replace(each, count=each.count + change) if each is pool else each for each in cluster.pools
    ]
    return site.change_cluster(replace(cluster, pools=pools))


def find_dependent_verdicts(result: PlanResult, shrunk: Iterable[Shrunk]) -> set[tuple[str, str]]:
    """Return SKU and cluster of each verdict that differs between choices of removed VMs."""
    assert result.occupied_before is not None
    before = result.occupied_before["s"]
    choices = [
        itertools.combinations(
            [
                vm
                for vm in before.site.scheduler.list_vms()
                if vm.vm.pool == pool and vm.vm.owner.endswith(cluster)
            ],
            removed_count,
        )
        for cluster, pool, removed_count in shrunk
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
    for removed in itertools.product(*choices):
        scheduler = before.site.scheduler.copy()
        for vm in itertools.chain.from_iterable(removed):
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
    rows = [
        (row.sku, row.after) for row in result.plan.site_records.capacity if row.after is not None
    ]
    return {
        (sku, cluster): dict(after.surge_conditions).get(cluster, "")
        for sku, after in rows
        for cluster in after.uncertain_surge_clusters
    }


@pytest.mark.parametrize("kind", KINDS)
def test_each_dependent_verdict_names_the_vms_that_have_to_leave(kind: str) -> None:
    count = 0
    for seed in {*KINDS[kind], *range(scale_count(150))}:
        drawn = plan_change(random.Random(f"surge {kind} {seed}"), kind)
        if drawn is None:
            continue
        result, shrunk = drawn
        dependent = find_dependent_verdicts(result, shrunk)
        conditions = list_conditions(result)
        assert dependent <= conditions.keys(), seed
        count += len(dependent)
        starts = tuple(
            f"fits {only}if {cluster}-{pool}-"
            for cluster, pool, _ in shrunk
            for only in ("", "only ")
        )
        for condition in conditions.values():
            assert condition.startswith(starts), (seed, condition)
    assert count >= len(KINDS[kind])


def test_decision_block_has_the_condition() -> None:
    drawn = plan_change(random.Random("surge control plane 155"), "control plane")
    assert drawn is not None
    result, _ = drawn
    [condition] = list_conditions(result).values()
    assert condition == "fits only if c3-control-plane-1 leaves r1-bm02"
    text = describe_upgrade_capacity(build_decision(result.plan))
    assert f"surge capacity unknown for c2 ({condition})" in text
