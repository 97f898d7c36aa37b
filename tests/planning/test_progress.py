"""Tests of planning progress: stages, with done and total counts."""

from __future__ import annotations

from nexusform.cli.terminal_screen import PlanningProgressLine
from nexusform.planning.plan_request import PlanningStage
from tests.planning.harness import RACKS, cluster, plan, pool, require_success


def test_planning_reports_progress_of_vms_samples_and_objects() -> None:
    told: list[tuple[str, int, int]] = []

    def progress(stage: str, done: int, of: int) -> None:
        told.append((str(stage), done, of))

    made = require_success(
        plan(RACKS + cluster("a", pools=pool("p", 4)), samples=3, progress=progress)
    )
    assert [entry for entry in told if entry[0] == "VMs"] == [("VMs", 5, 5)]
    assert [entry for entry in told if entry[0] == "samples"] == [
        ("samples", n, 3) for n in (1, 2, 3)
    ]
    assert max(done for stage, done, _ in told if stage == "objects") == len(made.plan.changes)


def test_arguments_and_objects_report_progress() -> None:
    told: dict[str, list[tuple[int, int]]] = {"arguments": [], "objects": []}

    def progress(stage: str, done: int, of: int) -> None:
        told.setdefault(str(stage), []).append((done, of))

    sites = 'resource "nexus_site" "many" {\n  count = 30\n  name = "s${count.index}"\n}\n'
    require_success(plan(sites, progress=progress))
    assert told["arguments"] == [(number, 30) for number in range(1, 31)]
    assert told["objects"] == [(number, 30) for number in range(1, 31)]
    told.clear()
    require_success(plan(RACKS + sites, progress=progress))
    for stage in ("arguments", "objects"):
        assert all(0 < done <= of for done, of in told[stage])
        assert told[stage][-1][0] == told[stage][-1][1]


def test_terminal_has_a_label_for_every_stage() -> None:
    for stage in PlanningStage:
        PlanningProgressLine().update_progress(stage, 412, 706)
