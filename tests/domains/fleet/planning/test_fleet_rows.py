"""Rows of bindings and pods that say otherwise than the plan does are refused."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.pods.pod_kind import PodPlace
from nexusform.planning.plan import PlacementAction, PlacementChange, Plan
from nexusform.planning.saved.plan_file import read
from nexusform.planning.verification.verification import problem_of
from nexusform.state.objects import EMPTY
from tests.planning.harness import all_types
from tests.rendering.real_plans import EXAMPLES, nexusform

Rows = tuple[PlacementChange, ...]


@cache
def planned() -> bytes:
    """The plan file of the example with machines, clusters, placements and pods."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        nexusform(EXAMPLES / "end-to-end", "plan", f"-out={directory}/p", f"-state={directory}/s")
        return Path(directory, "p").read_bytes()


def told(forge: Callable[[Rows], Rows]) -> str:
    saved, _ = read(planned())
    assert saved is not None
    plan: Plan = replace(saved.plan, placements=forge(saved.plan.placements))
    return problem_of(plan, EMPTY, all_types().resource_types)


def changed(kind: str, change: Callable[[PlacementChange], PlacementChange]) -> Callable[[Rows], Rows]:
    """The first row of a kind is changed."""

    def forge(rows: Rows) -> Rows:
        position = next(number for number, row in enumerate(rows) if row.kind == kind)
        return (*rows[:position], change(rows[position]), *rows[position + 1 :])

    return forge


def without(kind: str) -> Callable[[Rows], Rows]:
    return lambda rows: tuple(row for row in rows if row.kind != kind)


def on_another_machine(row: PlacementChange) -> PlacementChange:
    assert isinstance(row.target, PodPlace)
    return replace(row, target=replace(row.target, machine="rack9-bm09"))


def another_snapshot(row: PlacementChange) -> PlacementChange:
    assert isinstance(row.target, Binding)
    return replace(row, target=replace(row.target, policy_snapshot=7))


FORGERS = {
    "a binding elsewhere": changed("binding", lambda row: replace(row, object="mars")),
    "a binding of another snapshot": changed("binding", another_snapshot),
    "a binding that stood": changed("binding", lambda row: replace(row, source=row.target)),
    "a binding that goes": changed(
        "binding", lambda row: replace(row, target=None, action=PlacementAction.REMOVE)
    ),
    "a binding left out": without("binding"),
    "a pod on another machine": changed("pod", on_another_machine),
    "a pod of another name": changed("pod", lambda row: replace(row, object="mine")),
    "a pod elsewhere": changed("pod", lambda row: replace(row, pool="mars/" + row.pool.partition("/")[2])),
}


def test_the_plan_as_it_was_saved_agrees() -> None:
    assert told(lambda rows: rows) == ""


@pytest.mark.parametrize("name", FORGERS)
def test_a_forged_row_is_refused(name: str) -> None:
    assert told(FORGERS[name]) != ""
