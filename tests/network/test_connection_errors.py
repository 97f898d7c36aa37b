"""Tests of connection errors: plain words without terms of Python, OpenSSL and client libraries.

Each client library wraps the errors of the system in its own way.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from nexusform.network.connection_errors import describe_connection_error
from nexusform.network.http_client import WebRequest, send_request
from nexusform.network.web_errors import WebError
from tests.certificates import create_certificate

Answer = Callable[[socket.socket], None]
# seconds until a test's request ends.
TIMEOUT = 0.5


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


# --- one request of each client library ----------------------------------------------------------


def request_with_httpx(url: str, **more: Any) -> str:
    from httpx2 import Client, HTTPError, Timeout

    with Client(timeout=Timeout(TIMEOUT), **more) as client, pytest.raises(HTTPError) as raised:
        client.get(url)
    return describe_connection_error(raised.value)


def request_with_own_client(url: str) -> str:
    with pytest.raises(WebError) as raised:
        send_request(WebRequest("GET", url))
    return str(raised.value)


def request_with_azure_sdk(url: str) -> str:
    from azure.core.exceptions import AzureError
    from azure.core.pipeline.transport import HttpRequest, RequestsTransport

    limits = {"connection_timeout": TIMEOUT, "read_timeout": TIMEOUT}
    with RequestsTransport() as transport, pytest.raises(AzureError) as raised:
        transport.send(HttpRequest("GET", url), **limits)
    return describe_connection_error(raised.value)


def request_with_boto(url: str) -> str:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    limits: Any = {"connect_timeout": TIMEOUT, "read_timeout": TIMEOUT}
    client = boto3.client(
        "s3",
        region_name="eu-west-1",
        endpoint_url=url,
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries={"total_max_attempts": 1}, **limits),
    )
    with closing(client), pytest.raises(BotoCoreError) as raised:
        client.list_buckets()
    return describe_connection_error(raised.value)


CLIENTS = {
    "httpx2": request_with_own_client,
    "azure.core": request_with_azure_sdk,
    "boto3": request_with_boto,
}


@pytest.fixture(params=CLIENTS)
def request_failing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """Return a function of each client library that sends a request and describes its error."""
    pytest.importorskip(request.param)
    monkeypatch.setattr("nexusform.network.http_client.compute_silence_limit", lambda: TIMEOUT)
    return CLIENTS[request.param]


@pytest.mark.parametrize(
    ("scheme", "answer", "words"),
    [
        ("https", reset_connection, "the connection was reset"),
        ("http", reset_connection, "the connection was reset"),
        ("https", close_after_request, "the connection was broken off"),
        ("http", close_after_request, "the connection was broken off"),
        ("https", answer_without_tls, "what answers there does not speak TLS"),
    ],
)
def test_broken_connection_is_described(
    request_failing: Callable[[str], str], scheme: str, answer: Answer, words: str
) -> None:
    with server(answer) as port:
        assert request_failing(f"{scheme}://127.0.0.1:{port}/") == words


def test_closed_port_refuses_the_connection(request_failing: Callable[[str], str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    assert request_failing(url) == "the connection was refused"


def test_unknown_name_is_described(request_failing: Callable[[str], str]) -> None:
    words = "its name (?:is not known|cannot be looked up now)"
    assert re.fullmatch(words, request_failing("http://unknown.invalid/"))


def test_proxy_that_cannot_be_used_is_named(
    request_failing: Callable[[str], str],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed.getsockname()[1]}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    words = "the connection was refused"
    # Others do not say whether the proxy or the server refused.
    if "azure" in request.node.name or "boto3" in request.node.name:
        words = f"the proxy of the environment cannot be used: {words}"
    assert request_failing("http://unknown.invalid/") == words


def test_silent_server_does_not_answer(request_failing: Callable[[str], str]) -> None:
    held: list[socket.socket] = []
    with server(held.append) as port, close_sockets(held):
        said = request_failing(f"http://127.0.0.1:{port}/")
    assert re.fullmatch(
        r"it does not answer \(waiting for its answer timed out\)|no data received for \d+ s", said
    )


def test_silent_handshake_is_described() -> None:
    held: list[socket.socket] = []
    with server(held.append) as port, close_sockets(held):
        words = "it does not answer (the TLS handshake timed out)"
        assert request_with_httpx(f"https://127.0.0.1:{port}/") == words


def test_response_without_its_end_is_described() -> None:
    with server(close_in_response_body) as port:
        said = request_with_httpx(f"http://127.0.0.1:{port}/")
    assert said == "the connection was broken off"


@contextmanager
def tls_server(folder: Path, *, wants_certificate: bool = False) -> Iterator[tuple[int, Path]]:
    """Serve TLS with a certificate that nobody trusts; yield the port and the certificate."""
    certificate, key = create_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate)

    def answer(connection: socket.socket) -> None:
        with connection, context.wrap_socket(connection, server_side=True) as over_tls:
            over_tls.recv(1)

    with server(answer) as port:
        yield port, Path(certificate)


def test_untrusted_certificate_is_described(
    request_failing: Callable[[str], str], tmp_path: Path
) -> None:
    with tls_server(tmp_path) as (port, _):
        said = request_failing(f"https://127.0.0.1:{port}/")
    assert said == "its certificate is not trusted: self-signed certificate"


def test_missing_client_certificate_is_described(tmp_path: Path) -> None:
    with tls_server(tmp_path, wants_certificate=True) as (port, certificate):
        trusting = ssl.create_default_context(cafile=str(certificate))
        said = request_with_httpx(f"https://127.0.0.1:{port}/", verify=trusting)
    assert said == "it wants a client certificate"


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (
            socket.gaierror(socket.EAI_AGAIN, "Temporary failure"),
            "its name cannot be looked up now",
        ),
        (OSError(113, "No route to host"), "No route to host"),
        (ssl.SSLError(1, "[SSL: BAD_LENGTH] bad length (_ssl.c:2580)"), "TLS failed: bad length"),
        # Of CPython 3.11.2 for the end of a connection in a handshake.
        (
            ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)"),
            "the connection was broken off",
        ),
    ],
)
def test_system_error_is_described_without_its_number(cause: OSError, words: str) -> None:
    problem = ConnectionError(str(cause))
    problem.__cause__ = cause
    assert describe_connection_error(problem) == words


def test_other_errors_keep_their_message() -> None:
    assert (
        describe_connection_error(RuntimeError("The plug-in gives no token.\nmore"))
        == "The plug-in gives no token"
    )
