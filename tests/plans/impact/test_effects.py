"""Tests of placement effects: reports and guard rails agree for every action."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.levels import Level, get_diagnostic_level
from nexusform.plans.impact.guard_rails import (
    apply_limits,
    list_broken_limits,
    parse_guard_rail_limits,
)
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
from tests.plans.impact.placed_rows import HERE, OTHER_CELL, THERE, build_row


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
def test_effect_of_each_action(
    kind: str, action: str, source: Placement | None, target: Placement | None, effect: Effect
) -> None:
    assert compute_effect(build_row(kind, action, source, target)) is effect


def test_guard_rails_are_not_checked_for_failed_plans() -> None:
    plan = replace(Plan(placements=(build_row("vm", "move", HERE, THERE),)), errored=True)
    made = apply_limits(plan, parse_guard_rail_limits("moved:0,certainty:0.9"))
    assert list_broken_limits(made) == ()
    (note,) = made.diagnostics
    assert get_diagnostic_level(note) is Level.NOTE
    assert note.detail == "moved:0 and certainty:0.9 were not checked because planning failed."
    assert apply_limits(plan, ()) == plan


@pytest.mark.parametrize("number", ["", "-1", "1.5", "x", "9" * 400])
def test_limit_with_an_invalid_number_is_rejected(number: str) -> None:
    with pytest.raises(
        ValueError, match=r"needs a whole number from 0 on after a colon, for example moved:0\."
    ):
        parse_guard_rail_limits(f"moved:{number}")


def test_lost_vms_are_reported_with_their_machine() -> None:
    said = "2 VMs lose their machine"
    assert format_effect_clauses([EffectCount("vm", Effect.LOST, "", 2)], [Effect.LOST]) == [said]


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ("requested", "1 VM is re-created, probably on the same machine"),
        ("cluster_replaced", "1 VM is re-created, probably on the same machine"),
        ("machine_replaced", "1 VM is re-created in place"),
    ],
)
def test_re_creation_in_place_is_predicted_if_azure_picks_the_machine(
    trigger: str, said: str
) -> None:
    again = replace(build_row("vm", "move", HERE, HERE), trigger=trigger)
    assert format_effect_clauses(count_effects([again]), LOSS_EFFECTS) == [said]
