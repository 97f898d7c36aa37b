"""HTTP requests with checked lengths, timeouts, and restricted redirects.

A redirect is followed for GET only, and within one origin: another origin must not receive
credentials, and a write must not become a read.
"""

import http.client
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.documents.scalars import parse_integer
from nexusform.files.access_record import record_server_access
from nexusform.files.regular_files import FileTooLarge
from nexusform.network.connection_errors import describe_connection_error, find_connection_error
from nexusform.network.deadlines import compute_silence_limit
from nexusform.network.read_limits import MAX_ANSWER_BYTES, MAX_ERROR_BYTES, ReadByteLimit
from nexusform.network.web_errors import WebError, WebErrorKind, check_plain_credentials

SCHEMES: Final = ("http", "https")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS: Final = 5
_SUCCESS: Final = range(200, 300)
_PORTS: Final = {"http": 80, "https": 443}
# Bytes read at once in a session.
_PART_BYTES: Final = 1 << 16


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
    """Complete response; `headers` have names in lower case."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_success(self) -> bool:
        """Whether the status is successful in HTTP."""
        return self.status in _SUCCESS


def parse_origin(address: str) -> str:
    """Return scheme, host and port (also a default port) of an address, without credentials.

    Raises WebError.
    """
    # Python's message would repeat it with its secrets.
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


def send_request(request: WebRequest) -> WebResponse:
    """Send a request and return its complete response, of any status.

    Raises WebError, FileTooLarge.
    """
    address = request.address
    for _ in range(_MAX_REDIRECTS + 1):
        answer, location = _send_single_request(request, address)
        if answer.status not in _REDIRECTS:
            return answer
        address = _resolve_redirect(request, address, location, answer.status)
    raise WebError(f"it redirected more than {_MAX_REDIRECTS} times", WebErrorKind.REDIRECT)


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


def _send_single_request(request: WebRequest, address: str) -> tuple[WebResponse, str]:
    """Send one request.

    Return its response, and the address of a redirect ("" without one). Raises WebError.
    """
    record_server_access(parse_origin(address))
    # A login in the address ends with @.
    has_credentials = "Authorization" in request.headers or "@" in address
    rejection = check_plain_credentials(address) if has_credentials else ""
    if rejection:
        raise WebError(rejection, WebErrorKind.INVALID_REQUEST)
    try:
        http_request = urllib.request.Request(  # noqa: S310 - parse_origin checked its scheme
            address, data=request.body, method=request.method, headers=dict(request.headers)
        )
        try:
            # An opener for http and https only: proxies of the environment, no redirects.
            context = None if request.verify else ssl._create_unverified_context()  # noqa: S323, SLF001 - by the operator
            opener = urllib.request.OpenerDirector()
            for handler in (
                urllib.request.ProxyHandler(),
                urllib.request.HTTPHandler(),
                urllib.request.HTTPSHandler(context=context),
                urllib.request.HTTPDefaultErrorHandler(),
                urllib.request.HTTPErrorProcessor(),
            ):
                opener.add_handler(handler)
            answer = opener.open(http_request, timeout=compute_silence_limit())
        except urllib.error.HTTPError as refusal:
            # A response with an error status.
            answer = refusal
        with answer:
            response = _read_complete_response(request, answer)
            headers = {name.lower(): str(text) for name, text in answer.headers.items()}
            return replace(response, headers=headers), headers.get("location", "")
    except http.client.HTTPException as problem:
        message = f"the answer is not HTTP ({describe_connection_error(problem)})"
        raise WebError(find_connection_error(problem) or message) from None
    except FileTooLarge:
        raise
    except OSError as problem:
        reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
        if isinstance(reason, TimeoutError):
            raise WebError(
                f"no data received for {compute_silence_limit():.0f} s", WebErrorKind.SILENT
            ) from None
        cause = reason if isinstance(reason, BaseException) else problem
        raise WebError(describe_connection_error(cause), WebErrorKind.UNREACHABLE) from None
    except ValueError as problem:
        raise WebError(describe_connection_error(problem), WebErrorKind.INVALID_REQUEST) from None


def _read_complete_response(request: WebRequest, answer: Any) -> WebResponse:
    """Return the complete content of a response.

    Raises WebError, FileTooLarge, HTTPException, OSError.
    """
    status = int(answer.status)
    # They have no content.
    if status in (204, 304):
        return WebResponse(status, b"")
    coding = str(answer.headers.get("Content-Encoding") or "identity").strip().lower()
    if coding != "identity":
        raise WebError(
            f'the answer has the unsupported encoding "{coding}"', WebErrorKind.WRONG_CONTENT
        )
    length = _read_declared_length(answer)  # None: unknown
    announced = length or 0
    is_success = status in _SUCCESS
    max_bytes = request.max_bytes
    if not is_success:
        if announced > MAX_ERROR_BYTES:
            # The status says enough.
            return WebResponse(status, b"")
        max_bytes = MAX_ERROR_BYTES
    content = ReadByteLimit(max_bytes).read_all(answer, announced)
    if length is None:
        # An empty document would have a length or the status 204.
        if request.method == "GET" and is_success and not content:
            raise WebError("the answer is empty")
    elif len(content) != length:
        raise WebError(f"the answer was cut off: {len(content)} of {length} bytes received")
    return WebResponse(status, content)


def _read_declared_length(answer: Any) -> int | None:
    """Return the declared length of a response; None if there is none, or in chunked encoding.

    Raises WebError.
    """
    text = str(answer.headers.get("Content-Length", "")).strip()
    if not text or answer.headers.get("Transfer-Encoding"):
        return None
    length = parse_integer(text)
    if length is None:
        raise WebError(f'the answer has the invalid length "{text[:20]}"')
    return length


def build_limited_session(endpoint: str) -> Any:
    """Build a session of `requests` for one server only, with a limited answer size.

    Its proxy and certificates (`verify`) are those of the environment. It raises RequestException.
    """
    from requests import Session
    from requests.exceptions import InvalidURL, RequestException

    origin = parse_origin(endpoint)

    class LimitedSession(Session):
        """Session with at most MAX_ANSWER_BYTES per answer, decompressed."""

        def send(self, request: Any, **options: Any) -> Any:
            """Send a request to the endpoint only."""
            try:
                is_to_endpoint = parse_origin(request.url) == origin
            except WebError:
                is_to_endpoint = False
            if not is_to_endpoint:
                raise InvalidURL(
                    f"an answer of {origin} links to another server, and credentials are not sent "
                    "there"
                )
            record_server_access(origin)
            is_stream = options.get("stream")
            try:
                response = super().send(request, **{**options, "stream": True})
                if not is_stream:
                    limit = ReadByteLimit(MAX_ANSWER_BYTES)
                    parts: list[bytes] = []
                    # A rejected answer leaves no open connection.
                    with response:
                        for part in response.iter_content(_PART_BYTES):
                            limit.count(len(part))
                            parts.append(part)
                    response._content = b"".join(parts)  # noqa: SLF001 - as Response.content does
            except RequestException:
                # Also a ValueError or OSError in some cases, so first.
                raise
            except FileTooLarge as problem:
                raise RequestException(f"the answer is unusable: {problem.strerror}") from None
            except ValueError as problem:
                # Of a length in the head.
                raise RequestException(f"the answer is not HTTP: {problem}") from None
            return response

    session = LimitedSession()
    settings = session.merge_environment_settings(
        endpoint, proxies={}, stream=None, verify=None, cert=None
    )
    session.proxies.update(settings["proxies"])
    session.verify = settings["verify"]
    # A password for the endpoint in a netrc file would replace the token of each request.
    session.trust_env = False
    return session
