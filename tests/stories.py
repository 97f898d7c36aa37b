"""Selection of stories: all of them, or the share of the README's test command.

Stories are the tests of the domains, and of whole commands on a simulated backend or CI server, or
on hostile input. They take two thirds of the time of all tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

# Folders and files. In `docs` they run the commands of pages, and jobs on a simulated GitHub or
# GitLab; in `trust` they run commands on hostile input; `module_packages` has servers of modules.
STORIES: Final = (
    "tests/contracts/",
    "tests/docs/test_ci.py",
    "tests/docs/test_first_steps.py",
    "tests/docs/test_github_recipe.py",
    "tests/docs/test_installation.py",
    "tests/docs/test_recipes.py",
    "tests/docs/test_tutorial.py",
    "tests/docs/test_two_pull_requests.py",
    "tests/domains/",
    "tests/trust/",
    "tests/workflow/module_packages/",
)


def runs_whole_suite(config: pytest.Config) -> bool:
    """Return whether pytest runs the whole suite, and not files or folders chosen by somebody."""
    folders = [config.rootpath / argument for argument in config.args]
    return folders == [config.rootpath / name for name in config.getini("testpaths")]


def select_stories(config: pytest.Config, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the first of every eight tests of each file of stories, and all other tests.

    Return all tests if the user chose files or folders, or if this run tries all cases.
    """
    # tests.change_reach reads the folders without pytest.
    from tests.kill_points import select_cases, tries_all

    if tries_all() or not runs_whole_suite(config):
        return list(items)
    selected: list[pytest.Item] = []
    for file, group in groupby(items, key=lambda item: item.nodeid.partition("::")[0]):
        tests = list(group)
        selected += select_cases(tests) if file.startswith(STORIES) else tests
    return selected
