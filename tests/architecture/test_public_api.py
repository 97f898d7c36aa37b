"""Tests of the public API contract.

It finds names used but not listed, and names listed but not used.
"""

from pathlib import Path

from tests.architecture.public_api import find_api_problems

PUBLIC = 'PUBLIC = {{\n    "plan": "{names}",\n}}\n'


def write_packages(root: Path, names: str, user: str) -> Path:
    """Write a tree of two packages; a file of the second uses the first."""
    files = {
        "__init__.py": "",
        "plans/__init__.py": PUBLIC.format(names=names),
        "plans/plan.py": "class Plan: ...\n",
        "plans/inside.py": "from nexusform.plans.plan import Secret\n",
        "domain_table.py": "from nexusform.plans.plan import Plan\n",
        "workflow/__init__.py": "",
        "workflow/run.py": user,
    }
    for name, text in files.items():
        path = root / "nexusform" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_other_packages_use_listed_names_only(tmp_path: Path) -> None:
    good = write_packages(
        tmp_path / "good", "Plan", "from nexusform.domain_table import anything\n"
    )
    assert find_api_problems(good, 40) == []
    unlisted = write_packages(
        tmp_path / "unlisted", "Plan", "from nexusform.plans.plan import Change, Plan\n"
    )
    (problem,) = find_api_problems(unlisted, 40)
    assert problem.startswith(
        "nexusform.workflow.run uses nexusform.plans.plan.Change: add it to PUBLIC"
    )
    whole = write_packages(
        tmp_path / "whole", "Plan", "from nexusform.plans import plan\nx = plan.Change\n"
    )
    (problem,) = find_api_problems(whole, 40)
    assert "uses nexusform.plans.plan.Change" in problem


def test_public_api_lists_used_names_and_does_not_grow(tmp_path: Path) -> None:
    idle = write_packages(tmp_path, "Plan Step", "")
    assert find_api_problems(idle, 40) == [
        'No other package uses nexusform.plans.plan.Step: remove it from PUBLIC["plan"].'
    ]
    used = write_packages(tmp_path, "Plan Step", "from nexusform.plans.plan import Step\n")
    assert find_api_problems(used, 1) == [
        "The public API of nexusform.plans has 2 names; at most 1 are allowed."
    ]
