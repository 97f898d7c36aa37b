"""What a server may answer instead of what it was asked for, as a socket that answers so."""

from __future__ import annotations

import gzip
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from msgspec import Struct, field

Answer = Callable[[socket.socket, bytes], None]  # the connection, and the request's head


def raw(content: bytes) -> Answer:
    """These bytes, and the end."""
    return lambda connection, _head: connection.sendall(content)


def redirect(status: int, location: str) -> Answer:
    return raw(b"HTTP/1.1 %d Elsewhere\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, location.encode()))


def silent(connection: socket.socket, _head: bytes) -> None:
    """Not a byte, until the other side goes."""
    with suppress(OSError):
        while connection.recv(65536):
            pass


def dripping(connection: socket.socket, _head: bytes) -> None:
    """A byte now and then, for ever."""
    with suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.1)


STATE: Final = (
    b'{"format":"nexusform","kind":"state","version":1,"lineage":"11111111-2222-3333-4444-555555555555","serial":3}'
)

CUT: Final[dict[str, Answer]] = {
    "no body": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3409\r\n\r\n"),
    "half a body": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3409\r\n\r\n" + STATE),
    "no length and no body": raw(b"HTTP/1.0 200 OK\r\n\r\n"),
    "an empty chunked body": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "half a chunk": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n" + STATE),
    "no head": raw(b""),
    "half a head": raw(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "half a body of a 404": raw(b"HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\nNo"),
}
GARBAGE: Final[dict[str, Answer]] = {
    "another protocol": raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "an endless line": raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"),
    "a hundred and one heads": raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 101 + b"\r\n"),
    "a status of letters": raw(b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n"),
    "a length of letters": raw(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
    "a length below nothing": raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"),
    "a coding that nobody asked for": raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab"),
    "control characters": raw(b"\x1b[2J\x07\x00\xff\xfe\r\n\r\n"),
    "a page": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>Hi</html>"),
    "a chunk of garbage": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc"),
}


class BadServer(Struct):
    """Answers with `answer`; `heads` are those of the requests that came."""

    port: int = 0
    answer: Answer = silent
    heads: list[bytes] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def bad_server(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[BadServer]:
    """A server that answers every request so, from its first connection to the end of the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = BadServer(listening.getsockname()[1], answer)

    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            connection = tls.wrap_socket(connection, server_side=True) if tls is not None else connection
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (part := connection.recv(65536)):
                head += part
            server.heads.append(head)
            server.answer(connection, head)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(timeout=10)


# --- answers of API servers ----------------------------------------------------------------------


def document(content: bytes, *head: str, status: str = "200 OK") -> Answer:
    """An answer with this content."""
    lines = "".join(f"{line}\r\n" for line in head)
    return raw(f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{lines}\r\n".encode() + content)


def dripping_head(connection: socket.socket, _head: bytes) -> None:
    """A byte of the head now and then, for ever."""
    with suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            connection.sendall(b"x")
            time.sleep(0.1)


def endless(start: bytes, part: bytes) -> Answer:
    """The same part again and again."""

    def answer(connection: socket.socket, _head: bytes) -> None:
        with suppress(OSError):
            connection.sendall(start)
            while True:
                connection.sendall(part)

    return answer


def pages(token: Callable[[int], str]) -> Answer:
    """A page of a list, and the token of the next one, for ever."""
    numbers = itertools.count()

    def answer(connection: socket.socket, head: bytes) -> None:
        text = token(next(numbers)).encode()
        lists = b'"items":[],"value":[],"nextLink":"/pages?t=%s"' % text
        content = b'{"kind":"List",%s,"metadata":{"continue":"%s"}}' % (lists, text)
        document(content, "Content-Type: application/json")(connection, head)

    return answer


_JSON: Final = "Content-Type: application/json"
_CHUNKED: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_BOMB: Final = gzip.compress(b" " * (1 << 26))
WRONG: Final[dict[str, Answer]] = {
    "a dripping head": dripping_head,
    "an endless body": endless(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536),
    "endless chunks": endless(_CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n"),
    "endless early hints": endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100),
    "a gzip bomb": document(_BOMB, _JSON, "Content-Encoding: gzip"),
    "brotli": document(b"{}", _JSON, "Content-Encoding: br"),
    "a sign-in page": document(b"<!DOCTYPE html><form>Sign in</form>", "Content-Type: text/html"),
    "a page instead of rights": document(b"<html>no</html>", "Content-Type: text/html", status="403 Forbidden"),
    "a page of a proxy": document(b"<html>bad</html>", "Content-Type: text/html", status="502 Bad Gateway"),
    "a page instead of signing in": document(b"<html/>", "Content-Type: text/html", status="401 Unauthorized"),
    "later, in a century": document(b"{}", _JSON, "Retry-After: 3153600000", status="429 Too Many Requests"),
    "a huge error": document(b"x" * (1 << 23), status="500 Internal Server Error"),
    "nothing": document(b"null", _JSON),
    "a list": document(b"[]", _JSON),
    "a text": document(b'"x"', _JSON),
    "no items": document(b'{"kind":"List","items":null,"value":7,"metadata":{}}', _JSON),
    "items of nothing": document(b'{"kind":"List","items":[null],"value":[null],"metadata":{}}', _JSON),
    "metadata of letters": document(b'{"kind":"X","items":[],"value":"x","metadata":"x"}', _JSON),
    "many brackets": document(b"[" * 200_000, _JSON),
    "many closed brackets": document(b'{"items":' + b"[" * 5000 + b"]" * 5000 + b"}", _JSON),
    "an unknown charset": document(b"\xff{}", "Content-Type: application/json; charset=rot13"),
    "sixteen bits": document('{"items":[]}'.encode("utf-16"), _JSON),
    "a long number": document(b'{"items":' + b"9" * 10_000 + b"}", _JSON),
    "pages without end": pages(lambda number: f"t{number}"),
    "the same page again": pages(lambda _number: "t"),
    "a redirect to itself": redirect(302, "/s"),
    "a redirect to nowhere": raw(b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n"),
    "two lengths": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 200\r\n\r\n{}"),
}
