import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.configuration.declarations.limits import PlanSizeLimits
from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.whatif.questions.failure_simulation import (
    Failure,
    FailureScope,
    simulate_cluster_loss,
    simulate_machine_failure,
    simulate_site_loss,
)
from nexusform.domains.whatif.rendering.failure_report import build_failure_summary
from nexusform.domains.whatif.rendering.map_playbacks import build_failure_playback
from nexusform.planning.hypothesis.start_points import StartPoint
from nexusform.rendering.report.loss_sections import build_deletion_command
from nexusform.state.objects import State
from tests.domains.whatif.questions.failures import (
    build_start,
    simulate_loss,
    simulate_rack_failure,
)
from tests.planning.harness import cluster, list_rows, plan, pool
from tests.worlds.small_worlds import (
    build_applied_state,
    build_document_state,
    build_racks,
    get_site,
)


def lose_machine(state: State, machine: str) -> Failure:
    return simulate_loss(state, [machine])


def read_targets(found: Failure) -> dict[str, str | None]:
    return {
        each.vm.name: each.placement.machine if each.placement else None
        for p in found.recreations
        for each in p.vms
    }


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(["NC_G24_112_v1", "NC_P46_224_v1", "NC_G12_56_v1"]), st.integers(1, 4)
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_nodes_return_to_same_machines_as_in_evacuation_plan(
    machines: list[int], pools: list[tuple[str, int]]
) -> None:
    blocks = "".join(pool(f"p{k}", count, sku) for k, (sku, count) in enumerate(pools))
    files = build_racks(*machines) + cluster("a", pools=blocks) + cluster("b", count=2)
    if plan(files).plan.errored:
        return
    state = build_applied_state(files)
    found = lose_machine(state, "r1-bm01")
    evacuating = (
        f'machine_count     = {machines[0]}\n  machine_override "r1-bm01" {{\n evacuate = true\n }}'
    )
    result = plan(files.replace(f"machine_count     = {machines[0]}", evacuating, 1), state)
    assert bool(found.missing) == result.plan.errored
    if not found.missing:
        assert read_targets(found) == {
            n: row.target.machine for n, row in list_rows(result).items() if row.target
        }


def test_loss_of_rack_7_of_the_document() -> None:
    found = simulate_rack_failure(build_document_state("nearly-full"), "rack7", "lab")
    left = {f"{p.cluster}/{p.pool}": (p.remaining_count, p.total) for p in found.pools}
    assert left["cluster-a/pool1"] == (21, 24)
    assert left["cluster-d/pool1"] == (12, 24)
    assert not any(p.is_lost for p in found.pools)
    # D's extra-large pool is pinned to racks 7 and 8, and rack 8 has no free cell.
    missing = {f"{p.cluster}/{p.pool}": p.missing for p in found.recreations if p.missing}
    assert missing == {"cluster-d/pool1": 12}
    assert found.has_findings


def test_command_names_machines_of_each_cluster() -> None:
    state = build_applied_state(
        build_racks(2, 2, 2) + cluster("a", count=3) + cluster("b", count=3)
    )
    one = lose_machine(state, get_site(state).clusters[0].pools[0].vms[0].placement.machine)
    [first, *_] = one.deletions
    assert build_deletion_command(first) == (
        f"kubectl --context={first.cluster} delete node -l "
        f"topology.kubernetes.io/baremetalmachine={one.machines[0]}"
    )
    rack = simulate_rack_failure(
        build_applied_state(build_racks(2, 2) + cluster("a", count=3, pools=pool("p", 4))), "r1"
    )
    [deletion] = rack.deletions
    assert build_deletion_command(deletion).endswith(
        "-l 'topology.kubernetes.io/baremetalmachine in (r1-bm01,r1-bm02)'"
    )


def test_control_plane_without_quorum_is_unreachable() -> None:
    state = build_applied_state(build_racks(2) + cluster("a", count=1, pools=pool("p", 2)))
    [plane] = [p for p in get_site(state).clusters[0].pools if p.is_control_plane]
    found = lose_machine(state, plane.vms[0].placement.machine)
    [deletion] = found.deletions
    assert not deletion.is_reachable
    assert found.has_findings


def test_lost_plain_vm_is_no_finding() -> None:
    vm = """
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  name       = "v"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 40
}
"""
    state = build_applied_state(build_racks(1, 1) + vm)
    found, other = (lose_machine(state, name) for name in ("r1-bm01", "r2-bm01"))
    [hit] = [f for f in (found, other) if f.pools]
    assert [str(p.address) for p in hit.stay_down] == ["nexus_virtual_machine.v"]
    figures = build_failure_playback(get_site(state), hit).steps[1].figures
    assert len(figures) == len(hit.pools) == len(set(figures)), "each pool is on the map once"
    assert (hit.recreations, hit.deletions, hit.has_findings) == ((), (), False)


def test_lost_cluster_or_site_loses_all_its_vms() -> None:
    state = build_applied_state(build_racks(3) + cluster("a", pools=pool("p", 2)) + cluster("b"))
    site = get_site(state)
    start = build_start(state)
    assert simulate_cluster_loss(start, site, site.clusters[0]).vm_count == 3
    assert simulate_site_loss(start, site).vm_count == 4
    assert simulate_site_loss(start, site).has_findings


def test_state_that_cannot_be_planned_is_an_error_and_no_empty_answer() -> None:
    state = build_applied_state(build_racks(2) + cluster("a", count=3))
    start = build_start(state)
    limited = StartPoint(replace(start.request, limits=PlanSizeLimits(vms=1)))
    with pytest.raises(DiagnosticsError, match="more than 1 VMs"):
        simulate_machine_failure(limited, get_site(state), FailureScope.MACHINE, "m", ["r1-bm01"])


@pytest.mark.parametrize("racks", [(2,), (2, 2)])
def test_lost_quorum_is_one_risk_of_the_plan_with_and_without_capacity(
    racks: tuple[int, ...],
) -> None:
    state = build_applied_state(build_racks(*racks) + cluster("a", count=3))
    site = get_site(state)
    hosts = {vm.placement.machine for vm in site.pools[0].vms}
    found = simulate_loss(state, sorted(hosts), lost="s/hosts")
    assert bool(found.missing) is (len(hosts) == len(site.machines))
    [risk] = found.risks
    assert (risk.risk, risk.before, risk.after) == ("control-plane-quorum-lost", 3, 0)
    assert risk.text in build_failure_summary(found)
