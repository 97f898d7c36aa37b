"""One mechanism changes a plan request for a trial: the edits of planning/edits.py."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# Fields of a request that only edits set.
FIELDS: Final = frozenset({"adjustments", "first_addresses", "lost_machines", "removed_addresses"})
# Modules that build a request for no trial, with their reason.
EXCEPTIONS: Final = {
    "simulation_input.py": "reads data blocks",
    "test_runs.py": "assertions read ephemeral outputs; prevent_destroy ends with the test",
}


def test_only_edits_change_a_request_for_a_trial() -> None:
    writers: set[str] = set()
    for path in (ROOT / "nexusform").rglob("*.py"):
        text = path.read_text()
        # `replace(request, adjustments=...)` or `PlanRequest(adjustments=...)`.
        if not any(f"{name}=" in text for name in FIELDS):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and _get_name(node.func) in ("replace", "PlanRequest"):
                names = {keyword.arg for keyword in node.keywords}
                if names & FIELDS:
                    writers.add(path.relative_to(ROOT).as_posix())
    assert writers == {"nexusform/planning/edits.py"}


def test_questions_fixes_and_replays_are_planned_by_three_functions() -> None:
    """A hypothetical plan is a whole answer, a trial only decides about a suggested fix.

    A replay has the saved steps of a plan on the site as observed at apply.
    """
    planners = {
        path.relative_to(ROOT / "nexusform").as_posix()
        for path in (ROOT / "nexusform").rglob("*.py")
        if "apply_edits(" in path.read_text()
    }
    assert planners == {
        "planning/edits.py",
        "planning/hypothesis/hypothetical_plan.py",
        "planning/hypothesis/start_points.py",
        "planning/replanning/step_replay.py",
        "planning/replanning/trials.py",
    }


def test_questions_add_blocks_by_an_edit() -> None:
    """A domain plans no other configuration than that of its project, except by AddedBlocks."""
    writers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "nexusform" / "domains").rglob("*.py")
        if "configuration=" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and _get_name(node.func) in ("replace", "PlanRequest")
        and "configuration" in {keyword.arg for keyword in node.keywords}
        and path.name not in EXCEPTIONS
    ]
    assert writers == []


def _get_name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""
