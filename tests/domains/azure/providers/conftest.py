"""Fixtures of a local Azure Resource Manager with a site, and of this site after its import."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.domains.azure.providers.arm_server import ArmServer
from tests.domains.azure.providers.azure_sites import (
    FEW_SAMPLES,
    CommandRunner,
    RequestedToken,
    build_existing_site,
    import_site,
    write_project,
)
from tests.prepared_situations import prepare_situation


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArmServer]:
    server = ArmServer(tmp_path_factory.mktemp("arm"))
    yield server
    server.close()


@pytest.fixture(autouse=True)
def check_bodies(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check every request body of a test against the models of the SDK."""
    server = request.getfixturevalue("server") if "server" in request.fixturenames else None
    yield
    if server is None or importlib.util.find_spec("azure.mgmt.networkcloud") is None:
        return
    from tests.domains.azure.providers.sdk_models import find_request_errors

    errors = [error for sent in server.site.requests for error in find_request_errors(*sent)]
    assert not errors, errors


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a tenth of the samples, which take most of the time of a plan."""
    for name, value in FEW_SAMPLES.items():
        monkeypatch.setattr(name, value)


@pytest.fixture
def sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each command the token of the managed identity without a request for it.

    Commands in processes of their own request it, and so does a test that replaces this fixture.
    """
    pytest.importorskip("azure.identity")
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", RequestedToken)


@pytest.fixture
def nexusform(
    server: ArmServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> CommandRunner:
    """Import the site and return a runner of commands."""
    request.getfixturevalue("sign_in")
    monkeypatch.chdir(tmp_path)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NF_INPUT", "0")
    # A failed request is repeated at once, instead of after 0.8 s and more.
    monkeypatch.setattr("nexusform.domains.azure.providers.azure_subscription._MAX_BACKOFF", 0.02)
    server.site = build_existing_site()
    write_project(tmp_path)
    prepare_situation("imported", server, import_site)
    capsys.readouterr()
    return CommandRunner(server, capsys)
