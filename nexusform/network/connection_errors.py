"""Messages about connection errors of an API server."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from socket import EAI_AGAIN, gaierror
from typing import Final

# Prefixes and suffixes added by Python to messages of the system and OpenSSL.
_PYTHON_MARKS: Final = re.compile(r"^(?:\[Errno -?\d+\] |\[SSL[^\]]*\] |_ssl\.c:\d+: )|\.? ?\(_ssl\.c:\d+\)$")
_TIMEOUT_PHASES: Final = {
    "ConnectTimeout": "connecting",
    "ReadTimeout": "waiting for its answer",
    "WriteTimeout": "sending",
    "PoolTimeout": "waiting for a free connection",
}
_TLS_MESSAGES: Final = {
    "WRONG_VERSION_NUMBER": "what answers there does not speak TLS",
    "HTTP_REQUEST": "what answers there does not speak TLS",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a client certificate",
}
_CONNECTION_LOST: Final = "the connection was broken off"
_LOST_PREFIXES: Final = ("Server disconnected", "peer closed connection")


def describe_connection_error(problem: Exception) -> str:
    """Return the cause of a failed request as a clause without a full stop."""
    from httpx2 import TimeoutException, TransportError

    first_line = _get_first_line(problem)
    if isinstance(problem, TimeoutException):
        phase = _TIMEOUT_PHASES.get(type(problem).__name__, "the request")
        return f"it does not answer ({'the TLS handshake' if 'handshake' in first_line else phase} timed out)"
    if isinstance(problem, TransportError):
        for cause in _iterate_exception_causes(problem):
            message = _describe_system_error(cause)
            if message:
                return message
        if first_line.startswith(_LOST_PREFIXES):
            return _CONNECTION_LOST
    return _remove_python_marks(first_line)


def _iterate_exception_causes(problem: BaseException) -> Iterator[BaseException]:
    visited: set[int] = set()
    cause: BaseException | None = problem
    while cause is not None and id(cause) not in visited:
        visited.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _describe_system_error(cause: BaseException) -> str:
    """Return the message for errors of the system or OpenSSL, "" for others."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        verify_message = getattr(cause, "verify_message", "") or _remove_python_marks(_get_first_line(cause))
        return f"its certificate is not trusted: {verify_message.rstrip('.')}"
    if isinstance(cause, ssl.SSLEOFError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return "the connection was reset" if isinstance(cause, ConnectionResetError) else _CONNECTION_LOST
    if isinstance(cause, ssl.SSLError):
        reason = getattr(cause, "reason", "") or ""  # set by OpenSSL only
        return _TLS_MESSAGES.get(reason, f"TLS failed: {_remove_python_marks(_get_first_line(cause))}")
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(cause, gaierror):
        return "its name cannot be looked up now" if cause.errno == EAI_AGAIN else "its name is not known"
    return ""


def _remove_python_marks(message: str) -> str:
    return _PYTHON_MARKS.sub("", message)


def _get_first_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return (lines[0] if lines else type(problem).__name__).rstrip(".")
