"""What our HTTP client makes of servers that answer half, elsewhere, something else, slowly or never."""

import re
import socket
import time
from pathlib import Path

import pytest

from nexusform.backends.registry import BACKENDS, Directories
from nexusform.domains.remote_state.backends.http import HttpBackend, HttpSettings
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network.http_client import WebRequest, send_request
from nexusform.network.web_errors import WebError
from tests.contracts.bad_answers import CUT, GARBAGE, STATE, bad_server, dripping, raw, redirect, silent

BAD = CUT | {name: answer for name, answer in GARBAGE.items() if name != "a page"}


def backend_of(address: str, directory: Path) -> HttpBackend:
    service = HttpSettings(f"{address}/lon1", lock_address=f"{address}/lon1/lock", pause=0.01)
    return HttpBackend(service, str(directory))


@pytest.mark.parametrize("name", BAD)
def test_no_state_is_only_what_the_server_calls_so(name: str, tmp_path: Path) -> None:
    with bad_server(BAD[name]) as server:
        with pytest.raises(BackendProblem, match=r"^Cannot read the state at http://127.0.0.1:") as refused:
            backend_of(server.address, tmp_path).read()
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_these_are_no_state(answer: bytes, tmp_path: Path) -> None:
    with bad_server(raw(answer)) as server:
        assert backend_of(server.address, tmp_path).read() is None


def test_a_body_that_ends_with_the_connection_is_read(tmp_path: Path) -> None:
    """HTTP/1.0 has no other end; whether the document is whole is then for its reader to see."""
    with bad_server(raw(b"HTTP/1.0 200 OK\r\n\r\n" + STATE)) as server:
        assert backend_of(server.address, tmp_path).read() == STATE


@pytest.mark.parametrize("name", CUT)
def test_a_cut_answer_is_asked_for_again(name: str, tmp_path: Path) -> None:
    whole = raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(STATE) + STATE)
    with bad_server(CUT[name]) as server:
        cut = server.answer

        def answer(connection: socket.socket, head: bytes) -> None:
            (cut if len(server.heads) < 3 else whole)(connection, head)

        server.answer = answer
        assert backend_of(server.address, tmp_path).read() == STATE
        assert len(server.heads) == 3


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_what_is_written_follows_no_redirect(status: int) -> None:
    with bad_server(redirect(status, "/elsewhere")) as server:
        with pytest.raises(BackendProblem, match=rf"answered {status}, a redirect .*followed for GET only"):
            ask_to_write(server.address)
        assert [head.split()[0] for head in server.heads] == [b"POST"]


def ask_to_write(address: str) -> None:
    service = HttpSettings(f"{address}/lon1", pause=0.01)
    HttpBackend(service, "unused")._send_request("POST", f"{address}/lon1", "write the state", b"{}")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_go_to_no_other_host(status: int, tmp_path: Path) -> None:
    with bad_server(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")) as other:
        with bad_server(redirect(status, f"{other.address}/lon1")) as server:
            service = HttpSettings(f"{server.address}/lon1", username="me", password="secret")
            with pytest.raises(BackendProblem, match=rf"a redirect to {re.escape(other.address)}\. It is not followed"):
                HttpBackend(service, str(tmp_path)).read()
        assert other.heads == []
        assert len(server.heads) == 1


@pytest.mark.parametrize("where", ["ftp://127.0.0.1/x", "file:///etc/passwd", "https:///x", "http://[::1/x"])
def test_a_redirect_leads_to_the_web_or_nowhere(where: str, tmp_path: Path) -> None:
    refused = pytest.raises(BackendProblem, match="redirect to an invalid address")
    with bad_server(redirect(302, where)) as server, refused:
        backend_of(server.address, tmp_path).read()


def test_a_read_follows_a_redirect_within_one_origin(tmp_path: Path) -> None:
    with bad_server(redirect(302, "/there")) as server:
        first = server.answer
        there = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        server.answer = lambda connection, head: (there if b" /there " in head else first)(connection, head)
        assert backend_of(server.address, tmp_path).read() == b"{}"
        server.answer = first
        with pytest.raises(BackendProblem, match="redirected more than 5 times"):
            backend_of(server.address, tmp_path).read()


@pytest.mark.parametrize("address", ["http://a b/", "http://h:port/", "http://[::1/", "gopher://h/", "http://h/\n"])
def test_an_address_that_is_none_is_said_so(address: str) -> None:
    with pytest.raises(WebError):
        send_request(WebRequest("GET", address))


@pytest.mark.parametrize("answer", [silent, dripping])
@pytest.mark.parametrize("call", ["read", "lock", "holder", "write"])
def test_a_server_that_keeps_one_waiting_is_given_up(
    answer: object, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.contracts.test_backend_contract import info

    monkeypatch.setenv("NF_NET_DEADLINE", "1")
    with bad_server(answer) as server:  # type: ignore[arg-type]
        settings = {"address": f"{server.address}/s", "lock_address": f"{server.address}/s/lock"}
        backend = BACKENDS["http"].open_backend(settings, Directories(str(tmp_path), str(tmp_path)))
        asked = {
            "read": backend.read,
            "lock": lambda: backend.lock(info()),
            "holder": backend.read_lock,
            "write": lambda: backend.write(b"{}"),
        }
        begun = time.monotonic()
        with pytest.raises(BackendProblem, match=rf"at {server.address}/s: .* [0-9]+ s") as refused:
            asked[call]()
        assert time.monotonic() - begun < 30  # 180 and more without a deadline
        assert "NF_NET_DEADLINE" in str(refused.value) or "no data received" in str(refused.value)


@pytest.mark.parametrize("text", ["0", "soon", "-1", "1e3", "999999"])
def test_a_deadline_is_a_number_of_seconds(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_NET_DEADLINE", text)
    with pytest.raises(BackendProblem, match="NF_NET_DEADLINE"):
        BACKENDS["http"].open_backend(
            {"address": "http://127.0.0.1:9/s"}, Directories(str(tmp_path), str(tmp_path))
        ).read()
