"""Configuration of all tests: a recursion limit as on the command line, on request.

Results of hypothesis are independent of machine load and equal between runs. Runs in search of
errors (many cases, a seed) are free to find new ones.
"""

from __future__ import annotations

import compileall
import gc
import os
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from itertools import count, groupby
from pathlib import Path

import pytest
from _pytest.pathlib import import_path
from hypothesis import HealthCheck, given, settings, strategies
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from nexusform.domain_table import find_domains
from tests.garbage_collection import keep_loaded_objects
from tests.stories import select_stories

ROOT = Path(__file__).parents[1]
DOMAINS = frozenset(find_domains())
_OF_DOMAINS = re.compile(r"^from (?:nexusform|tests)\.domains\.(\w+)", re.MULTILINE)
_MARKED = re.compile(r"^pytestmark = pytest\.mark\.of_domains\(([^)]*)\)", re.MULTILINE)
_OF_TESTS = re.compile(r"^from (tests(?:\.\w+)+) import (\w*)", re.MULTILINE)
SEARCHES = ("NEXUSFORM_SOUNDNESS_CASES", "NF_TEST_SITES")

# Workers and programs of tests share the compiled sources. Without bytecode files, each of them
# compiles the product, and each worker rewrites the assertions of all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Variables of Terraform print a hint.
for name in [name for name in os.environ if name.startswith("TF_")]:
    del os.environ[name]

# No test loses power, and a killed process loses no write. A disk takes milliseconds to flush each
# of thousands of files.
os.fsync = os.fstat

settings.register_profile(
    "nexusform",
    deadline=None,
    derandomize=not any(name in os.environ for name in SEARCHES),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("nexusform")
if not any(name in os.environ for name in SEARCHES):
    # Otherwise hypothesis draws values from the sources of all modules loaded so far. These depend
    # on the tests that ran before in a worker, and parsing them takes each worker ten seconds.
    providers._get_local_constants = Constants


_FOLDER_NUMBERS = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new folder for a test.

    To find a free number, pytest's own fixture lists the folders of all tests before.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_FOLDER_NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def deep_calls() -> Iterator[None]:
    """Allow the recursion depth of the command line."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(3000)
    yield
    sys.setrecursionlimit(limit)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers per processor for `-n auto`.

    Tests also wait for leases, servers and programs.
    """
    return (
        len(os.sched_getaffinity(0)) * 2
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Compile the product once, before all workers import it."""
    compileall.compile_dir(ROOT / "nexusform", quiet=2, workers=0)


def _import_share(config: pytest.Config) -> None:
    """Import the test files of this worker's share before all others.

    A worker rewrites the assertions of its share only, and reads the other files as rewritten by
    the other workers.
    """
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        files = {
            path
            for argument in config.args
            for path in (config.rootpath / argument).rglob("test_*.py")
        }
        for path in sorted(files)[
            int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]
        ]:
            # reported by the collection.
            with suppress(Exception, pytest.skip.Exception):
                import_path(
                    path, mode="importlib", root=config.rootpath, consider_namespace_packages=False
                )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None]:
    """Disable garbage collection.

    Modules and tests live until the end, so it takes time and finds nothing.
    """
    gc.disable()
    # The first test of hypothesis in a process visits all objects. Few exist now.
    given(strategies.none())(lambda _value: None)()
    _import_share(session.config)
    yield
    keep_loaded_objects()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Keep pytest from searching the objects of all modules and tests five times at the end."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start each worker with its share of the slow tests, so that none of them is left for the end.

    Tests with the same server start in one worker, so that only this one starts the server.
    """
    selected = select_stories(config, items)
    left_out = {*items} - {*selected}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = selected
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    with_server = [item for item in items if item.get_closest_marker("one_worker") is not None]
    first = {*with_server}
    slow = [
        item for item in items if item.get_closest_marker("slow") is not None and item not in first
    ]
    first.update(slow)
    quick = [item for item in items if item not in first]
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    shares[0] += with_server
    # The setup of a file is shared by all its tests.
    for _, tests in groupby(slow, key=lambda item: item.path):
        min(shares, key=len).extend(tests)
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        # The number of tests sent to this worker by xdist.
        count = (len(items) - len(ordered)) // (workers - number)
        rest = max(count - len(share), 0)
        ordered += share + quick[:rest]
        del quick[:rest]
    items[:] = ordered + quick


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of configurations with types of a deleted domain."""
    gone = {name for mark in item.iter_markers("of_domains") for name in mark.args} - DOMAINS
    if gone:
        pytest.skip(f"without the domain {', '.join(sorted(gone))}")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore tests of a domain's use elsewhere if the folder of the domain was deleted."""
    is_folder = collection_path.is_dir()
    path = collection_path / "conftest.py" if is_folder else collection_path
    if (is_folder or path.name.startswith("test_")) and not _find_required_domains(path) <= DOMAINS:
        return True
    return None


def _find_required_domains(test: Path) -> set[str]:
    """Return the domains imported by a test at collection, and those that they require.

    A test imports domains directly or through shared modules. The required domains are those
    of these modules.
    """
    domains: set[str] = set()
    seen = {test}
    open_ones = [test]
    while open_ones:
        path = open_ones.pop()
        of_domains, shared = _read_imports(path)
        domains |= of_domains
        if path != test:
            domains |= _read_marked_domains(path)
        open_ones += shared - seen
        seen |= shared
    return domains


@cache
def _read_marked_domains(path: Path) -> frozenset[str]:
    """Return the domains in the mark of all tests of a file."""
    marks = _MARKED.findall(path.read_text(encoding="utf-8")) if path.is_file() else []
    return frozenset(name for mark in marks for name in re.findall(r'"(\w+)"', mark))


@cache
def _read_imports(path: Path) -> tuple[frozenset[str], frozenset[Path]]:
    """Return the domains imported by one file, and its imported test modules."""
    if not path.is_file():
        return frozenset(), frozenset()
    text = path.read_text(encoding="utf-8")
    shared: set[Path] = set()
    for module, name in _OF_TESTS.findall(text):
        path = ROOT.joinpath(*module.split("."))
        shared |= {path.with_suffix(".py"), path / f"{name}.py"}
    return frozenset(_OF_DOMAINS.findall(text)), frozenset(shared)
