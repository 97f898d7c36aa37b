"""Tests of the supply-chain rules of recipes: pins, virtual environments, trusted actions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.recipe_rules import find_violations

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / "docs" / "ci" / "github"
RECIPES = sorted((ROOT / "docs" / "ci").rglob("*.yml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
BLOCK = re.compile(r"(?ms)^```ya?ml\n(.*?)^```$")
OUTSIDE = "installs outside of a virtual environment"


def read_blocks() -> dict[str, str]:
    """Return the YAML blocks of documents that use actions or pip."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {
        f"{page.name}-{number}": block
        for page in sorted(pages)
        for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
        if "uses:" in block or "pip install" in block
    }


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_recipe_follows_every_rule(path: Path) -> None:
    assert find_violations(path.read_text(encoding="utf-8")) == []


def test_examples_of_documents_follow_every_rule() -> None:
    found = {name: find_violations(block) for name, block in read_blocks().items()}
    assert {name: violations for name, violations in found.items() if violations} == {}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_own_workflow_follows_every_rule(path: Path) -> None:
    """These jobs install with the Python of actions/setup-python, which accepts packages."""
    found = find_violations(path.read_text(encoding="utf-8"))
    assert [violation for violation in found if OUTSIDE not in violation] == []


def test_every_file_has_the_same_commit_of_an_action() -> None:
    pins: dict[str, set[str]] = {}
    for path in [*RECIPES, *WORKFLOWS]:
        for name, pin in re.findall(r"uses: ([\w./-]+)@(.+)", path.read_text(encoding="utf-8")):
            pins.setdefault(name, set()).add(pin)
    assert len(pins) > 8
    assert {name: pin for name, pin in pins.items() if len(pin) > 1} == {}


CHANGES = [
    ("workflow.yml", r"actions/checkout@\w{40} # v4.4.0", "actions/checkout@v4", "not pinned"),
    ("workflow.yml", r"(checkout@\w{40}) # v4.4.0", r"\1", "not pinned"),
    ("action.yml", r"actions/github-script@\w{40}", "actions/github-script@main", "not pinned"),
    ("workflow.yml", r"persist-credentials: false", "fetch-depth: 1", "leaves its token"),
    ("workflow.yml", r"  pull_request:", "  pull_request_target:", "secrets of the repository"),
    ("workflow.yml", r"\./\.nexusform-action/", "./", "job plan takes"),
    ("workflow.yml", r"      - run: rm -rf .nexusform-action\n", "", "job plan takes"),
    ("workflow.yml", r"          ref: .*default_branch.*\n", "", "job plan takes"),
    ("sites.yml", r"\./\.nexusform-action/", "./", "job plan takes"),
    ("terraform.yml", r"\./\.nexusform-action/", "./", "job predict takes"),
    ("action.yml", r'"\$venv/bin/python" -I -m pip install', "python3 -m pip install", OUTSIDE),
    ("action.yml", r"\$RUNNER_TEMP/nexusform-venv", ".venv", "virtual environment in"),
    ("gitlab.yml", r'"\$venv/bin/python" -I -m pip download', "pip download", OUTSIDE),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "violation"), CHANGES)
def test_changed_recipe_breaks_a_rule(name: str, old: str, new: str, violation: str) -> None:
    (path,) = [path for path in RECIPES if path.name == name]
    text = path.read_text(encoding="utf-8")
    changed = re.sub(old, new, text)
    assert changed != text
    assert any(violation in found for found in find_violations(changed))
