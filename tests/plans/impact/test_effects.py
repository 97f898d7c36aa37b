"""What comes of a plan, whatever its actions are called: reports and guard rails say the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.plans.impact.effects import (
    LEAVING,
    Effect,
    EffectCount,
    effect_clauses,
    effect_counts,
    effect_of,
)
from nexusform.plans.impact.guard_rails import broken_limits, guarded, limits_of
from nexusform.plans.plan import Plan
from nexusform.scheduling.racks.vms import Placement
from nexusform.weights import Level, level_of
from tests.plans.impact.placed_rows import HERE, OTHER_CELL, THERE, row


@pytest.mark.parametrize(
    ("kind", "action", "source", "target", "effect"),
    [
        ("vm", "place", None, HERE, Effect.PLACED),
        ("vm", "move", HERE, THERE, Effect.MOVED),
        ("vm", "move", HERE, HERE, Effect.AGAIN),
        ("vm", "move", HERE, OTHER_CELL, Effect.AGAIN),
        ("vm", "remove", HERE, None, Effect.REMOVED),
        ("vm", "keep", HERE, HERE, Effect.KEPT),
    ],
)
def test_what_becomes_of_an_object(
    kind: str, action: str, source: Placement | None, target: Placement | None, effect: Effect
) -> None:
    assert effect_of(row(kind, action, source, target)) is effect


def test_a_plan_in_error_is_not_judged_and_says_so() -> None:
    plan = replace(Plan(placements=(row("vm", "move", HERE, THERE),)), errored=True)
    made = guarded(plan, limits_of("moved:0,certainty:0.9"))
    assert broken_limits(made) == ()
    (note,) = made.diagnostics
    assert level_of(note) is Level.NOTE
    assert note.detail == "moved:0 and certainty:0.9 were not judged, as planning failed."
    assert guarded(plan, ()) == plan


def test_what_is_lost_is_what_the_kind_stands_on() -> None:
    said = "2 VMs lose their machine"
    assert effect_clauses([EffectCount("vm", Effect.LOST, "", 2)], [Effect.LOST]) == [said]


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ("requested", "1 VM is re-created, predicted in place"),
        ("cluster_replaced", "1 VM is re-created, predicted in place"),
        ("machine_replaced", "1 VM is re-created in place"),
    ],
)
def test_who_chooses_the_machine_again_is_not_bound_to_it(trigger: str, said: str) -> None:
    again = replace(row("vm", "move", HERE, HERE), trigger=trigger)
    assert effect_clauses(effect_counts([again]), LEAVING) == [said]
