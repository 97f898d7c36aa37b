"""A hub for each test, and the product beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nexusform.cli.main import run
from tests.domains.hub.hub_controller import Controller, member
from tests.domains.hub.hub_server import HubServer


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
def hub(controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    pytest.importorskip("lightkube")
    server = HubServer()
    for name in ("ams1", "fra1", "lon1", "par1"):
        server.put(member(name, env="canary" if name == "fra1" else "prod"), "join")
    server.controller = controller
    server.log.clear()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(server.kubeconfig(tmp_path)))
    monkeypatch.delenv("NF_FLEET_CONTEXT", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    # A decision that is not as foretold is looked at again for this long: the controller decides at once.
    monkeypatch.setattr("nexusform.domains.hub.providers.hub_watch._DOUBT", 0.0)
    yield server
    server.close()


Told = Callable[..., tuple[int, str]]


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Told:
    """Runs a command: its exit code, and everything that it said with single spaces."""

    def call(*words: str) -> tuple[int, str]:
        code = run(list(words))
        said = capfd.readouterr()
        assert "bug of its own" not in said.err, said.err
        return code, " ".join((said.out + said.err).replace("│", " ").split())

    return call
