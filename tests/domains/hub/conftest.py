"""Fixtures of hub tests: a hub for each test, and the product to run against it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.hub.api_programs import CRDS, PROGRAMS, ApiPrograms, find_obstacle
from tests.domains.hub.hub_controller import Controller, build_member
from tests.domains.hub.hub_front import Front
from tests.domains.hub.hub_server import HubServer
from tests.kill_points import tries_all


@pytest.fixture
def controller() -> Controller:
    return Controller()


OURS = "ours"
REAL = "api-server"
_NEEDED = ("etcd", "kube-apiserver")
_OBSTACLE = find_obstacle(*_NEEDED)
_BEDS = (
    OURS,
    pytest.param(
        REAL,
        marks=[
            pytest.mark.skipif(bool(_OBSTACLE), reason=_OBSTACLE or "-"),
            pytest.mark.one_worker,
        ],
    ),
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test against our own hub server and a real API server.

    Tests with a stated reason are exceptions.
    """
    if "bed" in metafunc.fixturenames:
        alone = metafunc.definition.get_closest_marker("our_hub_alone") is not None
        metafunc.parametrize("bed", _BEDS[:1] if alone else _BEDS, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the cases beside a real API server, unless all cases are tried."""
    if not tries_all():
        items[:] = [item for item in items if not _needs_api_server(item)]


def _needs_api_server(item: pytest.Item) -> bool:
    case = getattr(item, "callspec", None)
    return case is not None and case.params.get("bed") == REAL


_RUNNING: dict[tuple[str, ...], ApiPrograms] = {}


def _start_once(tmp_path_factory: pytest.TempPathFactory, *flags: str) -> ApiPrograms:
    """Return the API server of this process with these flags; start it if it does not run."""
    if flags not in _RUNNING:
        _RUNNING[flags] = ApiPrograms(PROGRAMS, CRDS, tmp_path_factory.mktemp("api-server"), *flags)
    return _RUNNING[flags]


def _end_servers() -> None:
    while _RUNNING:
        _RUNNING.popitem()[1].close()


@pytest.fixture
def api_programs(tmp_path_factory: pytest.TempPathFactory) -> ApiPrograms:
    return _start_once(tmp_path_factory)


@pytest.fixture
def programs_without_cache(tmp_path_factory: pytest.TempPathFactory) -> ApiPrograms:
    """Start an API server without more history than etcd, so that it can forget old versions."""
    return _start_once(tmp_path_factory, "--watch-cache=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """End the API servers if the next test needs none: an idle one takes a tenth of a processor."""
    try:
        yield
    finally:
        if nextitem is None or nextitem.get_closest_marker("one_worker") is None:
            _end_servers()


def pytest_sessionfinish() -> None:
    _end_servers()


@pytest.fixture
def forget(bed: Front) -> Callable[[], None]:
    """Return a function that makes all later requested versions too old."""
    return bed.forget


@pytest.fixture
def bed(request: pytest.FixtureRequest) -> Iterator[Front]:
    """Yield the API server of an empty hub."""
    pytest.importorskip("lightkube")
    if request.param == OURS:
        ours = HubServer()
        yield ours
        ours.close()
        return
    # Its HTTP client comes with lightkube.
    from tests.domains.hub.api_server import ApiServer

    forgetful = "forget" in request.fixturenames
    server = ApiServer(
        request.getfixturevalue("programs_without_cache" if forgetful else "api_programs")
    )
    yield server
    server.close()
    server.leave()


@pytest.fixture
def hub(bed: Any, controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Yield a hub with joined members, and a configurable controller."""
    for name in ("ams1", "fra1", "lon1", "par1"):
        bed.put(build_member(name, env="canary" if name == "fra1" else "prod"), "join")
    bed.controller = controller
    bed.log.clear()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(bed.kubeconfig(tmp_path)))
    monkeypatch.delenv("NF_FLEET_CONTEXT", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    # A decision unlike the prediction is re-read for this long: the controller decides immediately.
    monkeypatch.setattr("nexusform.domains.hub.providers.hub_wait._DECISION_DELAY", 0.0)
    return bed


CommandRunner = Callable[..., tuple[int, str]]


@pytest.fixture
def run_command(capfd: pytest.CaptureFixture[str]) -> CommandRunner:
    """Return a function that runs a command and returns its exit code and all output.

    The output has single spaces.
    """

    def call(*words: str) -> tuple[int, str]:
        code = run_command_line(list(words))
        said = capfd.readouterr()
        assert "Internal error" not in said.err, said.err
        return code, " ".join((said.out + said.err).replace("│", " ").split())

    return call


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiPrograms]:
    """Run an API server with Kubernetes' own kinds."""
    if not all((PROGRAMS / name).is_file() for name in _NEEDED):
        pytest.skip("NEXUSFORM_HUB_PROGRAMS names no API server")
    where = tmp_path_factory.mktemp("api-server")
    programs = ApiPrograms(PROGRAMS, where / "no-kinds", where)
    yield programs
    programs.close()
