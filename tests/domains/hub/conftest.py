"""A hub for each test, and the product beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.hub.api_programs import CRDS, PROGRAMS, ApiPrograms, lacking
from tests.domains.hub.hub_controller import Controller, member
from tests.domains.hub.hub_front import Front
from tests.domains.hub.hub_server import HubServer
from tests.kill_points import choose_quarter, tries_all


@pytest.fixture
def controller() -> Controller:
    return Controller()


OURS, REAL = "ours", "api-server"
_NEEDED = ("etcd", "kube-apiserver")
_BEDS = (OURS, pytest.param(REAL, marks=pytest.mark.skipif(bool(lacking(*_NEEDED)), reason=lacking(*_NEEDED) or "-")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The same tests beside our own hub server and a real API server, but for those that say why not. A commit
    tries a quarter of them beside the API server, `.ci/crashes` all.
    """
    if "bed" in metafunc.fixturenames:
        alone = metafunc.definition.get_closest_marker("our_hub_alone") is not None
        is_real = tries_all() or crc32(metafunc.definition.nodeid.encode()) % 4 == choose_quarter()
        metafunc.parametrize("bed", _BEDS if is_real and not alone else _BEDS[:1], indirect=True)


@pytest.fixture(scope="session")
def api_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiPrograms]:
    programs = ApiPrograms(PROGRAMS, CRDS, tmp_path_factory.mktemp("api-server"))
    yield programs
    programs.close()


@pytest.fixture(scope="session")
def programs_without_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiPrograms]:
    """Whose API server knows no more of the past than etcd, which can be told to forget."""
    where = tmp_path_factory.mktemp("api-server")
    programs = ApiPrograms(PROGRAMS, CRDS, where, "--watch-cache=false")
    yield programs
    programs.close()


@pytest.fixture
def forget(bed: Front) -> Callable[[], None]:
    """From then on every version that the hub tells is too old when it is asked for."""
    return bed.forget


@pytest.fixture
def bed(request: pytest.FixtureRequest) -> Iterator[Front]:
    """An API server of a hub, without anything in it."""
    pytest.importorskip("lightkube")
    if request.param == OURS:
        ours = HubServer()
        yield ours
        ours.close()
        return
    from tests.domains.hub.api_server import ApiServer  # speaks HTTP with what lightkube brings

    forgetful = "forget" in request.fixturenames
    server = ApiServer(request.getfixturevalue("programs_without_cache" if forgetful else "api_programs"))
    yield server
    server.close()
    server.leave()


@pytest.fixture
def hub(bed: Any, controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A hub with members that have joined, and a controller that decides as told."""
    for name in ("ams1", "fra1", "lon1", "par1"):
        bed.put(member(name, env="canary" if name == "fra1" else "prod"), "join")
    bed.controller = controller
    bed.log.clear()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(bed.kubeconfig(tmp_path)))
    monkeypatch.delenv("NF_FLEET_CONTEXT", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    # A decision that is not as foretold is looked at again for this long: the controller decides at once.
    monkeypatch.setattr("nexusform.domains.hub.providers.hub_wait._DECISION_DELAY", 0.0)
    return bed


Told = Callable[..., tuple[int, str]]


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Told:
    """Runs a command: its exit code, and everything that it said with single spaces."""

    def call(*words: str) -> tuple[int, str]:
        code = run_command_line(list(words))
        said = capfd.readouterr()
        assert "Internal error" not in said.err, said.err
        return code, " ".join((said.out + said.err).replace("│", " ").split())

    return call
