"""Client of one API server over httpx2.

An answer ends within the time limit of an operation, has a limited size also after decompression,
and is of the requested origin: redirects are errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlencode

from msgspec import Struct, field

from nexusform.files.regular_files import FileTooLarge
from nexusform.files.sandbox import declare_server
from nexusform.network.deadlines import DeadlineRunner, OperationAbandoned, compute_silence_limit
from nexusform.network.http_client import (
    WebResponse,
    create_client,
    decompress_chunks,
    open_response,
    parse_origin,
    read_response,
)
from nexusform.network.read_limits import CONNECT_SECONDS, MAX_ANSWER_BYTES
from nexusform.network.web_errors import WebError, WebErrorKind

if TYPE_CHECKING:
    from httpx2 import Response

_Result = TypeVar("_Result")
_UNAUTHORIZED: Final = 401
# Bytes of one line of a stream.
_MAX_LINE_BYTES: Final = 1 << 24


class ApiRequest(Struct, frozen=True):
    """Request with a path below the server's address."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class ApiClient:
    """Client of one server; safe for use by several threads.

    `settings` are those of httpx2.Client.
    """

    def __init__(self, address: str, server_name: str = "", **settings: Any) -> None:
        """Create the HTTP client with time limits.

        `server_name` replaces the host name for TLS, "" keeps it.
        """
        # The proxy is of the operator's kubeconfig.
        if settings.get("proxy"):
            declare_server(str(settings["proxy"]))
        self._client = create_client(base_url=address, **settings)
        self._address = str(self._client.base_url).rstrip("/")
        self._extensions = {"sni_hostname": server_name} if server_name else {}
        self._deadline = DeadlineRunner(lambda: address)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def send(self, request: ApiRequest) -> WebResponse:
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
                raise StreamRejected(read_response(response, MAX_ANSWER_BYTES))
            incomplete_line = b""
            for chunk in decompress_chunks(response, MAX_ANSWER_BYTES):
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

    def _send_once(self, request: ApiRequest) -> WebResponse:
        with self._open(request) as response:
            return read_response(response, MAX_ANSWER_BYTES)

    def _build_address(self, request: ApiRequest) -> str:
        """Build the whole address of a request, whatever characters its path has.

        From its parts, httpx2 would build and parse it three times.
        """
        path = request.path.lstrip("/").replace("?", "%3F").replace("#", "%23")
        query = f"?{urlencode(request.query)}" if request.query else ""
        return f"{self._address}/{path}{query}"

    @contextmanager
    def _open(self, request: ApiRequest, **options: Any) -> Iterator[Response]:
        """Send a request and yield its answer, content unread.

        Raises WebError, for a redirect too.
        """
        headers = {"Accept-Encoding": "gzip", **request.headers}
        options["extensions"] = self._extensions
        try:
            with open_response(
                self._client,
                request.method,
                self._build_address(request),
                request.content,
                headers,
                **options,
            ) as response:
                if 300 <= response.status_code < 400:
                    raise WebError(_describe_redirect(response), WebErrorKind.REDIRECT)
                yield response
        except FileTooLarge as problem:
            raise WebError(str(problem.strerror), WebErrorKind.TOO_LARGE) from None


def _describe_redirect(response: Response) -> str:
    """Return why the redirect of an answer is not followed."""
    try:
        target = parse_origin(str(response.url.join(response.headers.get("Location", ""))))
    except Exception:  # noqa: BLE001 - whatever the server wrote there
        target = "an invalid address"
    return (
        f"the server answered {response.status_code}, a redirect to {target}. It is not followed: "
        f"credentials are only sent to {parse_origin(str(response.url))}. Correct the address"
    )


class StreamRejected(Exception):
    """Answer without success in place of a stream."""

    def __init__(self, answer: WebResponse) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


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
