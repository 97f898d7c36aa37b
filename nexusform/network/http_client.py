"""HTTP requests over httpx2, with limited answers and restricted redirects.

An answer has a limited size, also after decompression. A redirect is followed for GET only, and
within one origin: another origin must not receive credentials, and a write must not become a read.
"""

from __future__ import annotations

import os
import ssl
import urllib.parse
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from nexusform.documents.scalars import parse_integer
from nexusform.files.access_record import record_server_access
from nexusform.files.regular_files import FileTooLarge
from nexusform.network.connection_errors import describe_connection_error, find_connection_error
from nexusform.network.deadlines import compute_silence_limit, is_caller_waiting
from nexusform.network.read_limits import CONNECT_SECONDS, MAX_ERROR_BYTES, ReadByteLimit
from nexusform.network.web_errors import WebError, WebErrorKind, check_plain_credentials

if TYPE_CHECKING:
    from httpx2 import Client, Response

SCHEMES: Final = ("http", "https")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS: Final = 5
_SUCCESS: Final = range(200, 300)
_PORTS: Final = {"http": 80, "https": 443}
# Bytes of one decompression step.
_PART_BYTES: Final = 1 << 20
# Of httpx2: the certificates of the system, or these.
_CERTIFICATE_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class WebRequest(Struct, frozen=True):
    """HTTP request.

    `max_bytes` limits the response. With `verify` certificates are verified.
    `explain_rejection` returns why a redirect to an address is not followed, "" if it is.
    Without it, redirects stay on one server. With credentials they always do.
    """

    method: str
    address: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    verify: bool = True
    max_bytes: int = 1 << 30
    explain_rejection: Callable[[str], str] | None = None


class WebResponse(Struct, frozen=True):
    """Complete response of any status; `headers` have names in lower case.

    The content of an error of more than MAX_ERROR_BYTES is empty: its status says enough.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is successful in HTTP."""
        return self.status in _SUCCESS

    @property
    def is_web_page(self) -> bool:
        """Whether the content is HTML, such as the sign-in page of a proxy."""
        content_type = self.headers.get("content-type", "").lower()
        return "html" in content_type or self.content[:64].lstrip().lower().startswith(
            (b"<!doctype", b"<html")
        )


def parse_origin(address: str) -> str:
    """Return scheme, host and port (also a default port) of an address, without credentials.

    Raises WebError.
    """
    if not address.isprintable() or " " in address:
        raise WebError(
            "its address has a blank or a control character", WebErrorKind.INVALID_REQUEST
        )
    try:
        parts = urllib.parse.urlsplit(address)
        port = parts.port
    except ValueError as problem:
        raise WebError(
            f"its address is invalid ({problem})", WebErrorKind.INVALID_REQUEST
        ) from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise WebError("its address is not an http or https address", WebErrorKind.INVALID_REQUEST)
    return f"{parts.scheme}://{parts.hostname}:{port or _PORTS[parts.scheme]}"


@cache
def _load_certificates(*_: str | None) -> ssl.SSLContext:
    """Load the trusted certificates, which takes 30 ms: once for all clients of a process.

    The arguments are the values of the variables that httpx2 reads.
    """
    from httpx2 import create_ssl_context

    return create_ssl_context()


def create_client(**settings: Any) -> Client:
    """Create a client with time limits that follows no redirect; `settings` are those of httpx2."""
    from httpx2 import Client, Timeout

    if settings.get("verify", True) is True:
        settings["verify"] = _load_certificates(*map(os.environ.get, _CERTIFICATE_VARIABLES))
    silence = compute_silence_limit()
    timeout = Timeout(silence, connect=min(CONNECT_SECONDS, silence))
    return Client(timeout=timeout, follow_redirects=False, **settings)


@contextmanager
def open_response(
    client: Client,
    method: str,
    address: str,
    content: bytes | None,
    headers: Mapping[str, str],
    **options: Any,
) -> Iterator[Response]:
    """Send a request and yield its answer, content unread; convert errors of the transport.

    Raises WebError.
    """
    from httpx2 import HTTPError, InvalidURL, ReadTimeout, RemoteProtocolError, StreamError

    try:
        request = client.build_request(
            method, address, content=content, headers=dict(headers), **options
        )
    except (InvalidURL, ValueError) as problem:
        raise WebError(describe_connection_error(problem), WebErrorKind.INVALID_REQUEST) from None
    record_server_access(parse_origin(str(request.url)))
    try:
        response = client.send(request, stream=True)
        try:
            yield response
        finally:
            response.close()
    except ReadTimeout:
        seconds = compute_silence_limit()
        raise WebError(f"no data received for {seconds:.0f} s", WebErrorKind.SILENT) from None
    except RemoteProtocolError as problem:
        message = f"the answer is not HTTP ({describe_connection_error(problem)})"
        raise WebError(find_connection_error(problem) or message) from None
    except (HTTPError, StreamError, OSError) as problem:
        # Raised by the reader of the answer.
        if isinstance(problem, FileTooLarge):
            raise
        raise WebError(describe_connection_error(problem), WebErrorKind.UNREACHABLE) from None


def read_response(response: Response, max_bytes: int) -> WebResponse:
    """Read the content of an answer.

    Raises WebError, FileTooLarge, httpx2 errors.
    """
    is_success = response.status_code in _SUCCESS
    limit = ReadByteLimit(max_bytes if is_success else MAX_ERROR_BYTES)
    parts: list[bytes] = []
    try:
        limit.check(parse_integer(response.headers.get("Content-Length", "")) or 0)
        for part in decompress_chunks(response, max_bytes):
            limit.count(len(part))
            parts.append(part)
    except FileTooLarge:
        if is_success:
            raise
        parts = []
    headers = {name.lower(): value for name, value in response.headers.items()}
    return WebResponse(response.status_code, headers, b"".join(parts))


def decompress_chunks(response: Response, max_bytes: int) -> Iterator[bytes]:
    """Yield the content in small parts, decompressed if gzip.

    Raises WebError, also if no caller waits any more.
    """
    coding = str(response.headers.get("Content-Encoding") or "identity").strip().lower()
    if coding not in ("identity", "gzip"):
        raise WebError(
            f'the answer has the unsupported encoding "{coding[:20]}"', WebErrorKind.WRONG_CONTENT
        )
    limit = ReadByteLimit(max_bytes)
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)  # 16: gzip
    for chunk in response.iter_raw():
        if not is_caller_waiting():
            raise WebError("the request was abandoned", WebErrorKind.SILENT)
        limit.reserve(len(chunk))
        if coding == "identity":
            yield chunk
            continue
        try:
            # At most so many bytes at once.
            yield decoder.decompress(chunk, _PART_BYTES)
            while decoder.unconsumed_tail:
                yield decoder.decompress(decoder.unconsumed_tail, _PART_BYTES)
        except zlib.error:
            raise WebError(
                "the answer is not gzip, as its head declares", WebErrorKind.WRONG_CONTENT
            ) from None


def send_request(request: WebRequest) -> WebResponse:
    """Send a request and return its complete response, of any status.

    Raises WebError, FileTooLarge.
    """
    address = request.address
    # A library's message about an invalid address would repeat it with its secrets.
    parse_origin(address)
    with create_client(verify=request.verify) as client:
        for _ in range(_MAX_REDIRECTS + 1):
            response = _send_once(client, request, address)
            if response.status not in _REDIRECTS:
                return response
            location = response.headers.get("location", "")
            address = _resolve_redirect(request, address, location, response.status)
    raise WebError(f"it redirected more than {_MAX_REDIRECTS} times", WebErrorKind.REDIRECT)


def _send_once(client: Client, request: WebRequest, address: str) -> WebResponse:
    """Send a request to one address.

    Raises WebError, FileTooLarge.
    """
    # A login in the address ends with @.
    has_credentials = "Authorization" in request.headers or "@" in address
    rejection = check_plain_credentials(address) if has_credentials else ""
    if rejection:
        raise WebError(rejection, WebErrorKind.INVALID_REQUEST)
    # A redirect opens a new connection: the server may be closing the former one.
    headers = {"Accept-Encoding": "identity", "Connection": "close", **request.headers}
    with open_response(client, request.method, address, request.body, headers) as opened:
        response = read_response(opened, request.max_bytes)
    # An empty document has a length, or the status 204.
    is_complete = response.content or "content-length" in response.headers or response.status == 204
    if request.method == "GET" and response.is_success and not is_complete:
        raise WebError("the answer is empty")
    return response


def _resolve_redirect(request: WebRequest, address: str, location: str, status: int) -> str:
    """Return the target of a redirect.

    Raises WebError unless it is for GET and on the same server.
    """
    target = ""
    try:
        target = urllib.parse.urljoin(address, location)
        target_origin = parse_origin(target)
    except (ValueError, WebError):
        target_origin = "an invalid address"
    message = f"the server answered {status}, a redirect to {target_origin}"
    reason = _explain_rejected_redirect(request, parse_origin(address), target, target_origin)
    if reason:
        raise WebError(f"{message}. {reason}", WebErrorKind.REDIRECT)
    if request.method != "GET":
        raise WebError(
            (
                f"{message}. Redirects are followed for GET only. Nothing was written. Correct the "
                "address"
            ),
            WebErrorKind.REDIRECT,
        )
    return target


def _explain_rejected_redirect(
    request: WebRequest, origin: str, target: str, target_origin: str
) -> str:
    """Return why a redirect is not followed, and what to do; "" if it may be followed."""
    is_same_server = target_origin == origin
    if not is_same_server and not target_origin.startswith(SCHEMES):
        return "It is not followed: only http and https addresses are. Correct the address"
    if not is_same_server and (
        request.explain_rejection is None
        or request.method != "GET"
        or "Authorization" in request.headers
    ):
        return f"It is not followed: credentials are only sent to {origin}. Correct the address"
    # No step back to plain text.
    if not is_same_server and not target_origin.startswith("https:"):
        return "It is not followed: http is not encrypted. Use an address with https"
    if request.explain_rejection is None:
        return ""
    rejection = request.explain_rejection(target)
    return f"It is not followed: {rejection}" if rejection else ""
