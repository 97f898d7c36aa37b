"""An engine that keeps the memory of each request; a request is a number of MiB."""

from __future__ import annotations

from sys import stdin

from nexusform.files.limited_worker import serve_requests

KEPT: list[bytearray] = []


def keep_memory(mebibytes: int) -> int:
    """Use and keep memory; return the number of requests so far."""
    KEPT.append(bytearray(mebibytes << 20))
    return len(KEPT)


if __name__ == "__main__":
    serve_requests(keep_memory, stdin.buffer)
