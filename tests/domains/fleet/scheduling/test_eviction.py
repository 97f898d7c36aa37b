"""Tests of evictions under a disruption budget: executed, or rejected with KubeFleet's reason."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling import eviction
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.fleet.scheduling.eviction import (
    EvictionTarget,
    PlacementDisruptionBudget,
    evaluate_eviction,
)
from nexusform.kubernetes.quantity import IntegerOrPercent
from tests.domains.fleet.scheduling.samples import (
    ALL,
    BOUND,
    FIXED,
    SCHEDULED,
    UNSCHEDULED,
    N,
    build_bound,
    build_pick_n,
    fleet,
    list_held_clusters,
    schedule,
)

THREE = tuple(build_bound("a", "b", "c"))
UP = frozenset("abc")


def build_target(**fields: object) -> EvictionTarget:
    return replace(EvictionTarget(N, THREE, 3, UP), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cluster", "asked", "message"),
    [
        ("a", None, eviction.MISSING_PLACEMENT),
        ("a", build_target(is_deleting=True), eviction.DELETING_PLACEMENT),
        ("a", build_target(placement_type=FIXED), eviction.PICK_FIXED),
        ("z", build_target(), eviction.NO_BINDING),
        ("a", build_target(bindings=(*THREE, THREE[0])), eviction.MANY_BINDINGS),
    ],
)
def test_invalid_eviction(cluster: str, asked: EvictionTarget | None, message: str) -> None:
    outcome = evaluate_eviction(cluster, asked, None)
    assert (outcome.is_valid, outcome.is_executed, outcome.message) == (False, False, message)


@pytest.mark.parametrize(
    ("binding", "executed", "message"),
    [
        (Binding("a", BOUND, 0), True, eviction.NO_BUDGET),
        (Binding("a", SCHEDULED, 0), False, eviction.NOTHING_PLACED),
        (Binding("a", UNSCHEDULED, 0, previous_state=SCHEDULED), False, eviction.NOTHING_PLACED),
        (Binding("a", UNSCHEDULED, 0, previous_state=BOUND), True, eviction.NO_BUDGET),
        (Binding("a", SCHEDULED, 0, is_deleting=True), True, eviction.BEING_REMOVED),
    ],
)
def test_eviction_by_binding_state(binding: Binding, executed: bool, message: str) -> None:
    outcome = evaluate_eviction("a", build_target(bindings=(binding,)), None)
    assert (outcome.is_valid, outcome.is_executed, outcome.message) == (True, executed, message)


def test_failed_binding_is_evicted_regardless_of_budget() -> None:
    outcome = evaluate_eviction(
        "a",
        build_target(failed_clusters=frozenset("a")),
        PlacementDisruptionBudget(min_available=IntegerOrPercent(3)),
    )
    assert (outcome.is_executed, outcome.message) == (True, eviction.FAILED)


@pytest.mark.parametrize(
    ("budget", "available", "executed"),
    [
        (PlacementDisruptionBudget(max_unavailable=IntegerOrPercent(1)), "abc", True),
        (PlacementDisruptionBudget(max_unavailable=IntegerOrPercent(1)), "ab", False),
        (PlacementDisruptionBudget(max_unavailable=IntegerOrPercent(2)), "ab", True),
        (PlacementDisruptionBudget(max_unavailable=IntegerOrPercent(0)), "abc", False),
        (PlacementDisruptionBudget(max_unavailable=IntegerOrPercent(1, True)), "abc", True),
        (PlacementDisruptionBudget(max_unavailable=IntegerOrPercent(34, True)), "ab", True),
        (PlacementDisruptionBudget(min_available=IntegerOrPercent(2)), "abc", True),
        (PlacementDisruptionBudget(min_available=IntegerOrPercent(3)), "abc", False),
        (PlacementDisruptionBudget(min_available=IntegerOrPercent(67, True)), "abc", False),
        (PlacementDisruptionBudget(min_available=IntegerOrPercent(66, True)), "abc", True),
        (PlacementDisruptionBudget(min_available=IntegerOrPercent(0)), "", False),
    ],
)
def test_budget_allows_or_blocks_eviction(
    budget: PlacementDisruptionBudget, available: str, executed: bool
) -> None:
    outcome = evaluate_eviction("a", build_target(available_clusters=frozenset(available)), budget)
    assert outcome.is_executed is executed
    word = "allowed" if executed else "blocked"
    assert outcome.message == (
        f"Eviction is {word} by specified ClusterResourcePlacementDisruptionBudget,"
        f" availablePlacements: {len(available)}, totalPlacements: 3"
    )


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (PlacementDisruptionBudget(max_unavailable=IntegerOrPercent(3)), eviction.MISCONFIGURED),
        (
            PlacementDisruptionBudget(min_available=IntegerOrPercent(1, True)),
            eviction.MISCONFIGURED,
        ),
        (
            PlacementDisruptionBudget(min_available=IntegerOrPercent(3)),
            "Eviction is blocked by specified",
        ),
        (
            PlacementDisruptionBudget(min_available=IntegerOrPercent(2)),
            "Eviction is allowed by specified",
        ),
    ],
)
def test_pick_all_accepts_only_integer_min_available(
    budget: PlacementDisruptionBudget, message: str
) -> None:
    assert evaluate_eviction(
        "a", build_target(placement_type=ALL, number=None), budget
    ).message.startswith(message)


def test_evicted_cluster_is_picked_again() -> None:
    outcome = evaluate_eviction("c", build_target(), None)
    after = eviction.apply_eviction(outcome, THREE)
    assert [b.is_deleting for b in after] == [False, False, True]
    result = schedule(
        fleet("a", "b", "c", "d"), build_pick_n(3), [b for b in after if b.cluster != "d"]
    )
    assert list_held_clusters(result) == ["a", "b", "d"]
    assert list_held_clusters(schedule(fleet("a", "b", "c"), build_pick_n(3), after)) == [
        "a",
        "b",
        "c",
    ]
    refused = replace(outcome, is_executed=False)
    assert eviction.apply_eviction(refused, THREE) == THREE
