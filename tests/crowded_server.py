"""A server of the tests that many may ask at once."""

from __future__ import annotations

from http.server import ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Fifty processes come at the same moment: of a short queue some are sent away (connection reset)."""

    request_queue_size = 128

    def serve_forever(self, poll_interval: float = 0.02) -> None:
        """Who shuts it down waits for so long, as every test does at its end: half a second by default."""
        super().serve_forever(poll_interval)
