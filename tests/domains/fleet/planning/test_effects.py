"""Tests of the effects of a plan on bindings and pods: reports and guard rails agree."""

from __future__ import annotations

import pytest

from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState
from nexusform.domains.pods.pod_kind import PodLocation
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
from nexusform.plans.plan import ObjectLocation, Plan
from tests.plans.impact.placed_rows import HERE, THERE, build_row

ON_NODE = PodLocation("east", "east-np1-0", "rack1-bm01", "1")
ON_OTHER = PodLocation("east", "east-np1-1", "rack2-bm01", "2")
PENDING = PodLocation("east", state="Pending")
FAILED = PodLocation("east", state="Failed")


@pytest.mark.parametrize(
    ("kind", "action", "source", "target", "effect"),
    [
        ("pod", "place", None, ON_NODE, Effect.PLACED),
        ("pod", "place", None, PENDING, Effect.WAITING),
        ("pod", "place", None, FAILED, Effect.WAITING),
        ("pod", "move", ON_NODE, ON_OTHER, Effect.MOVED),
        ("pod", "move", ON_NODE, ON_NODE, Effect.RECREATED),
        ("pod", "move", ON_NODE, PENDING, Effect.UNPLACED),
        ("pod", "move", PENDING, ON_NODE, Effect.PLACED),
        ("pod", "keep", PENDING, PENDING, Effect.STILL_WAITING),
        ("pod", "keep", ON_NODE, ON_NODE, Effect.UNCHANGED),
    ],
)
def test_effect_of_a_row(
    kind: str,
    action: str,
    source: ObjectLocation | None,
    target: ObjectLocation | None,
    effect: Effect,
) -> None:
    assert compute_effect(build_row(kind, action, source, target)) is effect


ROWS = (
    build_row("vm", "move", HERE, THERE),
    build_row("vm", "move", HERE, HERE),
    build_row("vm", "move", HERE, HERE),
    build_row("vm", "remove", HERE, None),
    build_row("pod", "move", ON_NODE, PENDING),
    build_row("pod", "remove", ON_NODE, None, "Deployment/old"),
    build_row("pod", "place", None, PENDING),
    build_row("pod", "place", None, FAILED),
)


def test_effects_as_text() -> None:
    assert format_effect_clauses(count_effects(ROWS), [*LOSS_EFFECTS, Effect.WAITING]) == [
        "1 VM is re-created on another machine",
        "2 VMs are re-created in place",
        "1 pod loses its node",
        "1 VM and 1 pod are removed",
        "1 pod fails",
        "1 pod stays Pending",
    ]


def test_guard_rail_counts_all_disruptions() -> None:
    plan = Plan(placements=ROWS)
    assert not apply_limits(plan, parse_guard_rail_limits("moved:4")).is_rejected
    broken = apply_limits(plan, parse_guard_rail_limits("moved:3"))
    assert broken.is_rejected
    assert not broken.errored
    assert list_broken_limits(broken) == ("moved:3",)
    assert broken.diagnostics[0].detail == (
        "1 VM is re-created on another machine, 2 VMs are re-created in place and 1 pod loses its "
        "node; "
        "-fail-on=moved:3 allows at most 3."
    )


def test_added_and_removed_objects_are_not_moves() -> None:
    plan = Plan(placements=(ROWS[3], ROWS[5], ROWS[6]))
    assert not apply_limits(plan, parse_guard_rail_limits("moved:0")).is_rejected


@pytest.mark.parametrize(
    ("kind", "count", "said"),
    [("pod", 1, "1 pod loses its node"), ("binding", 2, "2 fleet bindings lose their member")],
)
def test_loss_names_the_host_of_the_kind(kind: str, count: int, said: str) -> None:
    assert format_effect_clauses([EffectCount(kind, Effect.LOST, "", count)], [Effect.LOST]) == [
        said
    ]


BOUND = Binding("west", BindingState.BOUND, 0)


@pytest.mark.parametrize(
    ("rows", "denied"),
    [
        # Its member is re-created: the binding is removed and placed again.
        ([("binding", "remove", BOUND, None), ("binding", "place", None, BOUND)], True),
        ([("pod", "remove", ON_NODE, None), ("pod", "place", None, ON_NODE)], True),
        ([("pod", "remove", ON_NODE, None), ("pod", "place", None, PENDING)], True),
        # It did not run before.
        ([("pod", "remove", PENDING, None), ("pod", "place", None, ON_NODE)], False),
        ([("pod", "remove", ON_NODE, None)], False),
        ([("pod", "place", None, ON_NODE)], False),
        # Objects of different kinds are unrelated.
        ([("pod", "remove", ON_NODE, None), ("binding", "place", None, BOUND)], False),
    ],
)
def test_replaced_objects_do_not_keep_running(
    rows: list[tuple[str, str, ObjectLocation | None, ObjectLocation | None]], *, denied: bool
) -> None:
    made = apply_limits(
        Plan(placements=tuple(build_row(*each) for each in rows)),
        parse_guard_rail_limits("moved:0"),
    )
    assert list_broken_limits(made) == (("moved:0",) if denied else ())
    if denied:
        assert "is replaced by others" in made.diagnostics[0].detail
