"""HTTP server of the tests for many parallel clients, some of which are killed."""

from __future__ import annotations

import socket
import sys
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def read_body(handler: BaseHTTPRequestHandler) -> bytes:
    """Return the whole body of a request.

    Raises ConnectionAbortedError if the client was killed while it sent the body. As in a real
    server, such a request has no effect.
    """
    length = int(handler.headers.get("Content-Length") or 0)
    body = handler.rfile.read(length)
    if len(body) < length:
        raise ConnectionAbortedError
    return body


class PlainRequestHandler(BaseHTTPRequestHandler):
    """Handler of the requests of HTTP clients, which are well-formed.

    `http.server` parses the head of a request as an e-mail, with parts and encodings. That takes
    longer than most answers.
    """

    def parse_request(self) -> bool:
        """Read the head of a request."""
        self.requestline = self.raw_requestline.decode("latin-1").rstrip("\r\n")
        self.command, self.path, self.request_version = self.requestline.split(" ")
        self.headers = HTTPMessage()
        while (line := self.rfile.readline().decode("latin-1").rstrip("\r\n")) != "":
            name, _, value = line.partition(":")
            self.headers[name] = value.strip()
        self.close_connection = (
            "HTTP/1.0" in (self.protocol_version, self.request_version)
            or self.headers.get("Connection", "").lower() == "close"
        )
        return True


class CrowdedServer(ThreadingHTTPServer):
    """HTTP server with a long queue.

    Fifty processes connect at once, and a short queue would reset some connections.
    """

    request_queue_size = 128

    def get_request(self) -> tuple[socket.socket, Any]:
        """Disable Nagle's algorithm.

        Head and body of a response are two writes, and the second would wait 40 ms for the
        acknowledgement of the first.
        """
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address

    def serve_forever(self, poll_interval: float = 0.02) -> None:
        """Poll often, because a shutdown at the end of every test waits for one interval.

        By default an interval is half a second.
        """
        super().serve_forever(poll_interval)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report errors of the server, and no client that left, such as an interrupted command."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
