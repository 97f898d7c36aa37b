"""What comes of a plan, whatever its actions are called: reports and guard rails say the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.levels import Level, get_diagnostic_level
from nexusform.plans.impact.guard_rails import apply_limits, list_broken_limits, parse_guard_rail_limits
from nexusform.plans.impact.object_effects import (
    LOSS_EFFECTS,
    Effect,
    EffectCount,
    compute_effect,
    count_effects,
    format_effect_clauses,
)
from nexusform.plans.plan import Plan
from nexusform.scheduling.racks.vms import Placement
from tests.plans.impact.placed_rows import HERE, OTHER_CELL, THERE, row


@pytest.mark.parametrize(
    ("kind", "action", "source", "target", "effect"),
    [
        ("vm", "place", None, HERE, Effect.PLACED),
        ("vm", "move", HERE, THERE, Effect.MOVED),
        ("vm", "move", HERE, HERE, Effect.RECREATED),
        ("vm", "move", HERE, OTHER_CELL, Effect.RECREATED),
        ("vm", "remove", HERE, None, Effect.REMOVED),
        ("vm", "keep", HERE, HERE, Effect.UNCHANGED),
    ],
)
def test_what_becomes_of_an_object(
    kind: str, action: str, source: Placement | None, target: Placement | None, effect: Effect
) -> None:
    assert compute_effect(row(kind, action, source, target)) is effect


def test_a_plan_in_error_is_not_judged_and_says_so() -> None:
    plan = replace(Plan(placements=(row("vm", "move", HERE, THERE),)), errored=True)
    made = apply_limits(plan, parse_guard_rail_limits("moved:0,certainty:0.9"))
    assert list_broken_limits(made) == ()
    (note,) = made.diagnostics
    assert get_diagnostic_level(note) is Level.NOTE
    assert note.detail == "moved:0 and certainty:0.9 were not checked because planning failed."
    assert apply_limits(plan, ()) == plan


def test_what_is_lost_is_what_the_kind_stands_on() -> None:
    said = "2 VMs lose their machine"
    assert format_effect_clauses([EffectCount("vm", Effect.LOST, "", 2)], [Effect.LOST]) == [said]


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
    assert format_effect_clauses(count_effects([again]), LOSS_EFFECTS) == [said]
