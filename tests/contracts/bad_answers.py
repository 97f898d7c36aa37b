"""Invalid answers of a server, and a socket that sends them."""

from __future__ import annotations

import gzip
import itertools
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest
from msgspec import Struct, field

from nexusform.network import deadlines

# The connection, and the head of the request.
Answer = Callable[[socket.socket, bytes], None]


def build_raw_answer(content: bytes) -> Answer:
    """Send these bytes, and close."""
    return lambda connection, _head: connection.sendall(content)


def build_redirect(status: int, location: str) -> Answer:
    return build_raw_answer(
        b"HTTP/1.1 %d Elsewhere\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
        % (status, location.encode())
    )


def keep_silent(connection: socket.socket, _head: bytes) -> None:
    """Send nothing until the other side closes."""
    with suppress(OSError):
        while connection.recv(65536):
            pass


def reset_connection(connection: socket.socket, _head: bytes) -> None:
    """End the connection with a reset instead of an answer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def drip_body(connection: socket.socket, _head: bytes) -> None:
    """Send one byte at a time, forever."""
    with suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.1)


STATE: Final = (
    b'{"format":"nexusform","kind":"state","version":1,'
    b'"lineage":"11111111-2222-3333-4444-555555555555","serial":3}'
)

CUT: Final[dict[str, Answer]] = {
    "no body": build_raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 3409\r\n\r\n"),
    "half a body": build_raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 3409\r\n\r\n" + STATE),
    "no length and no body": build_raw_answer(b"HTTP/1.0 200 OK\r\n\r\n"),
    "an empty chunked body": build_raw_answer(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "half a chunk": build_raw_answer(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n" + STATE
    ),
    "no head": build_raw_answer(b""),
    "a reset": reset_connection,
    "half a head": build_raw_answer(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "half a body of a 404": build_raw_answer(
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\nNo"
    ),
}
GARBAGE: Final[dict[str, Answer]] = {
    "another protocol": build_raw_answer(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "an endless line": build_raw_answer(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"),
    "a hundred and one heads": build_raw_answer(
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 101 + b"\r\n"
    ),
    "a status of letters": build_raw_answer(b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n"),
    "a length of letters": build_raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
    "a length below nothing": build_raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"),
    "a coding that nobody asked for": build_raw_answer(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab"
    ),
    "control characters": build_raw_answer(b"\x1b[2J\x07\x00\xff\xfe\r\n\r\n"),
    "a page": build_raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>Hi</html>"),
    "a chunk of garbage": build_raw_answer(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc"
    ),
}


class BadServer(Struct):
    """Server with a fixed `answer`; `heads` are those of the received requests."""

    port: int = 0
    answer: Answer = keep_silent
    heads: list[bytes] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def shorten_deadline(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the time limit of an operation, which users set to a second or more."""
    read_seconds = deadlines.read_seconds

    def read_shorter(variable: str, *limits: int) -> float:
        return seconds if variable == deadlines.VARIABLE else read_seconds(variable, *limits)

    monkeypatch.setattr(deadlines, "read_seconds", read_shorter)


@contextmanager
def run_bad_server(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[BadServer]:
    """Answer every request in this way, from the first connection to the end of the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = BadServer(listening.getsockname()[1], answer)

    def serve_connection(connection: socket.socket) -> None:
        with suppress(OSError):
            connection = (
                tls.wrap_socket(connection, server_side=True) if tls is not None else connection
            )
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (part := connection.recv(65536)):
                head += part
            server.heads.append(head)
            server.answer(connection, head)

    def accept_connections() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=serve_connection, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept_connections, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(timeout=10)


# --- answers of API servers ----------------------------------------------------------------------


def build_document(content: bytes, *head: str, status: str = "200 OK") -> Answer:
    """Return an answer with this content."""
    lines = "".join(f"{line}\r\n" for line in head)
    return build_raw_answer(
        f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{lines}\r\n".encode() + content
    )


def drip_head(connection: socket.socket, _head: bytes) -> None:
    """Send the head one byte at a time, forever."""
    with suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            connection.sendall(b"x")
            time.sleep(0.1)


def build_endless_answer(start: bytes, part: bytes) -> Answer:
    """Return an answer with the same part again and again."""

    def send_answer(connection: socket.socket, _head: bytes) -> None:
        with suppress(OSError):
            connection.sendall(start)
            while True:
                connection.sendall(part)

    return send_answer


def build_endless_pages(token: Callable[[int], str]) -> Answer:
    """Return an answer with a page of a list and the token of the next one, forever."""
    numbers = itertools.count()

    def send_page(connection: socket.socket, head: bytes) -> None:
        text = token(next(numbers)).encode()
        lists = b'"items":[],"value":[],"nextLink":"/pages?t=%s"' % text
        content = b'{"kind":"List",%s,"metadata":{"continue":"%s"}}' % (lists, text)
        build_document(content, "Content-Type: application/json")(connection, head)

    return send_page


_JSON: Final = "Content-Type: application/json"
_CHUNKED: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_BOMB: Final = gzip.compress(b" " * (1 << 26))
WRONG: Final[dict[str, Answer]] = {
    "a dripping head": drip_head,
    "an endless body": build_endless_answer(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536),
    "endless chunks": build_endless_answer(_CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n"),
    "endless early hints": build_endless_answer(
        b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100
    ),
    "a gzip bomb": build_document(_BOMB, _JSON, "Content-Encoding: gzip"),
    "brotli": build_document(b"{}", _JSON, "Content-Encoding: br"),
    "a sign-in page": build_document(
        b"<!DOCTYPE html><form>Sign in</form>", "Content-Type: text/html"
    ),
    "a page instead of rights": build_document(
        b"<html>no</html>", "Content-Type: text/html", status="403 Forbidden"
    ),
    "a page of a proxy": build_document(
        b"<html>bad</html>", "Content-Type: text/html", status="502 Bad Gateway"
    ),
    "a page instead of signing in": build_document(
        b"<html/>", "Content-Type: text/html", status="401 Unauthorized"
    ),
    "later, in a century": build_document(
        b"{}", _JSON, "Retry-After: 3153600000", status="429 Too Many Requests"
    ),
    "a huge error": build_document(b"x" * (1 << 23), status="500 Internal Server Error"),
    "nothing": build_document(b"null", _JSON),
    "a list": build_document(b"[]", _JSON),
    "a text": build_document(b'"x"', _JSON),
    "no items": build_document(b'{"kind":"List","items":null,"value":7,"metadata":{}}', _JSON),
    "items of nothing": build_document(
        b'{"kind":"List","items":[null],"value":[null],"metadata":{}}', _JSON
    ),
    "metadata of letters": build_document(
        b'{"kind":"X","items":[],"value":"x","metadata":"x"}', _JSON
    ),
    "many brackets": build_document(b"[" * 200_000, _JSON),
    "many closed brackets": build_document(b'{"items":' + b"[" * 5000 + b"]" * 5000 + b"}", _JSON),
    "an unknown charset": build_document(
        b"\xff{}", "Content-Type: application/json; charset=rot13"
    ),
    "sixteen bits": build_document('{"items":[]}'.encode("utf-16"), _JSON),
    "a long number": build_document(b'{"items":' + b"9" * 10_000 + b"}", _JSON),
    "pages without end": build_endless_pages(lambda number: f"t{number}"),
    "the same page again": build_endless_pages(lambda _number: "t"),
    "a redirect to itself": build_redirect(302, "/s"),
    "a redirect to nowhere": build_raw_answer(b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n"),
    "two lengths": build_raw_answer(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 200\r\n\r\n{}"
    ),
}
