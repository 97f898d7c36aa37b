"""A local Azure Resource Manager with a site, and that site taken over."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.domains.azure.providers.arm_server import ArmServer
from tests.domains.azure.providers.azure_sites import Told, project, standing_site


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArmServer]:
    server = ArmServer(tmp_path_factory.mktemp("arm"))
    yield server
    server.close()


@pytest.fixture(autouse=True)
def check_bodies(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every body that a test sends is one of the SDK's models."""
    server = request.getfixturevalue("server") if "server" in request.fixturenames else None
    yield
    if server is None or importlib.util.find_spec("azure.mgmt.networkcloud") is None:
        return
    from tests.domains.azure.providers.sdk_models import find_request_errors

    errors = [error for sent in server.site.requests for error in find_request_errors(*sent)]
    assert not errors, errors


@pytest.fixture
def nexusform(
    server: ArmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Told:
    """A site that was taken over."""
    monkeypatch.chdir(tmp_path)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NF_INPUT", "0")
    # A request that failed is sent again at once, not after 0.8 s and more.
    monkeypatch.setattr("nexusform.domains.azure.providers.azure_subscription._MAX_BACKOFF", 0.02)
    server.site = standing_site()
    project(tmp_path)
    told = Told(server, capsys)
    assert told("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, told.said
    return told
