"""Tests of an Azure or key vault server with no response, a very slow one, or an invalid one.

Every command ends, and names the server.
"""

from __future__ import annotations

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
