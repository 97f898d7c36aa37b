"""Ports of programs on loopback."""

from __future__ import annotations

import socket


def find_free_port() -> int:
    """Return a free TCP port of 127.0.0.1."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
