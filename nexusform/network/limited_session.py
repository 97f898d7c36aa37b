"""Session of `requests` for SDKs: limited answers, and no other origin."""

from __future__ import annotations

from typing import Any, Final

from nexusform.files.access_record import record_server_access
from nexusform.files.regular_files import FileTooLarge
from nexusform.network.http_client import parse_origin
from nexusform.network.read_limits import MAX_ANSWER_BYTES, ReadByteLimit
from nexusform.network.web_errors import WebError

_PART_BYTES: Final = 1 << 16


def build_limited_session(endpoint: str) -> Any:
    """Build a session for one server. Its errors are those of `requests`."""
    from requests import Session
    from requests.exceptions import InvalidURL, RequestException

    origin = parse_origin(endpoint)

    class LimitedSession(Session):
        """Session with at most MAX_ANSWER_BYTES per answer, decompressed."""

        def send(self, request: Any, **options: Any) -> Any:
            """Send a request to the endpoint only."""
            try:
                is_own = parse_origin(request.url) == origin
            except WebError:
                is_own = False
            if not is_own:
                raise InvalidURL(f"an answer of {origin} links to another server, and credentials are not sent there")
            record_server_access(origin)
            is_stream = options.get("stream")
            try:
                response = super().send(request, **{**options, "stream": True})
                if not is_stream:
                    reading = ReadByteLimit(MAX_ANSWER_BYTES)
                    parts: list[bytes] = []
                    with response:  # a rejected answer leaves no open connection
                        for part in response.iter_content(_PART_BYTES):
                            reading.count(len(part))
                            parts.append(part)
                    response._content = b"".join(parts)  # noqa: SLF001 - as Response.content does
            except RequestException:
                raise
            except FileTooLarge as problem:
                raise RequestException(f"the answer is unusable: {problem.strerror}") from None
            except ValueError as problem:  # of a length in the head
                raise RequestException(f"the answer is not HTTP: {problem}") from None
            return response

    return LimitedSession()
