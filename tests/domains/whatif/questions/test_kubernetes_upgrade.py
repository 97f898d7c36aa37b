import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexusform.domains.whatif.questions.kubernetes_upgrade import (
    KubernetesUpgrade,
    simulate_kubernetes_upgrade,
)
from nexusform.state.objects import State
from tests.domains.whatif.questions.failures import build_start
from tests.planning.harness import agent_pool, cluster, list_rows, plan, pool
from tests.worlds.small_worlds import (
    build_applied_state,
    build_document_state,
    build_racks,
    get_site,
)

OLD = 'kubernetes_version = "1.29"'
NEW = 'kubernetes_version = "1.30"'


def simulate_upgrade(state: State, name: str = "a", site_id: str = "s") -> KubernetesUpgrade:
    site = get_site(state, site_id)
    [found] = [candidate for candidate in site.clusters if candidate.name == name]
    return simulate_kubernetes_upgrade(build_start(state), site, found)


def build_settings_block(surge: str, unavailable: str = "0") -> str:
    return f'upgrade_settings {{\n max_surge = "{surge}"\n max_unavailable = "{unavailable}"\n }}'


def read_moves(found: KubernetesUpgrade) -> dict[str, str | None]:
    return {
        m.vm.name: m.placement.machine if m.placement is not None else None
        for p in found.pools
        for b in p.batches
        for m in b.moves
    }


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(["NC_G24_112_v1", "NC_P46_224_v1", "NC_G12_56_v1"]),
            st.integers(1, 4),
            st.sampled_from(["1", "2", "50%", "0"]),
        ),
        min_size=1,
        max_size=2,
    ),
    st.integers(0, 2),
)
def test_upgrade_equals_plan_with_new_version(
    machines: list[int], pools: list[tuple[str, int, str]], more: int
) -> None:
    blocks = "".join(
        pool(f"p{k}", n, sku, build_settings_block(s, "1")) for k, (sku, n, s) in enumerate(pools)
    )
    separate = agent_pool("x", "nexus_kubernetes_cluster.a.id", more)
    files = build_racks(*machines) + cluster("a", arguments=OLD, pools=blocks, count=2) + separate
    if plan(files).plan.errored:
        return
    state = build_applied_state(files)
    found = simulate_upgrade(state)
    result = plan(files.replace(OLD, NEW), state)
    assert bool(found.blocked_pools) == result.plan.errored
    if not found.blocked_pools:
        assert read_moves(found) == {
            name: row.target.machine for name, row in list_rows(result).items() if row.target
        }


def test_pinned_pool_of_cluster_d_blocks_and_upgrades_in_place() -> None:
    state = build_document_state("nearly-full")
    found = simulate_upgrade(state, "cluster-d", "lab")
    [blocked] = found.blocked_pools
    assert (blocked.course.pool, blocked.batches[-1].number, blocked.fitting_surge) == (
        "pool1",
        1,
        0,
    )
    assert blocked.fits_in_place
    assert "(zones: 7, 8)" in blocked.course.reason
    assert found.has_findings
    assert not simulate_upgrade(state, "cluster-b", "lab").has_findings


def test_pool_after_a_blocked_one_continues_as_in_a_plan() -> None:
    """One cell is free: it holds the first new node of the batch, and then a node of `q`."""
    settings = build_settings_block("2")
    pools = pool("p", 2, "NC_P46_224_v1", settings) + pool("q", 2, "NC_P46_224_v1")
    files = build_racks(3) + cluster("a", arguments=OLD, pools=pools)
    _, first, second = simulate_upgrade(build_applied_state(files)).pools
    assert first.is_blocked
    assert [move.placement is None for move in first.batches[0].moves] == [False, True]
    assert not second.is_blocked
    planned = plan(files.replace(OLD, NEW), build_applied_state(files))
    assert {shortage.pool.pool for shortage in planned.unplaced} == {"p"}


def test_smaller_fitting_surge_is_found() -> None:
    files = build_racks(3) + cluster(
        "a", pools=pool("p", 3, "NC_P46_224_v1", build_settings_block("3"))
    )
    [_, p] = simulate_upgrade(build_applied_state(files)).pools
    assert (p.is_blocked, p.fitting_surge, p.fits_in_place) == (True, 2, True)
    assert p.batches[-1].moves[-1].placement is None


def test_batch_is_down_without_surge() -> None:
    files = build_racks(3) + cluster("a", pools=pool("p", 5, more=build_settings_block("0", "40%")))
    [_, p] = simulate_upgrade(build_applied_state(files)).pools
    assert (p.surge, p.unavailable, p.course.minimum_up, p.course.batches) == (0, 2, 3, 3)


@pytest.mark.parametrize(("count", "lost"), [(1, True), (2, False)])
def test_pool_down_completely_is_lost(count: int, lost: bool) -> None:
    files = build_racks(3) + cluster(
        "a", pools=pool("p", count, more=build_settings_block("0", "1"))
    )
    found = simulate_upgrade(build_applied_state(files))
    assert found.has_findings is lost
    assert not found.blocked_pools


def test_control_plane_needs_one_free_machine() -> None:
    files = build_racks(1) + cluster("a", plane="NC_G48_224_v1", count=2)
    found = simulate_upgrade(build_applied_state(files))
    [plane] = found.blocked_pools
    assert (plane.course.is_control_plane, plane.fitting_surge, plane.fits_in_place) == (
        True,
        0,
        False,
    )
