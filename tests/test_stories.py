"""Tests of the selection of stories by the README's test command."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.change_reach import ROOT, list_long_tests
from tests.stories import STORIES, select_stories

STORY = "tests/domains/hub/test_hub_order.py"
OTHER = "tests/values/test_typed_value.py"


def build_config(*arguments: str) -> Any:
    return SimpleNamespace(rootpath=ROOT, args=arguments, getini=lambda _name: ["tests"])


def list_selected(*arguments: str) -> list[str]:
    """Return the tests of two files that a run with these arguments selects."""
    names = [f"{file}::test_{number}" for file in (STORY, OTHER) for number in range(10)]
    items: Any = [SimpleNamespace(nodeid=name) for name in names]
    return [item.nodeid for item in select_stories(build_config(*arguments), items)]


@pytest.mark.parametrize("argument", ["tests", str(ROOT / "tests")])
def test_whole_suite_has_a_share_of_the_stories_and_all_other_tests(
    argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NEXUSFORM_CRASH_POINTS", raising=False)
    selected = list_selected(argument)
    assert selected == [
        f"{STORY}::test_0",
        f"{STORY}::test_8",
        *(f"{OTHER}::test_{number}" for number in range(10)),
    ]


@pytest.mark.parametrize("argument", [STORY, "tests/domains/hub"])
def test_chosen_files_run_all_their_tests(argument: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEXUSFORM_CRASH_POINTS", raising=False)
    assert len(list_selected(argument)) == 20


def test_run_of_all_cases_has_all_stories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUSFORM_CRASH_POINTS", "first")
    assert len(list_selected("tests")) == 20


def test_stories_left_out_are_run_by_changes_that_reach_them() -> None:
    stories = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if str(path.relative_to(ROOT)).startswith(STORIES)
    }
    assert stories
    assert stories <= {*list_long_tests()}
