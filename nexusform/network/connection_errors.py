"""Causes of failed requests in plain words, for every client library.

Libraries wrap the error of the system several times, each in its own way, and their messages quote
all of it: addresses of objects, codes of Python and OpenSSL, the request.
"""

import re
import ssl
from collections.abc import Iterator
from http.client import IncompleteRead, RemoteDisconnected
from socket import EAI_AGAIN, gaierror
from typing import Final

_LOST: Final = "the connection was broken off"
# Phase of a request by the exception that a library raises after its time limit.
_TIMEOUTS: Final = {
    "ConnectTimeout": "connecting",
    "ConnectTimeoutError": "connecting",
    "ReadTimeout": "waiting for its answer",
    "ReadTimeoutError": "waiting for its answer",
    "WriteTimeout": "sending",
    "PoolTimeout": "waiting for a free connection",
    "TimeoutError": "the request",
}
_PROXY_ERRORS: Final = ("ProxyError", "ProxyConnectionError")
# Beginnings of messages of httpx2 about a connection without an error of the system.
_LOST_MESSAGES: Final = ("Server disconnected", "peer closed connection")
# Prefixes and suffixes added by Python to messages of the system and OpenSSL.
_PYTHON_MARKS: Final = re.compile(
    r"^(?:\[Errno -?\d+\] |\[SSL[^\]]*\] |_ssl\.c:\d+: )|\.? ?\(_ssl\.c:\d+\)$"
)
_MAX_LENGTH: Final = 200


def describe_connection_error(problem: BaseException) -> str:
    """Return the cause of a failed request as a clause without a full stop.

    An example is `the connection was refused`. For an error of another kind, the cause is the
    error's own first line, of at most 200 printable characters.
    """
    return find_connection_error(problem) or _format_first_line(problem)


def describe_request_error(problem: BaseException) -> str:
    """Return the cause of a failed request, or the whole first line of the server's error."""
    lines = str(problem).splitlines() or [type(problem).__name__]
    return find_connection_error(problem) or lines[0]


def find_connection_error(problem: BaseException) -> str:
    """Return the cause of a failed connection as a clause; "" if the error is of another kind."""
    causes = list(_iterate_causes(problem))
    messages = (_describe_timeout(cause) or _describe_system_error(cause) for cause in causes)
    message = next(filter(None, messages), "")
    if message and any(type(cause).__name__ in _PROXY_ERRORS for cause in causes):
        return f"the proxy of the environment cannot be used: {message}"
    return message


def _iterate_causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its chain of causes, each once."""
    visited: set[int] = set()
    cause: BaseException | None = problem
    while cause is not None and id(cause) not in visited:
        visited.add(id(cause))
        yield cause
        # Of the Azure SDK. The context of such an error may be that of an earlier try.
        if hasattr(cause, "inner_exception"):
            cause = cause.inner_exception
        else:
            cause = cause.__cause__ or cause.__context__


def _describe_timeout(cause: BaseException) -> str:
    """Return the message for the end of a time limit; "" for other exceptions."""
    phase = _TIMEOUTS.get(type(cause).__name__)
    if phase is None:
        return ""
    if "handshake" in str(cause):
        phase = "the TLS handshake"
    return f"it does not answer ({phase} timed out)"


def _describe_system_error(cause: BaseException) -> str:
    """Return the message for an error of the system or OpenSSL; "" for other exceptions."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        verify_message = getattr(cause, "verify_message", "") or _format_first_line(cause)
        return f"its certificate is not trusted: {verify_message.rstrip('.')}"
    # Which of the two TLS errors depends on the Python.
    if isinstance(
        cause,
        RemoteDisconnected
        | IncompleteRead
        | ssl.SSLEOFError
        | ssl.SSLZeroReturnError
        | ConnectionAbortedError
        | BrokenPipeError,
    ) or str(cause).startswith(_LOST_MESSAGES):
        return _LOST
    if isinstance(cause, ConnectionResetError):
        return "the connection was reset"
    if isinstance(cause, ssl.SSLError):
        messages = {
            "WRONG_VERSION_NUMBER": "what answers there does not speak TLS",
            "HTTP_REQUEST": "what answers there does not speak TLS",
            "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a client certificate",
        }
        # Set by OpenSSL only.
        reason = getattr(cause, "reason", "") or ""
        return messages.get(reason, f"TLS failed: {_format_first_line(cause)}")
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused"
    # The error is of a name server.
    if isinstance(cause, gaierror):
        return (
            "its name cannot be looked up now"
            if cause.errno == EAI_AGAIN
            else "its name is not known"
        )
    return ""


def _format_first_line(problem: BaseException) -> str:
    """Return the first line of an exception's message without codes and without a full stop.

    Its class name if it has no message.
    """
    line = next(iter(str(problem).strip().splitlines()), "").rstrip(".")
    printable_line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return _PYTHON_MARKS.sub("", printable_line)[:_MAX_LENGTH] or type(problem).__name__
