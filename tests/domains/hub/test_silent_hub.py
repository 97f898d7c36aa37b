"""Tests of connection errors.

An unreachable hub is reported in plain words, without Python and OpenSSL terms.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from nexusform.domains.hub.api.hub_client import (
    ClientClock,
    HubClient,
    HubLocation,
    HubProblem,
    _is_kubernetes_object,
)
from nexusform.network.api_client import describe_connection_error
from tests.certificates import create_certificate

pytest.importorskip("lightkube")

Answer = Callable[[socket.socket], None]

KUBECONFIG = """
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{}}}}]
"""


@contextmanager
def server(answer: Answer) -> Iterator[int]:
    """Serve a port that handles each connection with this function."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with suppress(OSError):
                    answer(connection)

        Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


@contextmanager
def close_sockets(sockets: Iterable[socket.socket]) -> Iterator[None]:
    yield
    for each in sockets:
        each.close()


def reset_connection(connection: socket.socket) -> None:
    connection.recv(10)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def close_after_request(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.close()


def answer_without_tls(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connection.close()


def close_in_response_body(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc")
    connection.close()


def describe_failed_request(url: str, **more: Any) -> str:
    """Return the description of a failed request."""
    from httpx2 import Client, HTTPError, Timeout

    with Client(timeout=Timeout(0.5), **more) as client, pytest.raises(HTTPError) as raised:
        client.get(url)
    return describe_connection_error(raised.value)


@pytest.mark.parametrize(
    ("scheme", "answer", "words"),
    [
        ("https", reset_connection, "the connection was reset"),
        ("http", reset_connection, "the connection was reset"),
        ("https", close_after_request, "the connection was broken off"),
        ("http", close_after_request, "the connection was broken off"),
        ("http", close_in_response_body, "the connection was broken off"),
        ("https", answer_without_tls, "what answers there does not speak TLS"),
    ],
)
def test_broken_connection_is_described(scheme: str, answer: Answer, words: str) -> None:
    with server(answer) as port:
        assert describe_failed_request(f"{scheme}://127.0.0.1:{port}/") == words


def test_end_of_connection_in_handshake_is_described_alike_by_every_python() -> None:
    """CPython 3.11.2 raises another error than 3.11.7 for it."""
    from httpx2 import ConnectError

    problem = ConnectError("no connection")
    problem.__cause__ = ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)")
    assert describe_connection_error(problem) == "the connection was broken off"


def test_silent_server_does_not_answer() -> None:
    held: list[socket.socket] = []
    with server(held.append) as port, close_sockets(held):
        words = "it does not answer (the TLS handshake timed out)"
        assert describe_failed_request(f"https://127.0.0.1:{port}/") == words
        words = "it does not answer (waiting for its answer timed out)"
        assert describe_failed_request(f"http://127.0.0.1:{port}/") == words


def test_untrusted_or_missing_certificates_are_described(tmp_path: Path) -> None:
    certificate, key = create_certificate(tmp_path)
    wants = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    wants.load_cert_chain(certificate, key)

    def answer(connection: socket.socket) -> None:
        with connection, wants.wrap_socket(connection, server_side=True) as over_tls:
            over_tls.recv(1)

    with server(answer) as port:
        said = describe_failed_request(f"https://127.0.0.1:{port}/")
        assert said == "its certificate is not trusted: self-signed certificate"
        wants.verify_mode = ssl.CERT_REQUIRED
        wants.load_verify_locations(certificate)
        trusting = ssl.create_default_context(cafile=str(certificate))
        said = describe_failed_request(f"https://127.0.0.1:{port}/", verify=trusting)
        assert said == "it wants a client certificate"


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "its name is not known"),
        (
            socket.gaierror(socket.EAI_AGAIN, "Temporary failure"),
            "its name cannot be looked up now",
        ),
        (OSError(113, "No route to host"), "No route to host"),
        (ssl.SSLError(1, "[SSL: BAD_LENGTH] bad length (_ssl.c:2580)"), "TLS failed: bad length"),
    ],
)
def test_system_error_is_described_without_its_number(cause: OSError, words: str) -> None:
    from httpx2 import ConnectError

    problem = ConnectError(str(cause))
    problem.__cause__ = cause
    assert describe_connection_error(problem) == words


def test_other_errors_keep_their_message() -> None:
    assert (
        describe_connection_error(RuntimeError("The plug-in gives no token.\nmore"))
        == "The plug-in gives no token"
    )


def test_hub_without_listener_refuses_the_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(url=url))
    times = iter(range(0, 1000, 100))
    hub = HubClient(
        HubLocation(str(tmp_path / "kubeconfig")),
        ClientClock(lambda _: None, lambda: float(next(times))),
    )
    with pytest.raises(HubProblem) as raised:
        hub.get("/version")
    hub.close()
    assert str(raised.value) == f"{url} cannot be reached: the connection was refused."


def test_retries_are_reported_until_end_of_step(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(url=url))
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    hub = HubClient(HubLocation(str(tmp_path / "kubeconfig")), ClientClock(sleep, lambda: now))
    hub._has_answered = True
    messages: list[str] = []
    with hub.limit_retries(20, messages.append), pytest.raises(HubProblem):
        hub.get("/version")
    hub.close()
    # It is less than the 90 s of a plan.
    assert 10 < now <= 20
    (message,) = messages
    assert message.startswith(
        f"{url} cannot be reached: the connection was refused; retried until "
    )


@pytest.mark.parametrize(
    ("item", "is_object"),
    [
        ({"kind": "Widget", "metadata": {"name": "w"}, "spec": [], "status": ""}, True),
        ({"metadata": {"labels": [], "managedFields": {}}}, True),
        ({"spec": "x"}, False),
        ({"metadata": "x"}, False),
        ([], False),
    ],
)
def test_empty_parts_of_any_type_count_as_absent(item: Any, is_object: bool) -> None:
    """Custom resources without a schema may have them; one must not reject a whole list."""
    assert _is_kubernetes_object(item) is is_object
