"""What comes of a plan, whatever its actions are called: reports and guard rails say the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.address import parse_address
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState
from nexusform.domains.pods.pod_kind import PodPlace
from nexusform.plans.impact.effects import (
    LEAVING,
    Effect,
    EffectCount,
    effect_clauses,
    effect_counts,
    effect_of,
)
from nexusform.plans.impact.guard_rails import broken_limits, guarded, limits_of
from nexusform.plans.plan import Place, PlacementAction, PlacementChange, Plan
from nexusform.scheduling.racks.vms import Placement
from nexusform.weights import Level, level_of

HERE = Placement("rack1-bm01", "rack1", "1", (0,))
OTHER_CELL = Placement("rack1-bm01", "rack1", "1", (1,))
THERE = Placement("rack2-bm01", "rack2", "2", (0,))
ON_NODE = PodPlace("east", "east-np1-0", "rack1-bm01", "1")
ON_OTHER = PodPlace("east", "east-np1-1", "rack2-bm01", "2")
PENDING = PodPlace("east", state="Pending")
FAILED = PodPlace("east", state="Failed")


def _row(
    kind: str, action: str, source: Place | None, target: Place | None, pool: str = ""
) -> PlacementChange:
    address = parse_address("nexus_kubernetes_cluster.east")
    return PlacementChange(address, kind, "x", PlacementAction(action), source, target, "new", pool=pool)


@pytest.mark.parametrize(
    ("kind", "action", "source", "target", "effect"),
    [
        ("vm", "place", None, HERE, Effect.PLACED),
        ("vm", "move", HERE, THERE, Effect.MOVED),
        ("vm", "move", HERE, HERE, Effect.AGAIN),
        ("vm", "move", HERE, OTHER_CELL, Effect.AGAIN),
        ("vm", "remove", HERE, None, Effect.REMOVED),
        ("vm", "keep", HERE, HERE, Effect.KEPT),
        ("pod", "place", None, ON_NODE, Effect.PLACED),
        ("pod", "place", None, PENDING, Effect.WAITING),
        ("pod", "place", None, FAILED, Effect.WAITING),
        ("pod", "move", ON_NODE, ON_OTHER, Effect.MOVED),
        ("pod", "move", ON_NODE, ON_NODE, Effect.AGAIN),
        ("pod", "move", ON_NODE, PENDING, Effect.UNPLACED),
        ("pod", "move", PENDING, ON_NODE, Effect.PLACED),
        ("pod", "keep", PENDING, PENDING, Effect.STILL_WAITING),
        ("pod", "keep", ON_NODE, ON_NODE, Effect.KEPT),
    ],
)
def test_what_becomes_of_an_object(
    kind: str, action: str, source: Place | None, target: Place | None, effect: Effect
) -> None:
    assert effect_of(_row(kind, action, source, target)) is effect


ROWS = (
    _row("vm", "move", HERE, THERE),
    _row("vm", "move", HERE, HERE),
    _row("vm", "move", HERE, HERE),
    _row("vm", "remove", HERE, None),
    _row("pod", "move", ON_NODE, PENDING),
    _row("pod", "remove", ON_NODE, None, "Deployment/old"),
    _row("pod", "place", None, PENDING),
    _row("pod", "place", None, FAILED),
)


def test_effects_in_words() -> None:
    assert effect_clauses(effect_counts(ROWS), [*LEAVING, Effect.WAITING]) == [
        "1 VM is re-created on another machine",
        "2 VMs are re-created in place",
        "1 pod loses its node",
        "1 VM and 1 pod are removed",
        "1 pod fails",
        "1 pod stays Pending",
    ]


def test_a_guard_rail_counts_all_that_is_disturbed() -> None:
    plan = Plan(placements=ROWS)
    assert not guarded(plan, limits_of("moved:4")).denied
    broken = guarded(plan, limits_of("moved:3"))
    assert broken.denied
    assert not broken.errored
    assert broken_limits(broken) == ("moved:3",)
    assert broken.diagnostics[0].detail == (
        "1 VM is re-created on another machine, 2 VMs are re-created in place and 1 pod loses its node; "
        "-fail-on=moved:3 allows 3 at most."
    )


def test_what_comes_or_goes_moves_nothing() -> None:
    plan = Plan(placements=(ROWS[3], ROWS[5], ROWS[6]))
    assert not guarded(plan, limits_of("moved:0")).denied


def test_a_plan_in_error_is_not_judged_and_says_so() -> None:
    plan = replace(Plan(placements=ROWS), errored=True)
    made = guarded(plan, limits_of("moved:0,certainty:0.9"))
    assert broken_limits(made) == ()
    (note,) = made.diagnostics
    assert level_of(note) is Level.NOTE
    assert note.detail == "moved:0 and certainty:0.9 were not judged, as planning failed."
    assert guarded(plan, ()) == plan


@pytest.mark.parametrize(
    ("kind", "count", "said"),
    [
        ("vm", 2, "2 VMs lose their machine"),
        ("pod", 1, "1 pod loses its node"),
        ("binding", 2, "2 fleet bindings lose their member"),
    ],
)
def test_what_is_lost_is_what_the_kind_stands_on(kind: str, count: int, said: str) -> None:
    assert effect_clauses([EffectCount(kind, Effect.LOST, "", count)], [Effect.LOST]) == [said]


BOUND = Binding("west", BindingState.BOUND, 0)


@pytest.mark.parametrize(
    ("rows", "denied"),
    [
        # Its member is made anew: the binding goes, and comes again.
        ([("binding", "remove", BOUND, None), ("binding", "place", None, BOUND)], True),
        ([("pod", "remove", ON_NODE, None), ("pod", "place", None, ON_NODE)], True),
        ([("pod", "remove", ON_NODE, None), ("pod", "place", None, PENDING)], True),
        # It did not run before.
        ([("pod", "remove", PENDING, None), ("pod", "place", None, ON_NODE)], False),
        ([("pod", "remove", ON_NODE, None)], False),
        ([("pod", "place", None, ON_NODE)], False),
        # One of each kind are strangers.
        ([("pod", "remove", ON_NODE, None), ("binding", "place", None, BOUND)], False),
    ],
)
def test_what_goes_while_others_come_in_its_stead_does_not_run_on(
    rows: list[tuple[str, str, Place | None, Place | None]], *, denied: bool
) -> None:
    made = guarded(Plan(placements=tuple(_row(*row) for row in rows)), limits_of("moved:0"))
    assert broken_limits(made) == (("moved:0",) if denied else ())
    if denied:
        assert "goes while others come in their stead" in made.diagnostics[0].detail


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ("requested", "1 VM is re-created, predicted in place"),
        ("cluster_replaced", "1 VM is re-created, predicted in place"),
        ("machine_replaced", "1 VM is re-created in place"),
    ],
)
def test_who_chooses_the_machine_again_is_not_bound_to_it(trigger: str, said: str) -> None:
    row = replace(_row("vm", "move", HERE, HERE), trigger=trigger)
    assert effect_clauses(effect_counts([row]), LEAVING) == [said]
