"""Tests of waves of a rolling update: budgets, order, waits, blocked rollouts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Binding, Policy
from nexusform.domains.fleet.scheduling.rolling_update import (
    Readiness,
    RollingUpdate,
    RolloutWave,
    WaveBudget,
    compute_rollout_budget,
    compute_rollout_target,
    simulate_rollout,
)
from nexusform.kubernetes.quantity import IntegerOrPercent, parse_int_or_percent
from tests.domains.fleet.scheduling.samples import (
    ALL,
    BOUND,
    FIXED,
    SCHEDULED,
    UNSCHEDULED,
    build_bound,
    build_pick_n,
)

ONE_AT_A_TIME = RollingUpdate(IntegerOrPercent(1), IntegerOrPercent(1), 0)


def build_scheduled(*names: str) -> list[Binding]:
    return [Binding(name, SCHEDULED, 0, 0, 0) for name in names]


def build_unscheduled(*names: str) -> list[Binding]:
    return [Binding(name, UNSCHEDULED, 0, 0, 0, BOUND, 0) for name in names]


@pytest.mark.parametrize(
    ("written", "total", "up", "down"),
    [
        ("25%", 4, 1, 1),
        ("25%", 5, 2, 1),
        ("25%", 1, 1, 0),
        ("0%", 9, 0, 0),
        ("100%", 3, 3, 3),
        (2, 9, 2, 2),
        ("3", 9, 3, 3),
    ],
)
def test_valid_amounts(written: str | int, total: int, up: int, down: int) -> None:
    amount = parse_int_or_percent(written)
    assert isinstance(amount, IntegerOrPercent)
    assert (amount.compute(total), amount.compute(total, rounds_up=False)) == (up, down)


@pytest.mark.parametrize("written", ["", "a", "25 %", "2.5", "%"])
def test_invalid_amounts(written: str) -> None:
    assert isinstance(parse_int_or_percent(written), str)


def test_wave_budget() -> None:
    assert compute_rollout_budget(RollingUpdate(), 10, ready=10, can_be_ready=10) == WaveBudget(
        3, 3
    )
    assert compute_rollout_budget(RollingUpdate(), 10, ready=7, can_be_ready=12) == WaveBudget(0, 1)
    assert compute_rollout_budget(
        RollingUpdate(IntegerOrPercent(0), IntegerOrPercent(0)), 3, ready=3, can_be_ready=3
    ) == WaveBudget(0, 0)


def test_rollout_target() -> None:
    mixed = [*build_bound("a", "b"), *build_scheduled("c"), *build_unscheduled("d")]
    assert compute_rollout_target(Policy(), None, mixed) == 3
    assert compute_rollout_target(Policy(ALL), None, mixed) == 3
    assert compute_rollout_target(Policy(FIXED, cluster_names=("a", "z")), None, mixed) == 2
    assert compute_rollout_target(build_pick_n(7), 7, mixed) == 7


def test_new_placement_is_bound_within_target_and_surge() -> None:
    rollout = simulate_rollout(build_scheduled(*"abcdefgh"), RollingUpdate(), 8, 0)
    assert rollout.waves == (RolloutWave((), (), tuple("abcdefgh")),)
    assert all(b.state is BOUND and b.resource_snapshot == 0 for b in rollout.bindings)
    assert not rollout.blocked_clusters


def test_new_resources_are_rolled_out_a_quarter_at_a_time() -> None:
    rollout = simulate_rollout(build_bound(*"abcdefgh"), RollingUpdate(), 8, 1)
    assert [wave.updated_clusters for wave in rollout.waves] == [
        ("a", "b"),
        ("c", "d"),
        ("e", "f"),
        ("g", "h"),
    ]
    assert {b.resource_snapshot for b in rollout.bindings} == {1}


def test_replaced_cluster_is_deleted_after_binding_of_new_one() -> None:
    rollout = simulate_rollout(
        [*build_bound("a", "b"), *build_unscheduled("c"), *build_scheduled("d")],
        ONE_AT_A_TIME,
        3,
        0,
    )
    assert rollout.waves == (RolloutWave(("c",), (), ("d",)),)
    assert [b.cluster for b in rollout.bindings] == ["a", "b", "d"]


def test_unscheduled_bindings_use_surge_until_deletion() -> None:
    strategy = RollingUpdate(IntegerOrPercent(0), IntegerOrPercent(1), 0)
    rollout = simulate_rollout(
        [*build_unscheduled("a", "b"), *build_scheduled("c", "d")], strategy, 2, 0
    )
    assert rollout.waves == (
        RolloutWave((), (), ("c",)),
        RolloutWave(("a",), (), ()),
        RolloutWave((), (), ("d",)),
        RolloutWave(("b",), (), ()),
    )


def test_zero_unavailable_blocks_updates_in_place() -> None:
    rollout = simulate_rollout(
        build_bound("a", "b"), RollingUpdate(IntegerOrPercent(0), IntegerOrPercent(1)), 2, 1
    )
    assert rollout.waves == ()
    assert rollout.blocked_clusters == ("a", "b")


def test_zero_surge_and_unavailable_block_a_replacement() -> None:
    rollout = simulate_rollout(
        [*build_bound("a"), *build_unscheduled("b"), *build_scheduled("c")],
        RollingUpdate(IntegerOrPercent(0), IntegerOrPercent(0)),
        2,
        0,
    )
    assert rollout.blocked_clusters == ("b", "c")
    assert rollout.blocked_clusters
    assert [b.state for b in rollout.bindings] == [BOUND, UNSCHEDULED, SCHEDULED]


def test_never_ready_cluster_blocks_the_rest() -> None:
    rollout = simulate_rollout(
        build_bound("a", "b", "c"),
        ONE_AT_A_TIME,
        3,
        1,
        Readiness(never_ready_clusters=frozenset("b")),
    )
    assert [wave.updated_clusters for wave in rollout.waves] == [("a",), ("b",)]
    assert rollout.blocked_clusters == ("c",)
    late = simulate_rollout(
        build_bound("a", "b", "c"), ONE_AT_A_TIME, 3, 1, Readiness(unready_clusters=frozenset("a"))
    )
    assert late.waves == ()


def test_failed_bindings_are_updated_outside_the_budget() -> None:
    rollout = simulate_rollout(
        build_bound("a", "b"),
        RollingUpdate(IntegerOrPercent(0), IntegerOrPercent(0)),
        2,
        1,
        Readiness(failed_clusters=frozenset("a")),
    )
    assert [wave.updated_clusters for wave in rollout.waves] == [("a",)]
    assert rollout.blocked_clusters == ("b",)
    freed = simulate_rollout(
        build_bound("a", "b"), ONE_AT_A_TIME, 2, 1, Readiness(failed_clusters=frozenset("a"))
    )
    assert [wave.updated_clusters for wave in freed.waves] == [("a",), ("b",)]


def test_readiness_of_waiting_clusters_is_a_condition() -> None:
    bindings = [*build_bound("a"), *build_bound("b", "c")]
    waits = Readiness(waiting_clusters=frozenset("a"))
    held = simulate_rollout(bindings, ONE_AT_A_TIME, 3, 1, waits)
    assert held.waves == ()
    assert (held.blocked_clusters, held.conditional_clusters) == (("a", "b", "c"), {*"abc"})
    # A hub counts a failed one as updated outside of the budget, and waits for it after that.
    failed = replace(waits, failed_clusters=frozenset("a"))
    updated = simulate_rollout(bindings, ONE_AT_A_TIME, 3, 1, failed)
    assert [wave.clusters for wave in updated.waves] == [("a",)]
    assert updated.conditional_clusters == {*"bc"}
    # Blocked with all clusters ready: no condition.
    nothing = RollingUpdate(IntegerOrPercent(0), IntegerOrPercent(0))
    assert not simulate_rollout(bindings, nothing, 3, 1, waits).conditional_clusters


def test_clusters_that_only_report_leave_room_for_others() -> None:
    strategy = RollingUpdate(IntegerOrPercent(0), IntegerOrPercent(0))
    bindings = [*build_bound("a"), *build_scheduled("b")]
    assert simulate_rollout(bindings, strategy, 1, 0).blocked_clusters == ("b",)
    reports = Readiness(reporting_clusters=frozenset("a"))
    assert not simulate_rollout(bindings, strategy, 1, 0, reports).blocked_clusters


def test_unavailable_period_applies_only_to_untracked_resources() -> None:
    assert [
        w.wait_seconds for w in simulate_rollout(build_scheduled("a"), RollingUpdate(), 1, 0).waves
    ] == [0]
    blind = Readiness(is_trackable=False)
    assert [
        w.wait_seconds
        for w in simulate_rollout(build_scheduled("a"), RollingUpdate(), 1, 0, blind).waves
    ] == [60]


def test_changed_overrides_update_in_place() -> None:
    rollout = simulate_rollout(
        build_bound("a", "b"), ONE_AT_A_TIME, 2, 0, Readiness(outdated_clusters=frozenset("b"))
    )
    assert [wave.updated_clusters for wave in rollout.waves] == [("b",)]


def test_finished_rollout_has_no_waves() -> None:
    assert simulate_rollout(build_bound("a", "b"), RollingUpdate(), 2, 0).waves == ()
