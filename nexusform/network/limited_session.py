"""Session of `requests`, for libraries that bring their own client, such as those of Azure."""

from typing import Any, Final

from nexusform.files.access_record import record_server_access
from nexusform.files.regular_files import FileTooLarge
from nexusform.network.http_client import parse_origin
from nexusform.network.read_limits import MAX_ANSWER_BYTES, ReadByteLimit
from nexusform.network.web_errors import WebError

# Bytes read at once.
_PART_BYTES: Final = 1 << 16


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
