from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexusform.domains.whatif.questions.runtime_upgrade import (
    RequestedUpgradeOptions,
    RuntimeUpgrade,
    UpgradeOptions,
    UpgradeStrategy,
    simulate_runtime_upgrade,
)
from nexusform.placements.consequences import ConsequenceSeverity
from nexusform.plans.impact.consequence_views import list_assessed_risks
from nexusform.plans.site_capacity.occupancy import PoolOutcome
from nexusform.state.objects import State
from tests.domains.whatif.questions.failures import build_start
from tests.planning.harness import cluster, plan, pool
from tests.worlds.small_worlds import (
    build_applied_state,
    build_document_state,
    build_racks,
    get_site,
    where,
)

ALL_AT_ONCE = UpgradeOptions()


def simulate_upgrade(files: str, options: UpgradeOptions = ALL_AT_ONCE) -> RuntimeUpgrade:
    return simulate_on_state(build_applied_state(files), options)


def simulate_on_state(state: State, options: UpgradeOptions, site_id: str = "s") -> RuntimeUpgrade:
    return simulate_runtime_upgrade(build_start(state), get_site(state, site_id), options)


def read_outcomes(found: RuntimeUpgrade) -> dict[str, PoolOutcome]:
    return {f"{v.worst.cluster}/{v.worst.pool}": v.outcome for v in found.pools}


# --- example of the document ----------------------------------------------------------------------


def test_document_is_upgraded_by_rack_and_keeps_every_quorum() -> None:
    found = simulate_on_state(build_document_state("nearly-full"), ALL_AT_ONCE, "lab")
    assert [(w.rack, len(w.outage.machines)) for w in found.waves] == [
        (f"rack{n}", 16) for n in range(1, 9)
    ]
    assert not found.has_findings
    assert found.hours == 20
    fewest = {f"{v.worst.cluster}/{v.worst.pool}": v.worst.remaining_count for v in found.pools}
    # Each rack runs three of cluster A's 24 workers and six of B's 48; racks 1 and 4 run six
    # of C's 12.
    assert fewest["cluster-a/pool1"] == 21
    assert fewest["cluster-b/pool1"] == 42
    assert fewest["cluster-c/pool1"] == 6
    assert fewest["cluster-d/pool1"] == 12
    assert (fewest["cluster-a/control-plane"], fewest["cluster-b/control-plane"]) == (2, 4)
    hit = {
        v.worst.cluster: tuple(outage.number for outage in v.outages)
        for v in found.pools
        if v.worst.pool == "pool1"
    }
    assert (hit["cluster-c"], hit["cluster-d"]) == ((1, 4), (7, 8))


# --- quorum --------------------------------------------------------------------------------------


def test_control_plane_of_three_on_three_racks_keeps_its_quorum() -> None:
    found = simulate_upgrade(build_racks(2, 2, 2) + cluster("a", count=3))
    [verdict] = found.pools
    assert (verdict.outcome, verdict.worst.remaining_count) == (PoolOutcome.KEPT, 2)
    assert verdict.worst.quorum == 2
    assert not found.has_findings


def test_control_plane_of_three_on_two_racks_loses_quorum_once() -> None:
    found = simulate_upgrade(build_racks(2, 2) + cluster("a", count=3))
    [verdict] = found.pools
    assert (verdict.outcome, verdict.worst.remaining_count) == (PoolOutcome.LOST, 1)
    [wave] = [w for w in found.waves if w.is_lost]
    assert verdict.losses == (wave.outage,)
    assert found.has_findings
    # The assessment of the hypothetical plan says so.
    [risk] = list_assessed_risks(found.plan.impact)
    assert (risk.risk, risk.severity) == (
        "control-plane-quorum-lost",
        ConsequenceSeverity.TEMPORARY,
    )
    assert (risk.before, risk.after) == (3, 1)
    assert risk.text == (
        f"a loses etcd quorum: 2 of 3 control-plane VMs down at once ({wave.rack})"
    )


def test_fewer_machines_at_once_keep_quorum() -> None:
    files = build_racks(2, 2) + cluster("a", count=3)
    found = simulate_upgrade(files, UpgradeOptions(max_unavailable=1))
    assert [(w.rack, w.batch, w.batches) for w in found.waves] == [
        ("r1", 1, 2), ("r1", 2, 2), ("r2", 1, 2), ("r2", 2, 2),
    ]  # fmt: skip
    assert not found.has_findings


def test_control_plane_of_one_or_two_cannot_keep_quorum() -> None:
    for count in (1, 2):
        assert (
            read_outcomes(simulate_upgrade(build_racks(2, 2) + cluster("a", count=count)))[
                "a/control-plane"
            ]
            is PoolOutcome.LOST
        )


def test_pool_of_one_node_is_lost_and_plain_vm_is_interrupted() -> None:
    vm = """
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  name       = "v"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 40
}
"""
    found = simulate_upgrade(
        build_racks(2, 2, 2) + cluster("a", count=3, pools=pool("one", 1) + pool("none", 0)) + vm
    )
    assert read_outcomes(found) == {
        "a/control-plane": PoolOutcome.KEPT,
        "a/one": PoolOutcome.LOST,
        "v/vm": PoolOutcome.INTERRUPTED,
    }


# --- order ---------------------------------------------------------------------------------------


def read_rack_order(*names: str) -> tuple[list[str], tuple[str, ...]]:
    text = 'resource "nexus_site" "s" {}\n' + "".join(
        (
            f'resource "nexus_rack" "{n}" {{\n site_id = nexus_site.s.id\n name = "{n}"\n '
            f"machine_count = 1\n}}\n"
        )
        for n in names
    )
    found = simulate_upgrade(text)
    return [w.rack for w in found.waves], found.unexpected_order


def test_racks_are_in_byte_order_and_unexpected_order_is_named() -> None:
    assert read_rack_order("r1", "r2", "r10") == (["r1", "r10", "r2"], ("r10", "r2"))
    assert read_rack_order("r01", "r02", "r10") == (["r01", "r02", "r10"], ())
    assert read_rack_order("B1", "a1") == (["B1", "a1"], ())


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.integers(0, 5), max_size=3),
    st.one_of(st.none(), st.integers(1, 5)),
)
def test_every_vm_is_down_once_and_waves_stay_in_their_rack(
    machines: list[int], pools: list[int], at_once: int | None
) -> None:
    blocks = "".join(pool(f"p{k}", count) for k, count in enumerate(pools))
    files = build_racks(*machines) + cluster("a", pools=blocks)
    if plan(files).plan.errored:
        return
    state = build_applied_state(files)
    site = get_site(state)
    found = simulate_on_state(state, UpgradeOptions(max_unavailable=at_once))
    outages = found.plan.outages
    down = [vm.name for outage in outages for pool in outage.pools for vm in pool.down_vms]
    assert sorted(down) == sorted(where(site))
    assert [m for outage in outages for m in outage.machines] == list(site.machines)
    for wave in found.waves:
        assert {site.machines[m].rack for m in wave.outage.machines} == {wave.rack}
        assert len(wave.outage.machines) <= (at_once or 4)
    for verdict in found.pools:
        assert verdict.worst.remaining_count < verdict.worst.total
        assert (verdict.outcome is PoolOutcome.LOST) == bool(verdict.losses)


SITE_WITH_STRATEGY = """
resource "nexus_site" "s" {
  update_strategy {
    type              = "PauseAfterRack"
    max_unavailable   = 1
    threshold_type    = "CountSuccess"
    threshold_value   = 3
    wait_time_minutes = 90
  }
}
resource "nexus_rack" "r" {
  count         = 3
  site_id       = nexus_site.s.id
  name          = "r${count.index}"
  machine_count = 4
}
"""


def test_flags_override_settings_of_site() -> None:
    state = build_applied_state(SITE_WITH_STRATEGY)
    site = get_site(state)
    own = RequestedUpgradeOptions().resolve_for_site(site)
    assert (own.strategy, own.max_unavailable, own.wait_minutes) == (
        UpgradeStrategy.PAUSE_AFTER_RACK,
        1,
        90,
    )
    assert own.compute_max_failed(4) == 1
    found = simulate_on_state(state, own)
    assert len(found.waves) == 12
    assert found.hours == 4 + 3 * 2 + 3, "two pauses of an hour and a half"
    asked = RequestedUpgradeOptions(UpgradeStrategy.RACK, 4).resolve_for_site(site)
    assert (asked.strategy, asked.max_unavailable) == (UpgradeStrategy.RACK, 4)
    assert asked.compute_max_failed(4) == 1
