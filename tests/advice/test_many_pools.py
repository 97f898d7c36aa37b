"""The work of the rules of advice does not grow with the square of the number of pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from nexusform.advice import no_surge_capacity, sku_mismatch, small_before_large, zones_too_small
from nexusform.advice.lint_input import LintInput, LintPool, LintSite
from nexusform.advice.small_before_large import CreationGroup
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import Demand, Interval, Machine, PlacementConstraints
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

SKUS = CATALOGUES[NEWEST].vm_skus
POOL_COUNT = 50
ZONE = PlacementConstraints(zones=frozenset({"1"}))


def _build_input(counts: list[int]) -> LintInput:
    """Return an input with a cluster of one pool for each number of VMs."""
    machines = tuple(
        Machine(
            name=f"m{number}",
            rack="r1",
            slot=number,
            availability_zone="1",
            machine_sku=None,
            cells=2,
            cpus_per_cell=48,
            memory_gib_per_cell=224,
            disk_gib=3000,
        )
        for number in range(3)
    )
    pools = tuple(
        LintPool(
            address=f"a{position}",
            owner=f"s/c{position}",
            cluster=f"c{position}",
            pool="w",
            site_id="s",
            sku=SKUS["NC_G12_56_v1"],
            numbers=tuple(range(count)),
            new_numbers=tuple(range(count)),
            constraints=ZONE,
        )
        for position, count in enumerate(counts)
    )
    site = LintSite("s", machines, count_free=RackScheduler(machines).count_free_slots)
    return LintInput(pools, {"s": site}, tuple(SKUS.values()))


def test_machines_of_a_zone_are_listed_once_for_all_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = _build_input([1] * POOL_COUNT)
    calls: list[object] = []
    list_schedulable = LintSite.list_schedulable

    def count_call(site: LintSite, zones: frozenset[str] | None) -> list[Machine]:
        calls.append(zones)
        return list_schedulable(site, zones)

    monkeypatch.setattr(LintSite, "list_schedulable", count_call)
    sku_mismatch.check(facts)
    assert len(calls) == 1
    calls.clear()
    assert zones_too_small.check(facts) == []
    assert len(calls) == 2


def test_equal_surge_vms_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    count_by_rack = RackScheduler.count_free_slots_by_rack

    def count_call(scheduler: RackScheduler, demand: Demand) -> Mapping[str, Interval]:
        calls.append(demand)
        return count_by_rack(scheduler, demand)

    monkeypatch.setattr(RackScheduler, "count_free_slots_by_rack", count_call)
    assert no_surge_capacity.check(_build_input([1] * POOL_COUNT)) == []
    assert len(calls) == 1


def test_larger_clusters_are_listed_only_for_the_clusters_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    positions: list[int] = []
    list_larger = small_before_large._list_larger

    def record_position(items: Sequence[CreationGroup], position: int) -> list[CreationGroup]:
        positions.append(position)
        return list_larger(items, position)

    monkeypatch.setattr(small_before_large, "_list_larger", record_position)
    assert small_before_large.check(_build_input([2] * POOL_COUNT)) == []
    assert positions == []
    findings = small_before_large.check(_build_input([3, 1, 2, 2]))
    assert positions == [1]
    [finding] = findings
    assert "c2 (" in finding.detail
    assert "c3 (" in finding.detail
    assert "c0 (" not in finding.detail
    facts = _build_input([1, 1])
    first, second = facts.pools
    larger = replace(second, owner=first.owner, pool="x", numbers=(0, 1), new_numbers=(0, 1))
    [finding] = small_before_large.check(replace(facts, pools=(first, larger)))
    assert "x (" in finding.detail
