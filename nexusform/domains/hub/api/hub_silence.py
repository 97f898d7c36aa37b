"""Why no answer came from an API server, in words."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from socket import EAI_AGAIN, gaierror
from typing import Final

# What Python puts before and behind the words of the system and of OpenSSL.
_MARKS: Final = re.compile(r"^(?:\[Errno -?\d+\] |\[SSL[^\]]*\] |_ssl\.c:\d+: )|\.? ?\(_ssl\.c:\d+\)$")
_TIMES_OUT: Final = {
    "ConnectTimeout": "connecting",
    "ReadTimeout": "waiting for its answer",
    "WriteTimeout": "sending",
    "PoolTimeout": "waiting for a free connection",
}
_OF_TLS: Final = {
    "WRONG_VERSION_NUMBER": "what answers there does not speak TLS",
    "HTTP_REQUEST": "what answers there does not speak TLS",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a client certificate",
}
_BROKEN_OFF: Final = "the connection was broken off"
_CUT: Final = ("Server disconnected", "peer closed connection")


def why_silent(problem: Exception) -> str:
    """A clause without a full stop: what went wrong with a request, below the libraries that sent it."""
    from httpx2 import TimeoutException, TransportError

    said = _first_line(problem)
    if isinstance(problem, TimeoutException):
        doing = _TIMES_OUT.get(type(problem).__name__, "the request")
        return f"it does not answer ({'the TLS handshake' if 'handshake' in said else doing} timed out)"
    if isinstance(problem, TransportError):
        for cause in _causes(problem):
            words = _of_system(cause)
            if words:
                return words
        if said.startswith(_CUT):
            return _BROKEN_OFF
    return _without_marks(said)


def _causes(problem: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = problem
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _of_system(cause: BaseException) -> str:
    """What the system or OpenSSL met with, "" for other causes."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = getattr(cause, "verify_message", "") or _without_marks(_first_line(cause))
        return f"its certificate is not trusted: {why.rstrip('.')}"
    if isinstance(cause, ssl.SSLEOFError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return "the connection was reset" if isinstance(cause, ConnectionResetError) else _BROKEN_OFF
    if isinstance(cause, ssl.SSLError):
        reason = getattr(cause, "reason", "") or ""  # OpenSSL alone sets it
        return _OF_TLS.get(reason, f"TLS failed: {_without_marks(_first_line(cause))}")
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(cause, gaierror):
        return "its name cannot be looked up now" if cause.errno == EAI_AGAIN else "its name is not known"
    return ""


def _without_marks(said: str) -> str:
    return _MARKS.sub("", said)


def _first_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return (lines[0] if lines else type(problem).__name__).rstrip(".")
