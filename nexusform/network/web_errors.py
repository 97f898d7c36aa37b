"""Errors of clients by kind, and addresses: unsafe for credentials, or of this machine."""

import socket
from enum import StrEnum
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit


class WebErrorKind(StrEnum):
    """Kind of a failed exchange with a server."""

    UNREACHABLE = "unreachable"
    # No complete answer in time.
    SILENT = "silent"
    # Half an answer, or no HTTP.
    CUT_OFF = "cut off"
    REDIRECT = "redirect"
    TOO_LARGE = "too large"
    WRONG_CONTENT = "wrong content"
    INVALID_REQUEST = "invalid request"


_TEMPORARY_KINDS: Final = frozenset(
    {WebErrorKind.UNREACHABLE, WebErrorKind.SILENT, WebErrorKind.CUT_OFF}
)


class WebError(Exception):
    """No usable answer; the message is part of a sentence."""

    def __init__(self, message: str, kind: WebErrorKind = WebErrorKind.CUT_OFF) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def is_temporary(self) -> bool:
        """Whether a retry may succeed."""
        return self.kind in _TEMPORARY_KINDS


def check_plain_credentials(address: str) -> str:
    """Return why credentials must not be sent to an address.

    Return "" if they may be sent: by TLS, or to this machine.
    """
    parts = urlsplit(address)
    if parts.scheme != "http" or is_loopback(parts.hostname or ""):
        return ""
    return f"credentials are not sent to http://{parts.hostname} without TLS. Use an https address"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def find_free_port() -> int:
    """Return a free TCP port of 127.0.0.1."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
