"""Tied machines are complete with few samples: machines that differ by name only are a class."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.scheduling.racks.profile import NEXUS
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty import certainty
from nexusform.scheduling.racks.uncertainty.certainty import (
    PoolCertainty,
    SamplingResult,
    repeat_with_samples,
    run_operations,
)
from nexusform.scheduling.racks.uncertainty.machine_classes import is_independent_of_names
from nexusform.scheduling.racks.uncertainty.operations import PlaceOperation, ReleaseOperation
from nexusform.scheduling.racks.vms import Demand, Hint, HintScope, Placement, VmName
from nexusform.scheduling.sku_catalogue import CATALOGUES
from tests.kill_points import scale_count
from tests.scheduling.racks.samples import build_rack, draw_site

SKUS = CATALOGUES["2026-03"].vm_skus
SMALL = SKUS["NC_G12_56_v1"]
LARGE = SKUS["NC_P46_224_v1"]


def build_demand(cluster: str, number: int = 0) -> Demand:
    return Demand(VmName(cluster, cluster, "p", number), SMALL)


def collect_tied_machines(
    base: RackScheduler, operations: list[PlaceOperation], runs: int
) -> dict[tuple[str, str], set[str]]:
    """Return the names of the machines tied in a number of samples, by pool."""
    numbers: dict[tuple[str, str], set[int]] = {}
    for seed in range(runs):
        run_operations(base, operations, sample=seed, split_choice=seed, tied_machines=numbers)
    return {
        pool: {base.machines[machine].name for machine in machines}
        for pool, machines in numbers.items()
    }


def list_tied_machines(result: SamplingResult, pool: PoolCertainty) -> list[str]:
    """Return the names of the tied machines of a pool, in site order."""
    return [
        name for name, number in result.machine_classes.items() if pool.tied_classes >> number & 1
    ]


@pytest.mark.parametrize("seed", range(scale_count(80)))
def test_tied_machines_are_those_of_many_samples(seed: int) -> None:
    site = draw_site(seed)
    demands = [
        replace(demand, constraints=replace(demand.constraints, hints=()))
        for demand in site.demands[:16]
    ]
    base = RackScheduler(site.machines[:10], site.spread, 8)
    for demand in demands[: seed % 5]:
        base.place(demand)
    operations = [
        PlaceOperation(number, demand) for number, demand in enumerate(demands[seed % 5 :])
    ]
    runs = certainty.MIN_RUNS_FOR_TIES
    few = collect_tied_machines(base, operations, runs)
    many = collect_tied_machines(base, operations, 800)
    result = repeat_with_samples(base, operations, runs)
    for pool in result.pools.values():
        names = set(list_tied_machines(result, pool))
        key = (pool.owner, pool.pool)
        assert few.get(key, set()) <= names <= many.get(key, set())


def test_pools_of_an_empty_site_may_use_all_equal_machines() -> None:
    base = RackScheduler([machine for rack in "abcd" for machine in build_rack(rack, 40)])
    operations = [PlaceOperation(name, build_demand(name)) for name in ("x", "y")]
    result = repeat_with_samples(base, operations, certainty.MIN_RUNS_FOR_TIES)
    assert [len(list_tied_machines(result, pool)) for pool in result.pools.values()] == [160, 160]
    assert [pool.tied_classes for pool in result.pools.values()] == [1, 1]


def test_a_rack_with_a_vm_is_no_equal_of_empty_racks() -> None:
    base = RackScheduler([machine for rack in "abc" for machine in build_rack(rack, 2)])
    base.add_existing(VmName("o", "o", "p", 0), LARGE, Placement("a-bm01", "a", "1", (0,)))
    result = repeat_with_samples(base, [PlaceOperation("x", build_demand("x"))], 50)
    [pool] = result.pools.values()
    assert {name[0] for name in list_tied_machines(result, pool)} == {"b", "c"}


def test_names_have_an_effect_in_hints_last_resorts_other_profiles_and_unknown_cells() -> None:
    machines = build_rack("r1", 2)
    base = RackScheduler(machines)
    demand = build_demand("c")
    base.place(demand)
    assert is_independent_of_names(base, [demand])
    last_resort = replace(demand, last_resort=machines[0].name)
    assert not is_independent_of_names(base, [demand, last_resort])
    hint = Hint(True, False, HintScope.RACK, frozenset(), frozenset({"r1"}), "x")
    hinted = replace(demand, constraints=replace(demand.constraints, hints=(hint,)))
    assert not is_independent_of_names(base, [hinted])
    other_profile = replace(NEXUS, platform="other")
    assert not is_independent_of_names(RackScheduler(machines, profile=other_profile), [demand])
    unknown_cells = Placement(machines[0].name, "r1", "1", ())
    base.add_existing(VmName("c", "c", "p", 2), SMALL, unknown_cells)
    assert not is_independent_of_names(base, [demand])


def test_ties_of_a_plan_with_removals_are_those_of_its_samples() -> None:
    base = RackScheduler(build_rack("r1", 3))
    handle = base.add_existing(
        VmName("o", "o", "p", 0), LARGE, Placement("r1-bm02", "r1", "1", (0,))
    )
    operations = [ReleaseOperation(handle), PlaceOperation("x", build_demand("x"))]
    result = repeat_with_samples(base, operations, 50)
    [pool] = result.pools.values()
    assert list_tied_machines(result, pool) == ["r1-bm01", "r1-bm02", "r1-bm03"]
