"""Tests of authentication to Azure Storage without a connection."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from nexusform.domains.remote_state.backends.azure_login import create_blob_credential
from nexusform.domains.remote_state.backends.azurerm import open_azurerm
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network.azure_identity import build_sign_in_transport
from tests.contracts.bad_answers import CUT, build_redirect, run_bad_server

pytest.importorskip("azure.identity")

VARIABLES = (
    "ARM_ACCESS_KEY",
    "ARM_SAS_TOKEN",
    "ARM_CLIENT_ID",
    "ARM_CLIENT_SECRET",
    "ARM_TENANT_ID",
    "ARM_USE_OIDC",
    "ARM_USE_MSI",
    "ARM_USE_CLI",
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
)
PLACE = {"storage_account_name": "oursites", "container_name": "c", "key": "k"}


@pytest.fixture(autouse=True)
def signed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all credentials: no variables, and no `az` or similar tools in the PATH."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HOME", "/nowhere")


def test_missing_sign_in_is_reported_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BackendProblem, match="not signed in"):
        open_azurerm(PLACE)
    assert capfd.readouterr() == ("", "")


def test_key_or_token_needs_no_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        open_azurerm({**PLACE, "access_key": "a2V5"})
        .describe()
        .startswith("https://oursites.blob.")
    )
    monkeypatch.setenv("ARM_SAS_TOKEN", "?sv=1&sig=x")
    assert create_blob_credential(PLACE, "oursites").signature == "sv=1&sig=x"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"use_oidc": True}, 'The setting "use_oidc" also needs client_id and tenant_id.'),
        ({"use_oidc": True, "client_id": "c"}, 'The setting "use_oidc" also needs tenant_id.'),
        ({"client_secret": "s"}, 'The setting "client_secret" also needs client_id and tenant_id.'),
    ],
)
def test_missing_settings_are_named(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(BackendProblem, match=complaint):
        open_azurerm({**PLACE, **settings})


def test_unavailable_oidc_token_is_reported() -> None:
    settings = {**PLACE, "use_oidc": True, "client_id": "c", "tenant_id": "t"}
    with pytest.raises(BackendProblem, match="id-token: write"):
        open_azurerm(settings)
    with pytest.raises(BackendProblem, match='The OIDC token "/nowhere/token" cannot be read'):
        open_azurerm({**settings, "oidc_token_file_path": "/nowhere/token"})


@pytest.mark.parametrize("name", ["no body", "no head", "an empty chunked body"])
def test_truncated_oidc_token_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_bad_server(CUT[name]) as server:
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", f"{server.address}/token?secret=1")
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "canary")
        with pytest.raises(
            BackendProblem, match=r"Cannot get the OIDC token of this job from http://127\.0\.0\.1"
        ) as refused:
            open_azurerm({**PLACE, "use_oidc": True, "client_id": "c", "tenant_id": "t"})
    assert "canary" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_job_token_is_not_sent_to_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_bad_server(build_redirect(302, "http://localhost:9/x")) as server:
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", f"{server.address}/token?v=1")
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "canary")
        with pytest.raises(BackendProblem, match="It is not followed"):
            open_azurerm({**PLACE, "use_oidc": True, "client_id": "c", "tenant_id": "t"})


def test_sign_in_sends_no_login_of_netrc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from azure.core.pipeline.transport import HttpRequest

    path = tmp_path / "netrc"
    path.write_text("default login someone password secret\n")
    path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(path))
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(204)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/"
            with build_sign_in_transport() as transport:
                transport.send(HttpRequest("GET", address))
                transport.send(HttpRequest("GET", address, {"Authorization": "Bearer t"}))
        finally:
            server.shutdown()
            thread.join()
    assert seen == [None, "Bearer t"]
