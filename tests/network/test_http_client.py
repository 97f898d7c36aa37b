"""Tests of the HTTP client with truncated, redirected, invalid, slow or missing answers."""

import re
import socket
import time
from pathlib import Path

import pytest

from nexusform.backends.backend_definition import Directories
from nexusform.backends.registry import BACKENDS
from nexusform.domains.remote_state.backends.http import HttpBackend, HttpSettings
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network.http_client import WebRequest, send_request
from nexusform.network.limited_session import build_limited_session
from nexusform.network.web_errors import WebError
from tests.contracts.bad_answers import (
    CUT,
    GARBAGE,
    STATE,
    build_document,
    build_raw_answer,
    build_redirect,
    drip_body,
    keep_silent,
    run_bad_server,
)

BAD = CUT | {name: answer for name, answer in GARBAGE.items() if name != "a page"}


def open_http_backend(address: str, directory: Path) -> HttpBackend:
    service = HttpSettings(f"{address}/lon1", lock_address=f"{address}/lon1/lock", pause=0.01)
    return HttpBackend(service, str(directory))


@pytest.mark.parametrize("name", BAD)
def test_invalid_answers_are_not_treated_as_missing_state(name: str, tmp_path: Path) -> None:
    with run_bad_server(BAD[name]) as server:
        with pytest.raises(
            BackendProblem, match=r"^Cannot read the state at http://127.0.0.1:"
        ) as refused:
            open_http_backend(server.address, tmp_path).read()
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"],
)
def test_missing_state_is_recognized(answer: bytes, tmp_path: Path) -> None:
    with run_bad_server(build_raw_answer(answer)) as server:
        assert open_http_backend(server.address, tmp_path).read() is None


def test_body_ended_by_closed_connection_is_read(tmp_path: Path) -> None:
    """HTTP/1.0 has no other end mark; the reader checks the document for completeness."""
    with run_bad_server(build_raw_answer(b"HTTP/1.0 200 OK\r\n\r\n" + STATE)) as server:
        assert open_http_backend(server.address, tmp_path).read() == STATE


@pytest.mark.parametrize("name", CUT)
def test_truncated_answer_is_requested_again(name: str, tmp_path: Path) -> None:
    whole = build_raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(STATE) + STATE)
    with run_bad_server(CUT[name]) as server:
        cut = server.answer

        def send_answer(connection: socket.socket, head: bytes) -> None:
            (cut if len(server.heads) < 3 else whole)(connection, head)

        server.answer = send_answer
        assert open_http_backend(server.address, tmp_path).read() == STATE
        assert len(server.heads) == 3


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_writes_follow_no_redirect(status: int) -> None:
    with run_bad_server(build_redirect(status, "/elsewhere")) as server:
        with pytest.raises(
            BackendProblem, match=rf"answered {status}, a redirect .*followed for GET only"
        ):
            send_write(server.address)
        assert [head.split()[0] for head in server.heads] == [b"POST"]


def send_write(address: str) -> None:
    service = HttpSettings(f"{address}/lon1", pause=0.01)
    HttpBackend(service, "unused")._send_request(
        "POST", f"{address}/lon1", "write the state", b"{}"
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_are_sent_to_no_other_host(status: int, tmp_path: Path) -> None:
    with run_bad_server(
        build_raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    ) as other:
        with run_bad_server(build_redirect(status, f"{other.address}/lon1")) as server:
            service = HttpSettings(f"{server.address}/lon1", username="me", password="secret")
            with pytest.raises(
                BackendProblem,
                match=rf"a redirect to {re.escape(other.address)}\. It is not followed",
            ):
                HttpBackend(service, str(tmp_path)).read()
        assert other.heads == []
        assert len(server.heads) == 1


@pytest.mark.parametrize(
    "where", ["ftp://127.0.0.1/x", "file:///etc/passwd", "https:///x", "http://[::1/x"]
)
def test_redirect_to_invalid_address_is_rejected(where: str, tmp_path: Path) -> None:
    refused = pytest.raises(BackendProblem, match="redirect to an invalid address")
    with run_bad_server(build_redirect(302, where)) as server, refused:
        open_http_backend(server.address, tmp_path).read()


def test_read_follows_redirect_within_one_origin(tmp_path: Path) -> None:
    with run_bad_server(build_redirect(302, "/there")) as server:
        first = server.answer
        there = build_raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        server.answer = lambda connection, head: (there if b" /there " in head else first)(
            connection, head
        )
        assert open_http_backend(server.address, tmp_path).read() == b"{}"
        server.answer = first
        with pytest.raises(BackendProblem, match="redirected more than 5 times"):
            open_http_backend(server.address, tmp_path).read()


@pytest.mark.parametrize(
    "address", ["http://a b/", "http://h:port/", "http://[::1/", "gopher://h/", "http://h/\n"]
)
def test_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(WebError):
        send_request(WebRequest("GET", address))


@pytest.mark.parametrize("answer", [keep_silent, drip_body])
@pytest.mark.parametrize("call", ["read", "lock", "holder", "write"])
def test_slow_server_is_abandoned_after_deadline(
    answer: object, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.contracts.test_backend_contract import build_lock_info

    monkeypatch.setenv("NF_NET_DEADLINE", "1")
    with run_bad_server(answer) as server:  # type: ignore[arg-type]
        settings = {"address": f"{server.address}/s", "lock_address": f"{server.address}/s/lock"}
        backend = BACKENDS["http"].open_backend(settings, Directories(str(tmp_path), str(tmp_path)))
        asked = {
            "read": backend.read,
            "lock": lambda: backend.lock(build_lock_info()),
            "holder": backend.read_lock,
            "write": lambda: backend.write(b"{}"),
        }
        begun = time.monotonic()
        with pytest.raises(BackendProblem, match=rf"at {server.address}/s: .* [0-9]+ s") as refused:
            asked[call]()
        # 180 seconds or more without a deadline.
        assert time.monotonic() - begun < 30
        assert "NF_NET_DEADLINE" in str(refused.value) or "no data received" in str(refused.value)


@pytest.mark.parametrize("text", ["0", "soon", "-1", "1e3", "999999"])
def test_invalid_deadline_is_rejected(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_NET_DEADLINE", text)
    with pytest.raises(BackendProblem, match="NF_NET_DEADLINE"):
        BACKENDS["http"].open_backend(
            {"address": "http://127.0.0.1:9/s"}, Directories(str(tmp_path), str(tmp_path))
        ).read()


def test_session_uses_proxy_of_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with run_bad_server(build_document(b"{}")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.address)
        session = build_limited_session("http://hub.example.com")
        assert session.get("http://hub.example.com/api", timeout=20).json() == {}
        assert proxy.heads[0].startswith(b"GET http://hub.example.com/api ")
