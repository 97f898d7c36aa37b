"""Tests of orders of re-creations.

If the program alone finds none, a search does, and the result is as predicted.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.whatif.questions import repack_orders
from nexusform.domains.whatif.questions.repack_context import (
    RepackRequest,
    build_pool_demand,
    build_repack_context,
)
from nexusform.domains.whatif.questions.repack_orders import search_orders
from nexusform.domains.whatif.questions.repack_planning import (
    RepackResult,
    RepackStatus,
    plan_repack,
)
from nexusform.domains.whatif.questions.repack_windows import exclude_machines
from nexusform.domains.whatif.rendering.repack_report import build_repack_report
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import Placement, PlacementConstraints, VmName, VmSku
from nexusform.snapshots.snapshot import SiteSnapshot
from tests.domains.whatif.questions.repack_sites import (
    LARGE,
    SKUS,
    build_machines,
    build_site_with_history,
    build_snapshot_of_pools,
)

pytest.importorskip("highspy")

# Seeds of sites with only few valid orders of the chosen steps.
NARROW = (131, 324, 352, 355, 388, 479, 495)


def build_site(seed: int) -> tuple[SiteSnapshot, RepackRequest]:
    site = build_site_with_history(
        seed, 2 + seed % 2, 1 + seed % 3, filled=0.65 + 0.03 * (seed % 9), zoned=0.3
    )
    return site, RepackRequest(sku=SKUS[LARGE], want=1 + seed % 3)


def replay(site: SiteSnapshot, result: RepackResult) -> int:
    """Re-create the VMs with all machines but the target cordoned.

    Return how many requested VMs fit then.
    """
    context = build_repack_context(site, result.request)
    scheduler = context.scheduler.copy()
    machines = {machine.name for machine in scheduler.machines}
    for window in result.windows:
        for step in window.steps:
            scheduler.release(step.source.handle)
        for step in window.steps:
            demand = build_pool_demand(context.pools[step.source.pool], step.source.vm)
            answer = scheduler.try_place(exclude_machines(demand, machines - {step.target.machine}))
            assert answer is not None
            assert answer[1] == step.target
    return scheduler.count_free_slots(result.request.demand).minimum


@pytest.mark.parametrize("seed", NARROW)
def test_order_is_found_and_ends_as_predicted(seed: int) -> None:
    site, request = build_site(seed)
    result = plan_repack(site, request)
    assert result.status is RepackStatus.OPTIMAL
    assert result.recreations == result.bound
    assert replay(site, result) >= request.want


@pytest.mark.parametrize("seed", NARROW[:3])
def test_no_order_with_fewer_steps_exists(seed: int) -> None:
    site, request = build_site(seed)
    result = plan_repack(site, request)
    assert result.recreations is not None
    orders = search_orders(
        build_repack_context(site, request), request, 1, min(result.recreations, 3) - 1
    )
    assert (orders.sequence, orders.cut_at) == (None, None)


def build_ring_site() -> tuple[SiteSnapshot, frozenset[str]]:
    """Build three full racks that only a cyclic exchange can improve.

    Only the exchange of their first VMs frees 12 vCPUs in the first. Their second VMs stay.
    """
    scheduler = RackScheduler(build_machines(4, 1))
    pools: dict[int, tuple[VmSku, PlacementConstraints, list[int]]] = {}
    g6, g12, g18, g24 = (SKUS[f"NC_{size}_v1"] for size in ("G6_28", "G12_56", "G18_74", "G24_112"))

    def add_vm(number: int, sku: VmSku, machine: int, cell: int) -> None:
        _, _, handles = pools.setdefault(number, (sku, PlacementConstraints(), []))
        place = Placement(f"r00{machine}-bm01", f"r00{machine}", str(machine), (cell,))
        handles.append(
            scheduler.add_existing(
                VmName(f"c{number}", f"c{number}", "p", len(handles)), sku, place
            )
        )

    for number, sku in enumerate((g24, g18, g12)):
        add_vm(number, sku, number + 1, 0)
        add_vm(number, sku, 4, number // 2)
    stationary = [
        (g24, 1, 0),
        (g24, 2, 0),
        (g18, 3, 0),
        (g12, 3, 0),
        (g6, 4, 0),
        (g24, 4, 1),
        (g12, 4, 1),
    ]
    stationary += [(SKUS[LARGE], machine, 1) for machine in (1, 2, 3)]
    for number, (sku, machine, cell) in enumerate(stationary, start=3):
        add_vm(number, sku, machine, cell)
    seconds = frozenset(f"nexus_kubernetes_cluster.c{number}:c{number}-p-1" for number in range(3))
    return build_snapshot_of_pools(scheduler, pools), seconds


def test_three_vms_exchange_machines_in_a_ring() -> None:
    site, seconds = build_ring_site()
    request = RepackRequest(
        sku=SKUS["NC_G12_56_v1"], want=1, zones=frozenset({"1"}), excluded=seconds
    )
    result = plan_repack(site, request)
    steps = {
        step.source.vm.name: step.target.machine
        for window in result.windows
        for step in window.steps
    }
    assert (result.status, len(result.windows)) == (RepackStatus.OPTIMAL, 1)
    assert steps == {"c0-p-0": "r002-bm01", "c1-p-0": "r003-bm01", "c2-p-0": "r001-bm01"}
    assert replay(site, result) == 1
    one_by_one = plan_repack(site, replace(request, window=1))
    assert one_by_one.windows == ()


def test_truncated_search_reports_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repack_orders, "_MAX_EXAMINED_STATES", 20)
    site, request = build_site(409)
    result = plan_repack(site, request)
    assert result.status is RepackStatus.GAP
    facts = build_repack_report(result, "test").facts
    assert "The search of orders was cut at 9 re-creations." in facts


def test_large_site_reports_unsearched_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    site, request = build_site(409)
    monkeypatch.setattr(repack_orders, "MAX_VMS", 5)
    result = plan_repack(site, request)
    assert any(
        "Not every order was searched: the site has" in fact
        for fact in build_repack_report(result, "").facts
    )
