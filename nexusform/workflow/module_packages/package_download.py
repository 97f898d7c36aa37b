"""Requests for module packages, and how a download fails."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from nexusform.files.regular_files import FileTooLarge
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network.deadlines import DeadlineRunner
from nexusform.network.http_client import WebRequest, WebResponse, send_request
from nexusform.network.web_errors import WebError

_MAX_ARCHIVE_BYTES: Final = 1 << 28


class DownloadError(Exception):
    """Package that cannot be downloaded; the message is part of a sentence, without a full stop."""


def hide_query(address: str) -> str:
    """Return an address for messages: without a query, which may have a token."""
    url = urlsplit(address)
    return urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, "", ""))


def send_download(
    address: str,
    allows_address: Callable[[str], bool],
    headers: Mapping[str, str] | None = None,
    max_bytes: int = _MAX_ARCHIVE_BYTES,
) -> WebResponse:
    """Send a GET request and return a successful response.

    Redirects are followed if `allows_address` accepts them, to other servers without credentials.
    Raises DownloadError.
    """

    def explain_rejection(target: str) -> str:
        return "" if allows_address(target) else build_rejection(target)

    shown_address = hide_query(address)
    request = WebRequest(
        "GET",
        address,
        headers=headers or {},
        max_bytes=max_bytes,
        explain_rejection=explain_rejection,
    )
    if not allows_address(address):
        raise DownloadError(build_rejection(address))
    runner = DeadlineRunner(lambda: shown_address)
    try:
        response = runner.run("download", lambda: send_request(request))
    except WebError as problem:
        raise DownloadError(f"{shown_address}: {problem}") from None
    except FileTooLarge:
        raise DownloadError(
            f"{shown_address}: the answer is larger than {max_bytes >> 20} MiB"
        ) from None
    except BackendProblem as problem:
        raise DownloadError(str(problem).rstrip(".")) from None
    if not response.is_success:
        raise DownloadError(f"{shown_address}: the server answered {response.status}")
    return response


def build_rejection(address: str) -> str:
    """Return why a sandboxed run does not download from an address."""
    return (
        f"a sandboxed run downloads nothing from {hide_query(address)}. Allow it with "
        "-allow-module=URL-PREFIX or NF_ALLOW_MODULE"
    )
