"""Client of Tacker: requests of the interface /vnflcm/v2, and failures with the reason given by Tacker."""

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from nexusform.domains.vnf.providers.openstack_credentials import Credentials, fetch_token
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.json_data.plain_data import get_text, get_value_at_path, list_mappings
from nexusform.network.api_client import ApiClient, ApiRequest, ApiResponse
from nexusform.network.read_limits import PageLimits, parse_json
from nexusform.network.web_errors import WebError

_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_ABSENT: Final = (("GET", _NOT_FOUND), ("DELETE", _NOT_FOUND))
_CONFLICT: Final = 409
_SERVER_ERROR: Final = 500
_MARKER: Final = "nextpage_opaque_marker"
_NEXT_LINK: Final = re.compile(r'<([^>]*)>\s*;\s*rel="?next"?')
_BASE: Final = "/vnflcm/v2"
_FIRST_WAIT: Final = 0.2
_UNLOCK_SECONDS: Final = 3.0


class TackerProblem(ProviderProblem):
    """Failed request. `status` is 0 without an answer."""

    def __init__(self, message: str, *, status: int = 0, is_unreachable: bool = False) -> None:
        super().__init__(message, is_unreachable=is_unreachable)
        self.status = status


class PollTiming(Struct, frozen=True):
    """Seconds of retries without an answer, and the longest pause between two polls."""

    outage: float = 30.0
    longest_pause: float = 5.0
    sleep: Callable[[float], None] = time.sleep
    read_clock: Callable[[], float] = time.monotonic

    def compute_next_pause(self, pause: float) -> float:
        """Return the next pause."""
        return min(pause * 1.5, self.longest_pause)


class TackerClient:
    """Client of one Tacker; safe for use by several threads."""

    def __init__(self, endpoint: str, credentials: Credentials | None, timing: PollTiming) -> None:
        self.endpoint = endpoint
        self.timing = timing
        self._credentials = credentials
        self.project = credentials.project if credentials is not None else ""
        self._token = ""
        verification = credentials.verification if credentials is not None else True
        self.verifies_server = verification is not False
        self._client = ApiClient(endpoint, verify=verification)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def read(self, path: str) -> Mapping[str, Any] | None:
        """Return an object, None if it does not exist. Raises TackerProblem."""
        answer = self._read_answer(path, query={})
        return None if answer.status == _NOT_FOUND else self._parse_object(answer, path)

    def _read_answer(self, path: str, query: Mapping[str, str]) -> ApiResponse:
        """Return an answer. While Tacker is unreachable, read again for a limited time. Raises TackerProblem."""
        ends_at = self.timing.read_clock() + self.timing.outage
        pause = _FIRST_WAIT
        while True:
            try:
                return self._send("GET", path, None, query)
            except TackerProblem as problem:
                if not problem.is_unreachable or self.timing.read_clock() + pause > ends_at:
                    raise
            self.timing.sleep(pause)
            pause = self.timing.compute_next_pause(pause)

    def read_list(self, path: str, query: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Return the objects of all pages of a list. Raises TackerProblem."""
        budget = PageLimits()
        rows: list[Mapping[str, Any]] = []
        marker = ""
        while True:
            answer = self._read_answer(path, {**query, _MARKER: marker} if marker else query)
            page = self._parse(answer)
            if list_mappings(page) != page:
                raise TackerProblem(f"The answer of {self.endpoint} to {_BASE}{path} is not a list of objects.")
            rows += page
            link = _NEXT_LINK.search(answer.headers.get("link", ""))
            marker = parse_qs(urlsplit(link[1]).query).get(_MARKER, [""])[0] if link is not None else ""
            limit = budget.add_page(len(answer.content), marker)  # "": not exceeded
            if limit:
                raise TackerProblem(f"The list {_BASE}{path} of {self.endpoint} cannot be read: {limit}.")
            if not marker:
                return rows

    def write(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> ApiResponse:
        """Send a change. Send it again after conflicts, for a limited time: Tacker reports the end of an operation
        before it unlocks the VNF. Raises TackerProblem.
        """
        ends_at = self.timing.read_clock() + _UNLOCK_SECONDS
        while True:
            try:
                return self._send(method, path, body, {})
            except TackerProblem as problem:
                if problem.status != _CONFLICT or self.timing.read_clock() > ends_at:
                    raise
            self.timing.sleep(_FIRST_WAIT)

    def create_instance(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a VNF instance and return it. Raises TackerProblem."""
        return self._parse_object(self.write("POST", "/vnf_instances", body), "/vnf_instances")

    def _parse_object(self, answer: ApiResponse, path: str) -> Mapping[str, Any]:
        document: Mapping[str, Any] = self._parse(answer)
        if not get_text(document, "id"):
            raise TackerProblem(f"The answer of {self.endpoint} to {_BASE}{path} is not an object with an id.")
        return document

    def _parse(self, answer: ApiResponse) -> Any:
        try:
            return parse_json(answer.content)
        except ValueError as problem:
            raise TackerProblem(f"The answer of {self.endpoint} cannot be read: {problem}.") from None

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
        *,
        is_repeated: bool = False,
    ) -> ApiResponse:
        """Send a request, again with a new token after a 401. A 404 to GET or DELETE is an answer, other errors raise
        TackerProblem.
        """
        headers = {"Version": "2.0.0", "Accept": "application/json"}
        if self._credentials is not None:
            self._token = self._token or fetch_token(self._credentials)
            headers["X-Auth-Token"] = self._token
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            answer = self._client.send(ApiRequest(method, f"{_BASE}{path}", query, content, headers))
        except WebError as problem:
            raise TackerProblem(f"Tacker at {self.endpoint}: {problem}.", is_unreachable=True) from None
        if answer.status == _UNAUTHORIZED and self._credentials is not None and not is_repeated:
            self._token = ""
            return self._send(method, path, body, query, is_repeated=True)
        if answer.is_success or (method, answer.status) in _ABSENT:
            return answer
        document = None
        with suppress(ValueError):
            document = parse_json(answer.content)
        detail = str(get_value_at_path(document, "detail") or "it gave no reason.").strip()
        message = f"Tacker rejected {method} {_BASE}{path} (status {answer.status}): {detail}"
        is_unreachable = answer.status > _SERVER_ERROR  # such as 503; 500 is an answer of Tacker
        raise TackerProblem(message, status=answer.status, is_unreachable=is_unreachable)
