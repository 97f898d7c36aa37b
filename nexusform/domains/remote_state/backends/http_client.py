"""Requests over HTTP, each with a length that is checked, a silence that ends, and no redirect to elsewhere.

A redirect is followed for GET only, and within one origin: another one must not be given credentials, and
what was to be written must not become something that is read.
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.backends.deadlines import silence_seconds
from nexusform.backends.refusals import LARGEST, Reading

SCHEMES: Final = ("http", "https")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS: Final = 5
_NO_BODY: Final = frozenset({204, 304})
_LARGEST_REFUSAL: Final = 1 << 20  # bytes of an answer that is no success
_PORTS: Final = {"http": 80, "https": 443}


class WebRequest(Struct, frozen=True):
    """What is asked. `largest` are the most bytes of an answer; `verify`: certificates are looked at."""

    method: str
    address: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    verify: bool = True
    largest: int = LARGEST


class WebAnswer(Struct, frozen=True):
    """A whole answer. `says_empty`: the server said that there is no content, by its length or its status."""

    status: int
    content: bytes
    says_empty: bool = False

    @property
    def is_success(self) -> bool:
        """Whether its status is what HTTP calls successful."""
        return _is_success(self.status)


class WebProblem(Exception):
    """No whole answer came; the message is part of a sentence. `may_pass`: it is worth asking again."""

    def __init__(self, message: str, *, may_pass: bool = True) -> None:
        super().__init__(message)
        self.may_pass = may_pass


def origin(address: str) -> str:
    """Scheme, host and port of an address, without credentials. Raises WebProblem."""
    try:
        parts = urllib.parse.urlsplit(address)
        port = parts.port
    except ValueError as problem:
        raise WebProblem(f"its address is none ({problem})", may_pass=False) from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise WebProblem("its address is no http or https address", may_pass=False)
    return f"{parts.scheme}://{parts.hostname}:{port or _PORTS[parts.scheme]}"


def ask(request: WebRequest) -> WebAnswer:
    """Send one request and read its answer whole, whatever its status. Raises WebProblem, TooLarge."""
    address = request.address
    for _ in range(_MOST_REDIRECTS + 1):
        answer, location = _send(request, address)
        if answer.status not in _REDIRECTS:
            return answer
        address = _followed(request, address, location, answer.status)
    raise WebProblem(f"it redirected more than {_MOST_REDIRECTS} times", may_pass=False)


def _followed(request: WebRequest, address: str, location: str, status: int) -> str:
    """Where a redirect leads, when it may be followed. Raises WebProblem."""
    target = ""
    try:
        target = urllib.parse.urljoin(address, location)
        there = origin(target)
    except (ValueError, WebProblem):
        there = "what is no http or https address"
    where = f"the server answered {status}, a redirect to {there}"
    if there != origin(address):
        raise WebProblem(
            f"{where}, which is not followed: credentials are for {origin(address)} alone. Correct the "
            "address",
            may_pass=False,
        )
    if request.method != "GET":
        raise WebProblem(
            f"{where}, which is followed for GET alone. Nothing was written. Correct the address",
            may_pass=False,
        )
    return target


def _send(request: WebRequest, address: str) -> tuple[WebAnswer, str]:
    """One request and its answer, and where that redirects to ("" when it does not)."""
    origin(address)
    try:
        asked = urllib.request.Request(  # noqa: S310 - `origin` looked at its scheme
            address, data=request.body, method=request.method, headers=dict(request.headers)
        )
        try:
            answer = _opener(request).open(asked, timeout=silence_seconds())
        except urllib.error.HTTPError as refusal:
            answer = refusal
        with answer:
            return _whole(request, answer), str(answer.headers.get("Location") or "")
    except http.client.HTTPException as problem:
        raise WebProblem(f"the answer is not HTTP ({_words(problem)})") from None
    except TimeoutError:
        raise WebProblem(f"no byte came for {silence_seconds():.0f} s") from None
    except urllib.error.URLError as problem:
        if isinstance(problem.reason, TimeoutError):
            raise WebProblem(f"no byte came for {silence_seconds():.0f} s") from None
        raise WebProblem(_words(problem.reason)) from None
    except ValueError as problem:
        raise WebProblem(_words(problem), may_pass=False) from None


def _opener(request: WebRequest) -> urllib.request.OpenerDirector:
    """What opens addresses: http and https alone, through the proxies of the environment, no redirects."""
    context = None
    if not request.verify:
        context = ssl._create_unverified_context()  # noqa: S323, SLF001 - asked for by the operator
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _whole(request: WebRequest, answer: Any) -> WebAnswer:
    """The content of an answer, all of it. Raises WebProblem, TooLarge, HTTPException, OSError."""
    status = int(answer.status)
    is_success = _is_success(status)
    announced = str(answer.headers.get("Content-Length") or "").strip()
    if status in _NO_BODY:
        return WebAnswer(status, b"", says_empty=True)
    coding = str(answer.headers.get("Content-Encoding") or "identity").strip().lower()
    if coding != "identity":
        raise WebProblem(f'the answer is encoded as "{coding}", which was not asked for', may_pass=False)
    is_chunked = bool(answer.headers.get("Transfer-Encoding"))
    if announced and not is_chunked and not (announced.isascii() and announced.isdigit()):
        raise WebProblem(f'the answer says that its length is "{announced[:20]}"')
    length = int(announced) if announced and not is_chunked else None
    reading = Reading(request.largest if is_success else max(_LARGEST_REFUSAL, length or 0))
    if not is_success and (length or 0) > _LARGEST_REFUSAL:
        return WebAnswer(status, b"")
    content = reading.take_all(answer, length or 0)
    if length is not None and len(content) != length:
        raise WebProblem(f"the answer was cut off: {len(content)} of {length} bytes came")
    if request.method == "GET" and is_success and not content and length is None:
        # Not the same as nothing: a length or a status would say so.
        raise WebProblem("the answer ended before it began")
    return WebAnswer(status, content, says_empty=length == 0)


def _is_success(status: int) -> bool:
    return 200 <= status < 300


def _words(problem: object) -> str:
    """What an exception says, in one line that can be shown."""
    text = str(getattr(problem, "strerror", None) or problem) or type(problem).__name__
    line = text.splitlines()[0]
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    return shown[:200] or type(problem).__name__
