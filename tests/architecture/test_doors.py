"""The contract that holds doors finds what is used and not listed, and what is listed and not used."""

from pathlib import Path

from tests.architecture.doors import door_problems

DOOR = 'DOOR = {{\n    "plan": "{names}",\n}}\n'


def tree(root: Path, names: str, user: str) -> Path:
    """A package of two rooms; a file of the second uses the first."""
    files = {
        "__init__.py": "",
        "plans/__init__.py": DOOR.format(names=names),
        "plans/plan.py": "class Plan: ...\n",
        "plans/inside.py": "from nexusform.plans.plan import Secret\n",
        "words.py": "from nexusform.plans.plan import Plan\n",
        "workflow/__init__.py": "",
        "workflow/run.py": user,
    }
    for name, text in files.items():
        path = root / "nexusform" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_what_a_door_lists_is_all_that_others_use(tmp_path: Path) -> None:
    good = tree(tmp_path / "good", "Plan", "from nexusform.words import anything\n")
    assert door_problems(good, 40) == []
    unlisted = tree(tmp_path / "unlisted", "Plan", "from nexusform.plans.plan import Change, Plan\n")
    (problem,) = door_problems(unlisted, 40)
    assert problem.startswith("nexusform.workflow.run uses nexusform.plans.plan.Change: add it to DOOR")
    whole = tree(tmp_path / "whole", "Plan", "from nexusform.plans import plan\nx = plan.Change\n")
    (problem,) = door_problems(whole, 40)
    assert "uses nexusform.plans.plan.Change" in problem


def test_a_door_lists_nothing_that_nobody_uses_and_does_not_grow(tmp_path: Path) -> None:
    idle = tree(tmp_path, "Plan Step", "")
    assert door_problems(idle, 40) == [
        'Nobody outside uses nexusform.plans.plan.Step: take it out of DOOR["plan"].'
    ]
    used = tree(tmp_path, "Plan Step", "from nexusform.plans.plan import Step\n")
    assert door_problems(used, 1) == ["The door of nexusform.plans has 2 names, and may have 1."]
