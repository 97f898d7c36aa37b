"""For all tests: calls that nest as deep as the command line lets them, for those that ask; and nothing that
hypothesis says depends on how busy the machine is, or differs between runs.

Runs that are made to search (many cases, a seed) are free to find something new.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Generator, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
DOMAINS = frozenset(path.parent.name for path in ROOT.glob("nexusform/domains/*/__init__.py"))
_OF_DOMAINS = re.compile(r"^from (?:nexusform|tests)\.domains\.(\w+)", re.MULTILINE)
_MARKED = re.compile(r"^pytestmark = pytest\.mark\.of_domains\(([^)]*)\)", re.MULTILINE)
_OF_TESTS = re.compile(r"^from (tests(?:\.\w+)+) import (\w*)", re.MULTILINE)
SEARCHES = ("NEXUSFORM_SOUNDNESS_CASES", "NF_TEST_SITES")

settings.register_profile(
    "nexusform",
    deadline=None,
    derandomize=not any(name in os.environ for name in SEARCHES),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("nexusform")


@pytest.fixture
def deep_calls() -> Iterator[None]:
    """Calls may nest as the command line lets them."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(3000)
    yield
    sys.setrecursionlimit(limit)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers per processor for `-n auto`: tests also wait for leases, servers and programs."""
    return len(os.sched_getaffinity(0)) * 2 if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Modules and tests live until the end: looking through them for garbage takes time and finds none. They are
    not frozen afterwards: the parser asks for the number of frozen objects, which would count them each time.
    """
    gc.disable()
    yield
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker begins with its share of the slow tests, so that none of them is left for the end."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    quick = [item for item in items if item.get_closest_marker("slow") is None]
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for _, tests in groupby(slow, key=lambda item: item.path):  # a file prepares once for all its tests
        min(shares, key=len).extend(tests)
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        count = (len(items) - len(ordered)) // (workers - number)  # as many as xdist sends to this worker
        rest = max(count - len(share), 0)
        ordered += share + quick[:rest]
        del quick[:rest]
    items[:] = ordered + quick


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests whose configurations name types of a domain go with it, too."""
    gone = {name for mark in item.iter_markers("of_domains") for name in mark.args} - DOMAINS
    if gone:
        pytest.skip(f"without the domain {', '.join(sorted(gone))}")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Tests of what a domain does beside others go with the domain, whose folder was deleted."""
    is_folder = collection_path.is_dir()
    path = collection_path / "conftest.py" if is_folder else collection_path
    if (is_folder or path.name.startswith("test_")) and not _needs(path) <= DOMAINS:
        return True
    return None


def _needs(test: Path) -> set[str]:
    """The domains that a test imports when it is collected, itself or by what it shares with others; and
    those without which nothing runs of what it shares.
    """
    domains: set[str] = set()
    seen, open_ones = {test}, [test]
    while open_ones:
        path = open_ones.pop()
        of_domains, shared = _imports(path)
        domains |= of_domains
        if path != test:
            domains |= _marked(path)
        open_ones += shared - seen
        seen |= shared
    return domains


def _marked(path: Path) -> set[str]:
    """The domains that all tests of a file are marked with."""
    marks = _MARKED.findall(path.read_text(encoding="utf-8")) if path.is_file() else []
    return {name for mark in marks for name in re.findall(r'"(\w+)"', mark)}


@cache
def _imports(path: Path) -> tuple[frozenset[str], frozenset[Path]]:
    """The domains that one file imports from, and the files of tests."""
    if not path.is_file():
        return frozenset(), frozenset()
    text = path.read_text(encoding="utf-8")
    shared: set[Path] = set()
    for module, name in _OF_TESTS.findall(text):
        path = ROOT.joinpath(*module.split("."))
        shared |= {path.with_suffix(".py"), path / f"{name}.py"}
    return frozenset(_OF_DOMAINS.findall(text)), frozenset(shared)
