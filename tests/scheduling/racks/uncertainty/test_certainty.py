from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.scheduling.placement_decision import PlacementCertainty
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty import certainty
from nexusform.scheduling.racks.uncertainty.certainty import (
    compute_default_runs,
    repeat_with_samples,
    run_operations,
)
from nexusform.scheduling.racks.uncertainty.operations import (
    OccupyOperation,
    PlaceOperation,
    ReleaseOperation,
)
from nexusform.scheduling.racks.vms import Demand, Machine, Placement, PlacementConstraints, VmName
from nexusform.scheduling.sku_catalogue import CATALOGUES

SKUS = CATALOGUES["2026-03"].vm_skus


def build_machines(racks: int, each: int) -> list[Machine]:
    return [
        Machine(f"r{rack}-bm{slot:02d}", f"r{rack}", str(rack), slot, "bom-1.7.3", 2, 48, 224, 3500)
        for rack in range(1, racks + 1)
        for slot in range(1, each + 1)
    ]


def build_demand(number: int, sku: str = "NC_P46_224_v1", zones: str | None = None) -> Demand:
    return Demand(
        VmName("c", "c", "p", number),
        SKUS[sku],
        PlacementConstraints(frozenset(zones) if zones else None),
    )


def test_forced_placement_is_certain_and_free_choice_is_not() -> None:
    base = RackScheduler(build_machines(2, 8))
    answer = repeat_with_samples(
        base,
        [
            PlaceOperation("pinned", build_demand(0, zones="1")),
            PlaceOperation("free", build_demand(1)),
        ],
        40,
    )
    assert answer.vms["pinned"].rack == 1.0
    assert 0 < answer.vms["pinned"].machine < 0.5
    assert answer.vms["free"].rack == 1.0
    assert list(base.list_vms()) == []
    only = repeat_with_samples(
        RackScheduler(build_machines(1, 1)), [PlaceOperation("only", build_demand(0))], 40
    )
    assert only.vms["only"] == PlacementCertainty(1.0, 1.0, 1.0)
    (pool,) = only.pools.values()
    assert (pool.vms_on_certain_machines, pool.counts) == (1, {"r1": 1})


def test_rack_counts_can_be_certain_without_certain_vms() -> None:
    answer = repeat_with_samples(
        RackScheduler(build_machines(2, 4)),
        [PlaceOperation(n, build_demand(n)) for n in range(4)],
        40,
    )
    (pool,) = answer.pools.values()
    assert all(certainty.rack < 1 for certainty in answer.vms.values())
    assert pool.certain_racks == ("r1", "r2")
    assert pool.vms_on_certain_counts == 4


def test_sample_without_capacity_for_a_vm_counts_as_mismatch() -> None:
    # A small VM is placed on one of two machines by tie-break. A pinned VM then takes the first
    # machine if it is empty, so the last VM fits only in some samples.
    base = RackScheduler(build_machines(2, 1))
    operations = [
        PlaceOperation("small", build_demand(0, "NC_G2_8_v1")),
        PlaceOperation(
            "large",
            Demand(
                VmName("d", "d", "p", 0),
                SKUS["NC_E94_448_v1"],
                PlacementConstraints(frozenset("1")),
            ),
        ),
        PlaceOperation("last", Demand(VmName("e", "e", "p", 0), SKUS["NC_G2_8_v1"])),
    ]
    fitting = [run_operations(base, operations, seed)["large"] is not None for seed in range(40)]
    assert 0 < sum(fitting) < 40
    answer = repeat_with_samples(base, operations, 40, keep_outcomes=True)
    if "large" in answer.vms:
        assert answer.vms["large"].machine == sum(fitting) / 40
    assert [outcome["large"] is not None for outcome in answer.outcomes] == fitting
    assert "last" in answer.vms


def test_rack_count_can_be_certain_without_a_certain_vm() -> None:
    base = RackScheduler(build_machines(2, 8))
    answer = repeat_with_samples(
        base, [PlaceOperation(number, build_demand(number)) for number in range(4)], 40
    )
    for vm_certainty in answer.vms.values():
        assert vm_certainty.rack < 1
        assert vm_certainty.rack_count == 1.0, "two of four VMs on each of two racks"


def test_releases_and_pinned_vms_are_repeated() -> None:
    base = RackScheduler(build_machines(1, 1))
    old, _ = base.place(Demand(VmName("old", "old", "p", 0), SKUS["NC_E94_448_v1"]))
    operations = [
        ReleaseOperation(old),
        OccupyOperation(
            "pinned",
            VmName("x", "x", "x", 0),
            SKUS["NC_P46_224_v1"],
            Placement("r1-bm01", "r1", "1", ()),
            True,
        ),
        PlaceOperation("second", build_demand(1)),
        PlaceOperation("third", build_demand(2)),
    ]
    answer = repeat_with_samples(base, operations, 10)
    assert answer.vms["second"] == PlacementCertainty(1.0, 1.0, 1.0)
    assert run_operations(base, operations)["second"] == Placement("r1-bm01", "r1", "1", (1,))
    assert "third" not in answer.vms
    assert [vm.handle for vm in base.list_vms()] == [old]


@pytest.mark.parametrize(
    ("vms", "runs"), [(0, 0), (1, 100), (2000, 100), (2001, 99), (20_000, 10), (20_001, 0)]
)
def test_default_number_of_samples(vms: int, runs: int) -> None:
    assert compute_default_runs(vms) == runs


@pytest.mark.parametrize(("runs", "has_ties"), [(49, False), (50, True)])
def test_ties_are_collected_only_if_they_are_reported(
    runs: int, has_ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    collections: list[object] = []

    def record_collection(*arguments: Any, tied_machines: Any = None, **options: Any) -> Any:
        collections.append(tied_machines)
        return run_operations(*arguments, tied_machines=tied_machines, **options)

    monkeypatch.setattr(certainty, "run_operations", record_collection)
    monkeypatch.setattr(certainty, "MAX_PLAIN_SESSION_SIZE", 0)
    answer = repeat_with_samples(
        RackScheduler(build_machines(1, 3)), [PlaceOperation("free", build_demand(0))], runs
    )
    assert bool(next(iter(answer.pools.values())).tied_classes) == has_ties
    assert len(collections) == runs + 1
    assert any(collected is not None for collected in collections) == has_ties


def test_no_samples_give_no_certainty() -> None:
    answer = repeat_with_samples(
        RackScheduler(build_machines(1, 1)), [PlaceOperation("x", build_demand(0))], 0
    )
    assert (answer.vms, answer.pools) == ({}, {})


_SIZES = ("NC_G2_8_v1", "NC_G12_56_v1", "NC_P22_112_v1", "NC_P46_224_v1", "NC_E94_448_v1")


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(_SIZES)), min_size=1, max_size=6),
    st.lists(st.sampled_from(_SIZES), min_size=1, max_size=5),
    st.integers(0, 5),
)
def test_certain_machines_give_equal_places_for_every_layout(
    standing: list[tuple[int, str]], coming: list[str], seed: int
) -> None:
    """The cells of existing VMs are unknown; the tie-break is fixed."""
    base = RackScheduler(build_machines(3, 1), seed=seed)
    for number, (machine, sku) in enumerate(standing):
        place = Placement(f"r{machine + 1}-bm01", f"r{machine + 1}", str(machine + 1), ())
        base.add_existing(VmName("old", "old", "p", number), SKUS[sku], place)
    operations = [
        PlaceOperation(number, build_demand(number, sku)) for number, sku in enumerate(coming)
    ]
    if repeat_with_samples(base, operations, 5).uncertain_machines:
        return
    ways = {
        tuple(
            place and place.machine
            for place in run_operations(base, operations, seed, split).values()
        )
        for split in range(20)
    }
    assert len(ways) == 1


def test_machine_is_uncertain_if_capacity_depends_on_unknown_cells() -> None:
    base = RackScheduler(build_machines(1, 2))
    # Both in one cell, or one in each.
    for number in range(2):
        place = Placement("r1-bm01", "r1", "1", ())
        base.add_existing(VmName("old", "old", "p", number), SKUS["NC_P22_112_v1"], place)
    assert (
        repeat_with_samples(
            base, [PlaceOperation("small", build_demand(0, "NC_P22_112_v1"))], 10
        ).uncertain_machines
        == ()
    )
    assert repeat_with_samples(
        base, [PlaceOperation("large", build_demand(0))], 10
    ).uncertain_machines == ("r1-bm01",)
