"""Samples of plain placements have the results of sessions, byte for byte."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty import certainty, plain_samples
from nexusform.scheduling.racks.uncertainty.certainty import SamplingResult, repeat_with_samples
from nexusform.scheduling.racks.uncertainty.machine_classes import is_independent_of_names
from nexusform.scheduling.racks.uncertainty.operations import (
    OccupyOperation,
    Operation,
    PlaceOperation,
    ReleaseOperation,
)
from nexusform.scheduling.racks.vms import Demand, Placement, VmName
from nexusform.scheduling.sku_catalogue import CATALOGUES
from tests.kill_points import scale_count
from tests.scheduling.racks.samples import build_rack, draw_site

SITES = scale_count(200)
RUNS = certainty.MIN_RUNS_FOR_TIES
SKUS = CATALOGUES["2026-03"].vm_skus


def draw_operations(
    seed: int, *, has_changes: bool = False
) -> tuple[RackScheduler, list[Operation]]:
    """Return a site with VMs, some of them released again, and VMs to place there.

    With changes, other VMs leave in between, or run on given machines, also full or closed ones.
    """
    draw = Random(seed)
    site = draw_site(seed)
    demands = [
        replace(demand, constraints=replace(demand.constraints, hints=()))
        for demand in site.demands
    ]
    base = RackScheduler(site.machines, site.spread, 8)
    existing_count = draw.randint(0, len(demands) // 2)
    handles: list[int] = []
    for demand in demands[:existing_count]:
        placed = base.place(demand)
        if isinstance(placed, tuple) and draw.random() < 0.3:
            base.release(placed[0])
        elif isinstance(placed, tuple):
            handles.append(placed[0])
    operations: list[Operation] = []
    for number, demand in enumerate(demands[existing_count:]):
        if has_changes and handles and draw.random() < 0.3:
            operations.append(ReleaseOperation(handles.pop(draw.randrange(len(handles)))))
        if has_changes and draw.random() < 0.2:
            machine = draw.choice(site.machines)
            placement = Placement(machine.name, machine.rack, machine.availability_zone, (0,))
            operations.append(
                OccupyOperation(
                    f"occupied-{number}",
                    replace(demand.vm, number=f"occupied-{number}"),
                    demand.sku,
                    placement,
                    uses_rule_cells=draw.random() < 0.5,
                )
            )
        else:
            operations.append(PlaceOperation(number, demand))
    return base, operations


def sample(
    monkeypatch: pytest.MonkeyPatch, seed: int, largest_session: int, *, has_changes: bool = False
) -> tuple[SamplingResult, list[int]]:
    """Return the result of samples with tables for sessions up to this length, and the progress."""
    monkeypatch.setattr(certainty, "MAX_PLAIN_SESSION_SIZE", largest_session)
    base, operations = draw_operations(seed, has_changes=has_changes)
    progress: list[int] = []
    first = seed % 3
    result = repeat_with_samples(base, operations, RUNS, first=first, on_progress=progress.append)
    return result, progress


@pytest.mark.parametrize("seed", range(SITES))
def test_results_are_those_of_sessions(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    base, operations = draw_operations(seed)
    assert is_independent_of_names(
        base,
        [operation.demand for operation in operations if isinstance(operation, PlaceOperation)],
    )
    assert sample(monkeypatch, seed, 1000) == sample(monkeypatch, seed, 0)


@pytest.mark.parametrize("seed", range(SITES))
def test_released_and_given_vms_have_the_results_of_sessions(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    assert sample(monkeypatch, seed, 1000, has_changes=True) == sample(
        monkeypatch, seed, 0, has_changes=True
    )


def test_random_sites_have_ties_and_vms_without_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [sample(monkeypatch, seed, 1000)[0] for seed in range(min(SITES, 25))]
    assert any(
        pool.tied_classes.bit_count() > 1 for result in results for pool in result.pools.values()
    )
    assert any(not all(result.fits) for result in results)
    assert any(0 < vm.rack < 1 for result in results for vm in result.vms.values())


def test_many_small_clusters_have_the_results_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = [machine for rack in range(8) for machine in build_rack(f"r{rack}", 12)]
    sizes = (SKUS["NC_G12_56_v1"], SKUS["NC_P22_112_v1"])
    operations = [
        PlaceOperation((cluster, size.name), Demand(VmName(cluster, cluster, size.name, 1), size))
        for cluster in (f"c-{number}" for number in range(200))
        for size in sizes
    ]
    results = []
    for largest_session in (1, 0):
        monkeypatch.setattr(certainty, "MAX_PLAIN_SESSION_SIZE", largest_session)
        results.append(repeat_with_samples(RackScheduler(machines), operations, RUNS))
    assert results[0] == results[1]


def test_tables_are_used_for_short_sessions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session ranks the machines first, which takes most of the time for few VMs."""
    calls: list[int] = []
    monkeypatch.setattr(
        plain_samples, "PlainSamples", lambda _base, operations: calls.append(len(operations))
    )
    for cluster_count, pool_size in ((90, 1), (10, 9), (1, 90), (20, 1)):
        operations = [
            PlaceOperation(
                (cluster, number),
                Demand(VmName(cluster, cluster, "p", number), SKUS["NC_G12_56_v1"]),
            )
            for cluster in (f"c-{number}" for number in range(cluster_count))
            for number in range(pool_size)
        ]
        repeat_with_samples(RackScheduler(build_rack("r1", 30)), operations, 10)
    assert calls == [90, 90, 20]


def test_released_vms_leave_their_capacity() -> None:
    base = RackScheduler(build_rack("r1", 1))
    size = SKUS["NC_P46_224_v1"]
    handles = [
        handle for handle, _ in (base.place(Demand(VmName("c", "c", "p", n), size)) for n in (1, 2))
    ]
    place = PlaceOperation("new", Demand(VmName("c", "c", "p", 3), size))
    assert not any(repeat_with_samples(base, [place], RUNS).fits)
    assert all(repeat_with_samples(base, [ReleaseOperation(handles[0]), place], RUNS).fits)
