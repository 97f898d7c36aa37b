"""Orders of re-creations: what the program alone cannot order is found, and ends as predicted."""

from __future__ import annotations

import pytest

from nexusform.domains.whatif.questions import repack_orders
from nexusform.domains.whatif.questions.repack_context import RepackRequest, build_pool_demand, build_repack_context
from nexusform.domains.whatif.questions.repack_orders import search_orders
from nexusform.domains.whatif.questions.repack_planning import RepackResult, RepackStatus, plan_repack
from nexusform.domains.whatif.questions.repack_windows import exclude_machines
from nexusform.domains.whatif.rendering.repack_report import build_repack_document, build_repack_report
from nexusform.snapshots.snapshot import SiteSnapshot
from tests.domains.whatif.questions.repack_sites import LARGE, SKUS, site_with_history

pytest.importorskip("highspy")

# Seeds of sites on which the steps of the program's choice have only few valid orders.
NARROW = (131, 324, 352, 355, 388, 479, 495)


def build_site(seed: int) -> tuple[SiteSnapshot, RepackRequest]:
    site = site_with_history(seed, 2 + seed % 2, 1 + seed % 3, filled=0.65 + 0.03 * (seed % 9), zoned=0.3)
    return site, RepackRequest(sku=SKUS[LARGE], want=1 + seed % 3)


def replay(site: SiteSnapshot, result: RepackResult) -> int:
    """Re-create the VMs with all machines but the target cordoned; return how many requested VMs fit then."""
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
def test_an_order_is_found_and_ends_as_predicted(seed: int) -> None:
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
    orders = search_orders(build_repack_context(site, request), request, 1, min(result.recreations, 3) - 1)
    assert (orders.sequence, orders.cut_at) == (None, None)


def test_a_search_that_was_cut_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repack_orders, "_MAX_SITES", 20)
    site, request = build_site(409)
    result = plan_repack(site, request)
    assert result.status is RepackStatus.GAP
    facts = build_repack_report(result, "test").facts
    assert "The search of orders was cut at 9 re-creations." in facts
    assert build_repack_document(result)["orders_cut_at"] == 9


def test_a_large_site_says_that_orders_were_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    site, request = build_site(409)
    monkeypatch.setattr(repack_orders, "MAX_VMS", 5)
    result = plan_repack(site, request)
    assert any("Not every order was searched: the site has" in fact for fact in build_repack_report(result, "").facts)
    assert build_repack_document(result)["orders_searched"] is None
