"""A server of the tests that many may ask at once."""

from __future__ import annotations

import socket
from http.server import ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Fifty processes come at the same moment: of a short queue some are sent away (connection reset)."""

    request_queue_size = 128

    def get_request(self) -> tuple[socket.socket, Any]:
        """Head and body of an answer are two writes: the second would wait 40 ms for who read the first."""
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address

    def serve_forever(self, poll_interval: float = 0.02) -> None:
        """Who shuts it down waits for so long, as every test does at its end: half a second by default."""
        super().serve_forever(poll_interval)
