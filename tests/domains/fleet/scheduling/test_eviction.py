"""Evictions under a disruption budget: executed, or refused with KubeFleet's reason."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling import eviction
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.fleet.scheduling.eviction import DisruptionBudget, EvictionTarget, evaluate_eviction
from nexusform.kubernetes.quantity import IntegerOrPercent
from tests.domains.fleet.scheduling.samples import (
    ALL,
    BOUND,
    FIXED,
    SCHEDULED,
    UNSCHEDULED,
    N,
    bound,
    fleet,
    held,
    pick,
    place,
)

THREE = tuple(bound("a", "b", "c"))
UP = frozenset("abc")


def target(**fields: object) -> EvictionTarget:
    return replace(EvictionTarget(N, THREE, 3, UP), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cluster", "asked", "message"),
    [
        ("a", None, eviction.MISSING_PLACEMENT),
        ("a", target(is_deleting=True), eviction.DELETING_PLACEMENT),
        ("a", target(placement_type=FIXED), eviction.PICK_FIXED),
        ("z", target(), eviction.NO_BINDING),
        ("a", target(bindings=(*THREE, THREE[0])), eviction.MANY_BINDINGS),
    ],
)
def test_invalid(cluster: str, asked: EvictionTarget | None, message: str) -> None:
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
def test_what_is_placed(binding: Binding, executed: bool, message: str) -> None:
    outcome = evaluate_eviction("a", target(bindings=(binding,)), None)
    assert (outcome.is_valid, outcome.is_executed, outcome.message) == (True, executed, message)


def test_failed_binding_is_evicted_regardless_of_budget() -> None:
    outcome = evaluate_eviction(
        "a", target(failed_clusters=frozenset("a")), DisruptionBudget(min_available=IntegerOrPercent(3))
    )
    assert (outcome.is_executed, outcome.message) == (True, eviction.FAILED)


@pytest.mark.parametrize(
    ("budget", "available", "executed"),
    [
        (DisruptionBudget(max_unavailable=IntegerOrPercent(1)), "abc", True),
        (DisruptionBudget(max_unavailable=IntegerOrPercent(1)), "ab", False),
        (DisruptionBudget(max_unavailable=IntegerOrPercent(2)), "ab", True),
        (DisruptionBudget(max_unavailable=IntegerOrPercent(0)), "abc", False),
        (DisruptionBudget(max_unavailable=IntegerOrPercent(1, True)), "abc", True),
        (DisruptionBudget(max_unavailable=IntegerOrPercent(34, True)), "ab", True),
        (DisruptionBudget(min_available=IntegerOrPercent(2)), "abc", True),
        (DisruptionBudget(min_available=IntegerOrPercent(3)), "abc", False),
        (DisruptionBudget(min_available=IntegerOrPercent(67, True)), "abc", False),
        (DisruptionBudget(min_available=IntegerOrPercent(66, True)), "abc", True),
        (DisruptionBudget(min_available=IntegerOrPercent(0)), "", False),
    ],
)
def test_budget(budget: DisruptionBudget, available: str, executed: bool) -> None:
    outcome = evaluate_eviction("a", target(available_clusters=frozenset(available)), budget)
    assert outcome.is_executed is executed
    word = "allowed" if executed else "blocked"
    assert outcome.message == (
        f"Eviction is {word} by specified ClusterResourcePlacementDisruptionBudget,"
        f" availablePlacements: {len(available)}, totalPlacements: 3"
    )


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (DisruptionBudget(max_unavailable=IntegerOrPercent(3)), eviction.MISCONFIGURED),
        (DisruptionBudget(min_available=IntegerOrPercent(1, True)), eviction.MISCONFIGURED),
        (DisruptionBudget(min_available=IntegerOrPercent(3)), "Eviction is blocked by specified"),
        (DisruptionBudget(min_available=IntegerOrPercent(2)), "Eviction is allowed by specified"),
    ],
)
def test_pick_all_takes_a_whole_number_to_be_available(budget: DisruptionBudget, message: str) -> None:
    assert evaluate_eviction("a", target(placement_type=ALL, number=None), budget).message.startswith(message)


def test_an_evicted_cluster_is_picked_again() -> None:
    outcome = evaluate_eviction("c", target(), None)
    after = eviction.apply_eviction(outcome, THREE)
    assert [b.is_deleting for b in after] == [False, False, True]
    result = place(fleet("a", "b", "c", "d"), pick(3), [b for b in after if b.cluster != "d"])
    assert held(result) == ["a", "b", "d"]
    assert held(place(fleet("a", "b", "c"), pick(3), after)) == ["a", "b", "c"]
    refused = replace(outcome, is_executed=False)
    assert eviction.apply_eviction(refused, THREE) == THREE
