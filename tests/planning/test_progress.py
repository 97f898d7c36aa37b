"""Who waits for a plan is told how far it came, with shares."""

from __future__ import annotations

from nexusform.cli.screen import PlanningLine
from nexusform.planning.request import Stage
from tests.planning.harness import RACKS, cluster, good, plan, pool


def test_planning_says_how_far_it_came() -> None:
    told: list[tuple[str, int, int]] = []

    def progress(stage: str, done: int, of: int) -> None:
        told.append((str(stage), done, of))

    made = good(plan(RACKS + cluster("a", pools=pool("p", 4)), tie_breaks=3, progress=progress))
    assert [entry for entry in told if entry[0] == "VMs"] == [("VMs", 5, 5)]
    assert [entry for entry in told if entry[0] == "tie-breaks"] == [("tie-breaks", n, 3) for n in (1, 2, 3)]
    assert max(done for stage, done, _ in told if stage == "objects") == len(made.plan.changes)


def test_the_terminal_has_words_for_every_stage() -> None:
    for stage in Stage:
        PlanningLine().came(stage, 412, 706)
