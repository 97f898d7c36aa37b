"""Tests of an Azure or key vault server with no response, a very slow one, or an invalid one.

Every command ends, and names the server.
"""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path

import pytest

from nexusform.encryption import key_providers
from nexusform.encryption.key_providers import EncryptionProblem
from tests.contracts.bad_answers import (
    CUT,
    GARBAGE,
    Answer,
    build_redirect,
    drip_body,
    keep_silent,
    run_bad_server,
    shorten_deadline,
)
from tests.domains.azure.providers.arm_server import ArmServer
from tests.domains.azure.providers.azure_sites import CommandRunner

ANSWERS: dict[str, Answer] = {
    "silent": keep_silent,
    "dripping": drip_body,
    "redirecting": build_redirect(302, "https://127.0.0.1:9/x"),
    "no body": CUT["no body"],
    "no head": CUT["no head"],
    "half a body": CUT["half a body"],
    "another protocol": GARBAGE["another protocol"],
    "a page": GARBAGE["a page"],
    "control characters": GARBAGE["control characters"],
}
# seconds; each request has a deadline below one, on a shared machine.
PATIENCE = 90


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.parametrize("answer", ANSWERS)
def test_commands_respect_the_deadline_for_azure(
    answer: str, nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(server.certificate).parent
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(server.certificate, next(folder.glob("*key*")))
    before = Path("state/nexusform.nfstate").read_bytes()
    shorten_deadline(monkeypatch, 0.4)
    with run_bad_server(ANSWERS[answer], tls) as bad:
        monkeypatch.setenv("NF_AZURE_ENDPOINT", f"https://localhost:{bad.port}")
        for words in (["plan"], ["apply", "-auto-approve"], ["reconcile", "-from=azure"]):
            begun = time.monotonic()
            assert nexusform(*words) == 1, nexusform.said
            assert time.monotonic() - begun < PATIENCE
            said = " ".join(nexusform.said.replace("│", " ").split())
            assert "a Internal error" not in said
            assert "Azure cannot be read" in said, said
            assert "localhost" in said or answer not in ("silent", "dripping"), said
    assert Path("state/nexusform.nfstate").read_bytes() == before


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.parametrize("answer", ["silent", "dripping", "a page"])
def test_key_vault_request_respects_the_deadline(
    answer: str, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(server.certificate).parent
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(server.certificate, next(folder.glob("*key*")))
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    shorten_deadline(monkeypatch, 0.4)
    with run_bad_server(ANSWERS[answer], tls) as bad:
        begun = time.monotonic()
        with pytest.raises(EncryptionProblem) as refused:
            key_providers.wrap_key(f"https://localhost:{bad.port}/keys/k", b"0" * 32)
        assert time.monotonic() - begun < PATIENCE
    said = str(refused.value)
    assert "localhost" in said, said
    if answer != "a page":
        assert "NF_NET_DEADLINE" in said


def test_password_of_a_netrc_file_is_not_sent_to_a_key_vault(
    server: ArmServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine localhost login me password canary\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(server.certificate))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(server.certificate, next(Path(server.certificate).parent.glob("*key*")))
    heads: list[bytes] = []

    def reject(connection: socket.socket, head: bytes) -> None:
        heads.append(head)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with run_bad_server(reject, tls) as vault, pytest.raises(EncryptionProblem):
        key_providers.wrap_key(f"https://localhost:{vault.port}/keys/k", b"0" * 32)
    assert heads
    assert all(b"authorization" not in head.lower() for head in heads)
