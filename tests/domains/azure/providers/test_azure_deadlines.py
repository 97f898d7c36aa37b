"""Azure and a key vault keep silent, drip, or answer something else: every command ends, and says who did."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest

from nexusform.encryption import key_providers
from nexusform.encryption.key_providers import EncryptionProblem
from tests.contracts.bad_answers import CUT, GARBAGE, Answer, bad_server, dripping, redirect, silent
from tests.domains.azure.providers.arm_server import ArmServer
from tests.domains.azure.providers.azure_sites import Told

ANSWERS: dict[str, Answer] = {
    "silent": silent,
    "dripping": dripping,
    "redirecting": redirect(302, "https://127.0.0.1:9/x"),
    "no body": CUT["no body"],
    "no head": CUT["no head"],
    "half a body": CUT["half a body"],
    "another protocol": GARBAGE["another protocol"],
    "a page": GARBAGE["a page"],
    "control characters": GARBAGE["control characters"],
}
PATIENCE = 90  # seconds; each is given two, on a machine that others use


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("answer", ANSWERS)
def test_azure_is_waited_for_no_longer_than_that(
    answer: str, nexusform: Told, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(server.certificate).parent
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(server.certificate, next(folder.glob("*key*")))
    before = Path("state/nexusform.nfstate").read_bytes()
    monkeypatch.setenv("NF_NET_DEADLINE", "2")
    with bad_server(ANSWERS[answer], tls) as bad:
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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("answer", ["silent", "dripping", "a page"])
def test_a_key_vault_is_waited_for_no_longer_than_that(
    answer: str, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(server.certificate).parent
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(server.certificate, next(folder.glob("*key*")))
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NF_NET_DEADLINE", "2")
    with bad_server(ANSWERS[answer], tls) as bad:
        begun = time.monotonic()
        with pytest.raises(EncryptionProblem) as refused:
            key_providers.wrap_key(f"https://localhost:{bad.port}/keys/k", b"0" * 32)
        assert time.monotonic() - begun < PATIENCE
    said = str(refused.value)
    assert "localhost" in said, said
    if answer != "a page":
        assert "NF_NET_DEADLINE" in said
