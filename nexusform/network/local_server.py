"""HTTP server of a command: the page of `explore`, the NFVO of `serve sol003`.

A browser of the user sends requests of any page to it. So a request needs a known host, no foreign
origin, a JSON body and the token. Sizes, times and the number of connections are limited.
"""

from __future__ import annotations

import hmac
import secrets
import ssl
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from threading import BoundedSemaphore, Timer
from typing import Any, BinaryIO, ClassVar, Final
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from nexusform.documents.scalars import parse_integer
from nexusform.files.run_log import log_event
from nexusform.files.sandbox import declare_server

_MAX_CONNECTIONS: Final = 32
# Seconds without a byte, and for a whole request.
_IDLE_SECONDS: Final = 20
_REQUEST_SECONDS: Final = 30
_CHUNK_BYTES: Final = 1 << 16
_JSON: Final = ("application/json",)
# Clients leave them out of the header Host.
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_BUSY: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class LocalRequest(Struct, frozen=True):
    """An accepted request: path without query, parameters of the query, headers and body."""

    method: str
    path: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


class LocalResponse(Struct, frozen=True):
    """The response to a request; a `file` is sent in pieces instead of the body, and closed."""

    status: HTTPStatus
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}
    file: BinaryIO | None = None


class LocalServer(ThreadingHTTPServer):
    """Server with a token; requests of foreign hosts and origins are rejected."""

    daemon_threads = True
    request_queue_size = 2 * _MAX_CONNECTIONS

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[LocalRequestHandler],
        *,
        token: str = "",
        hosts: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen on an IPv4 address (host, port).

        Without a `token`, make one. `hosts` are further names of this machine. Without
        `tls`, use HTTP.
        """
        # A port that the system chooses is unknown here.
        declare_server(f"listen://{address[0]}")
        super().__init__(address, handler)
        self.token = token or secrets.token_urlsafe(24)
        self.hosts = frozenset(host.lower() for host in hosts)
        self.scheme = "http" if tls is None else "https"
        self._connections = BoundedSemaphore(_MAX_CONNECTIONS)
        if tls is not None:
            # The thread of the request does the handshake: a silent client must not block others.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.server_address[0]!s}:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread; close it if there are too many."""
        if not self._connections.acquire(blocking=False):
            # The client may have left.
            with suppress(OSError):
                request.settimeout(0)
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and let another one take its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's signature
        """Log a failed connection: the client left, or a bug."""
        log_event("warn", "failed connection", problem=repr(sys.exc_info()[1]))


class LocalRequestHandler(BaseHTTPRequestHandler):
    """Handler of a local server; a subclass answers accepted requests."""

    server: LocalServer
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    # Larger bodies are rejected unread.
    max_body_bytes: ClassVar[int] = 1 << 20
    # Headers of responses to all requests.
    extra_headers: ClassVar[Mapping[str, str]] = {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    # Names a page of another server cannot send without permission.
    content_types: ClassVar[Mapping[str, Sequence[str]]] = {}
    # What to do about a host that is not known.
    host_advice: ClassVar[str] = "Use the printed address."

    def find_token(self, request: LocalRequest) -> str:
        """Return the token in a request, "" without one."""
        raise NotImplementedError

    def answer_request(self, request: LocalRequest) -> LocalResponse:
        """Return the response to a request with the token."""
        raise NotImplementedError

    def build_rejection(self, status: HTTPStatus, reason: str) -> LocalResponse:
        """Return the response to a rejected request."""
        raise NotImplementedError

    def handle_one_request(self) -> None:
        """Serve one request; end the connection if it is not read in time."""
        self._timer = Timer(_REQUEST_SECONDS, _end_connection, (self.connection,))
        self._timer.daemon = True
        self._timer.start()
        try:
            super().handle_one_request()
        except (OSError, ValueError):
            # The client left, or its connection was ended.
            self.close_connection = True
        finally:
            self._timer.cancel()

    def handle_get(self) -> None:
        """Answer a GET request."""
        self._handle("GET")

    def handle_post(self) -> None:
        """Answer a POST request."""
        self._handle("POST")

    do_GET = handle_get  # noqa: N815 - the names called by the library
    do_POST = handle_post  # noqa: N815 - as above

    def _handle(self, method: str) -> None:
        """Check a request, and send its response or the rejection."""
        if self.request_version == "HTTP/0.9":
            # Its response would have no headers.
            self.close_connection = True
            return
        try:
            url_parts = urlsplit(self.path)
            query = parse_qs(url_parts.query, max_num_fields=20)
        except ValueError:
            self._send(self.build_rejection(HTTPStatus.BAD_REQUEST, "The address is invalid."))
            return
        # A header that occurs twice has its values joined: it is no known value.
        headers = {name.lower(): ",".join(self.headers.get_all(name, ())) for name in self.headers}
        request = LocalRequest(
            method=method,
            path=url_parts.path.rstrip("/") or "/",
            parameters={name: values[0] for name, values in query.items()},
            headers=headers,
        )
        rejection = self._find_rejection(request)
        if rejection is not None:
            self._send(rejection)
            return
        if method == "POST":
            length = parse_integer(headers["content-length"]) or 0
            body = self.rfile.read(length)
            # The client left.
            if len(body) != length:
                self.close_connection = True
                return
            request = LocalRequest(method, request.path, request.parameters, request.headers, body)
        self._timer.cancel()
        try:
            response = self.answer_request(request)
        # A bug: the client gets an answer, and the log the reason.
        except Exception as problem:  # noqa: BLE001
            log_event("warn", "failed request", path=request.path, problem=repr(problem))
            response = self.build_rejection(
                HTTPStatus.INTERNAL_SERVER_ERROR, "The request failed. The log has the reason."
            )
        self._send(response)

    def _find_rejection(self, request: LocalRequest) -> LocalResponse | None:
        """Return the rejection of a request by its headers, None if they are accepted."""
        headers = request.headers
        if not self._is_known_host(headers.get("host", "")):
            return self.build_rejection(
                HTTPStatus.FORBIDDEN,
                f"The header Host is not an address of this server. {self.host_advice}",
            )
        own_origin = f"{self.server.scheme}://{headers['host']}"
        is_foreign_site = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if headers.get("origin", own_origin) != own_origin or is_foreign_site:
            return self.build_rejection(
                HTTPStatus.FORBIDDEN, "Pages of other servers may send no requests."
            )
        if not hmac.compare_digest(
            self.find_token(request).encode(errors="replace"), self.server.token.encode()
        ):
            return self.build_rejection(HTTPStatus.UNAUTHORIZED, "The token is missing or wrong.")
        if request.method != "POST":
            return None
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        allowed_types = self.content_types.get(request.path, _JSON)
        if content_type not in allowed_types:
            return self.build_rejection(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The Content-Type must be {allowed_types[0]}."
            )
        length = parse_integer(headers.get("content-length"))
        if length is None or length < 0 or "transfer-encoding" in headers:
            return self.build_rejection(
                HTTPStatus.LENGTH_REQUIRED, "The request has no valid Content-Length."
            )
        if length > self.max_body_bytes:
            return self.build_rejection(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The request is larger than {self.max_body_bytes:,} bytes.",
            )
        return None

    def _is_known_host(self, host: str) -> bool:
        """Return whether a Host header has an address of this server.

        It is the address of the connection, a given name, or localhost on loopback addresses. A
        foreign name that leads here belongs to a page that attacks.
        """
        name, _, port = host.lower().partition(":")
        port = port or _DEFAULT_PORTS[self.server.scheme]
        address = str(self.connection.getsockname()[0])
        names = {address, *self.server.hosts}
        if address.startswith("127."):
            names.add("localhost")
        return name in names and port == str(self.server.server_port)

    def _send(self, response: LocalResponse) -> None:
        """Send a response; after a rejection, end the connection: its body may be unread."""
        file = response.file
        try:
            length = len(response.body) if file is None else _get_size(file)
            if response.status >= HTTPStatus.BAD_REQUEST:
                self.close_connection = True
            self.send_response(response.status)
            for name, value in {
                "Content-Type": response.content_type,
                "Content-Length": str(length),
                **self.extra_headers,
                **response.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body)
            while file is not None and length and (piece := file.read(min(_CHUNK_BYTES, length))):
                self.wfile.write(piece)
                length -= len(piece)
        finally:
            if file is not None:
                file.close()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name it has in the library
        """Skip the log of the library: the path may have a token."""


def _get_size(file: BinaryIO) -> int:
    """Return the bytes of a file from its position at the start."""
    size = file.seek(0, 2)
    file.seek(0)
    return size


def _end_connection(connection: socket) -> None:
    """End a connection, also for a thread that reads from it."""
    with suppress(OSError):
        connection.shutdown(SHUT_RDWR)
