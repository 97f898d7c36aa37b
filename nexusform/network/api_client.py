"""Client of one API server over httpx2.

An answer ends within the time limit of an operation, has a limited size also after decompression,
and is of the requested origin: redirects are errors.
"""

from __future__ import annotations

import os
import ssl
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlencode

from msgspec import Struct, field

from nexusform.files.access_record import record_server_access
from nexusform.files.regular_files import FileTooLarge
from nexusform.files.sandbox import declare_server
from nexusform.network.connection_errors import describe_connection_error
from nexusform.network.deadlines import (
    DeadlineRunner,
    OperationAbandoned,
    compute_silence_limit,
    is_caller_waiting,
)
from nexusform.network.http_client import parse_origin
from nexusform.network.read_limits import (
    CONNECT_SECONDS,
    MAX_ANSWER_BYTES,
    MAX_ERROR_BYTES,
    ReadByteLimit,
)
from nexusform.network.web_errors import WebError, WebErrorKind

if TYPE_CHECKING:
    from httpx2 import Response

_Result = TypeVar("_Result")
_UNAUTHORIZED: Final = 401
# Bytes of one decompression step.
_PART_BYTES: Final = 1 << 20
# Bytes of one line of a stream.
_MAX_LINE_BYTES: Final = 1 << 24
# Of httpx2: the certificates of the system, or these.
_CERTIFICATE_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class ApiRequest(Struct, frozen=True):
    """Request with a path below the server's address."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class ApiResponse(Struct, frozen=True):
    """Complete answer of any status except a redirect."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is successful in HTTP."""
        return 200 <= self.status < 300

    @property
    def is_web_page(self) -> bool:
        """Whether the content is HTML, such as the sign-in page of a proxy."""
        content_type = self.headers.get("content-type", "").lower()
        return "html" in content_type or self.content[:64].lstrip().lower().startswith(
            (b"<!doctype", b"<html")
        )


@cache
def _load_certificates(*_: str | None) -> ssl.SSLContext:
    """Load the trusted certificates, which takes 30 ms: once for all clients of a process.

    The arguments are the values of the variables that httpx2 reads.
    """
    from httpx2 import create_ssl_context

    return create_ssl_context()


class ApiClient:
    """Client of one server; safe for use by several threads.

    `settings` are those of httpx2.Client.
    """

    def __init__(self, address: str, server_name: str = "", **settings: Any) -> None:
        """Create the HTTP client with time limits.

        `server_name` replaces the host name for TLS, "" keeps it.
        """
        from httpx2 import Client, Timeout

        # The proxy is of the operator's kubeconfig.
        if settings.get("proxy"):
            declare_server(str(settings["proxy"]))
        if settings.get("verify", True) is True:
            settings["verify"] = _load_certificates(*map(os.environ.get, _CERTIFICATE_VARIABLES))
        silence = compute_silence_limit()
        timeout = Timeout(silence, connect=min(CONNECT_SECONDS, silence))
        self._client = Client(base_url=address, timeout=timeout, follow_redirects=False, **settings)
        self._address = str(self._client.base_url).rstrip("/")
        self._extensions = {"sni_hostname": server_name} if server_name else {}
        self._deadline = DeadlineRunner(lambda: address)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def send(self, request: ApiRequest) -> ApiResponse:
        """Send a request and return its complete answer, also an error.

        Raises WebError and authentication errors.
        """
        return self._run(lambda: self._send_once(request))

    def stream_lines(self, request: ApiRequest, seconds: float) -> Iterator[bytes]:
        """Yield the lines of a successful answer for some seconds at most.

        Raises StreamRejected, WebError.
        """
        from httpx2 import Timeout

        ends_at = time.monotonic() + seconds
        timeout = Timeout(compute_silence_limit(), connect=CONNECT_SECONDS, read=seconds)
        with ExitStack() as stack:
            response = self._run(lambda: stack.enter_context(self._open(request, timeout=timeout)))
            if not 200 <= response.status_code < 300:
                raise StreamRejected(_read_response_content(response))
            incomplete_line = b""
            for chunk in _decompress_response_chunks(response):
                # The last line is not complete yet.
                *lines, incomplete_line = (incomplete_line + chunk).split(b"\n")
                yield from lines
                if len(incomplete_line) > _MAX_LINE_BYTES:
                    raise WebError(
                        f"a line has more than {_MAX_LINE_BYTES >> 20} MiB", WebErrorKind.TOO_LARGE
                    )
                if time.monotonic() > ends_at:
                    return
            if incomplete_line.strip():
                yield incomplete_line

    def _run(self, work: Callable[[], _Result]) -> _Result:
        """Run work within the time limit of one operation.

        Raises WebError.
        """
        try:
            return self._deadline.run("ask the server", work)
        except OperationAbandoned as problem:
            # The rest of the message of DeadlineRunner.
            limit = str(problem).rpartition("no result within ")[2]
            raise WebError(
                f"no complete answer within {limit}".rstrip("."), WebErrorKind.SILENT
            ) from None

    def _send_once(self, request: ApiRequest) -> ApiResponse:
        with self._open(request) as response:
            return _read_response_content(response)

    def _build_address(self, request: ApiRequest) -> str:
        """Build the whole address of a request, whatever characters its path has.

        From its parts, httpx2 would build and parse it three times.
        """
        path = request.path.lstrip("/").replace("?", "%3F").replace("#", "%23")
        query = f"?{urlencode(request.query)}" if request.query else ""
        return f"{self._address}/{path}{query}"

    @contextmanager
    def _open(self, request: ApiRequest, **options: Any) -> Iterator[Response]:
        """Send a request and yield its answer, content unread; convert errors of the transport.

        Raises WebError.
        """
        from httpx2 import HTTPError, InvalidURL, StreamError

        headers = {"Accept-Encoding": "gzip", **request.headers}
        try:
            sent = self._client.build_request(
                request.method,
                self._build_address(request),
                content=request.content,
                headers=headers,
                extensions=self._extensions,
                **options,
            )
            record_server_access(parse_origin(str(sent.url)))
            response = self._client.send(sent, stream=True)
            try:
                if 300 <= response.status_code < 400:
                    try:
                        target = parse_origin(
                            str(response.url.join(response.headers.get("Location", "")))
                        )
                    except Exception:  # noqa: BLE001 - whatever the server wrote there
                        target = "an invalid address"
                    raise WebError(
                        f"the server answered {response.status_code}, a redirect to {target}. It "
                        "is not followed: credentials are only sent to "
                        f"{parse_origin(str(sent.url))}. Correct the address",
                        WebErrorKind.REDIRECT,
                    )
                yield response
            finally:
                response.close()
        except (InvalidURL, UnicodeError) as problem:
            raise WebError(
                describe_connection_error(problem), WebErrorKind.INVALID_REQUEST
            ) from None
        except (HTTPError, StreamError, OSError) as problem:
            # An OSError raised by the reader of the answer.
            if isinstance(problem, FileTooLarge):
                raise WebError(str(problem.strerror), WebErrorKind.TOO_LARGE) from None
            raise WebError(describe_connection_error(problem), WebErrorKind.UNREACHABLE) from None


class StreamRejected(Exception):
    """Answer without success in place of a stream."""

    def __init__(self, answer: ApiResponse) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


def _read_response_content(response: Response) -> ApiResponse:
    """Read the content of an answer, with a lower limit for errors.

    Raises WebError, FileTooLarge, httpx2 errors.
    """
    is_success = 200 <= response.status_code < 300
    limit = ReadByteLimit(MAX_ANSWER_BYTES if is_success else MAX_ERROR_BYTES)
    parts: list[bytes] = []
    for part in _decompress_response_chunks(response):
        limit.count(len(part))
        parts.append(part)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return ApiResponse(response.status_code, headers, b"".join(parts))


def _decompress_response_chunks(response: Response) -> Iterator[bytes]:
    """Yield the content in small parts, decompressed if gzip.

    Raises WebError, also if no caller waits any more.
    """
    coding = str(response.headers.get("Content-Encoding") or "identity").strip().lower()
    if coding not in ("identity", "gzip"):
        raise WebError(
            f'the answer has the unsupported encoding "{coding[:20]}"', WebErrorKind.WRONG_CONTENT
        )
    limit = ReadByteLimit(MAX_ANSWER_BYTES)
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


def build_token_auth(fetch_token: Callable[[], str]) -> Any:
    """Return an authentication by a bearer token.

    The token is fetched first, and again after a rejection (401).
    """
    from httpx2 import Auth, Request

    class TokenAuth(Auth):
        token = ""

        def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
            """Send the request with the token of an earlier one.

            Fetch a new token at first, and after it expired.
            """
            if self.token:
                request.headers["Authorization"] = f"Bearer {self.token}"
                answer = yield request
                if answer.status_code != _UNAUTHORIZED:
                    # The token is still valid.
                    return
            self.token = fetch_token()
            request.headers["Authorization"] = f"Bearer {self.token}"
            yield request

    return TokenAuth()
