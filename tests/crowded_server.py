"""A server of the tests that many may ask at once."""

from __future__ import annotations

from http.server import ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Fifty processes come at the same moment: of a short queue some are sent away (connection reset)."""

    request_queue_size = 128
