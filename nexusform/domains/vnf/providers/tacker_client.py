"""Client of Tacker: requests of the interface /vnflcm/v2, and failures.

A failure has the reason given by Tacker. The credentials of its user come from the environment
(OS_*) or clouds.yaml, never from a configuration.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import yaml
from msgspec import Struct

from nexusform.documents.yaml_documents import load_yaml
from nexusform.files.access_record import read_variable
from nexusform.files.external_files import explain_untrusted_file, is_untrusted_path
from nexusform.files.regular_files import Confinement, read_regular
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.json_data.plain_data import get_mapping, get_text, get_value_at_path, list_mappings
from nexusform.network.api_client import ApiClient, ApiRequest
from nexusform.network.deadlines import share_deadline
from nexusform.network.http_client import WebResponse
from nexusform.network.read_limits import PageLimits, parse_json
from nexusform.network.web_errors import WebError, check_plain_credentials

_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_ABSENT: Final = (("GET", _NOT_FOUND), ("DELETE", _NOT_FOUND))
_CONFLICT: Final = 409
_SERVER_ERROR: Final = 500
_MARKER: Final = "nextpage_opaque_marker"
# Link with its parameters, and the relation of the next page among them.
_LINK: Final = re.compile(r"<([^>]*)>([^<]*)")
_NEXT: Final = re.compile(r'rel="?next\b')
_BASE: Final = "/vnflcm/v2"
_FIRST_WAIT: Final = 0.2
_UNLOCK_SECONDS: Final = 3.0


class TackerProblem(ProviderProblem):
    """Failed request.

    `status` is 0 without an answer.
    """

    def __init__(self, message: str, *, status: int = 0, is_unreachable: bool = False) -> None:
        super().__init__(message, is_unreachable=is_unreachable)
        # HTTP status, 0 without an answer.
        self.status = status


class PollTiming(Struct, frozen=True):
    """Seconds of retries without an answer, and the longest pause between two polls."""

    outage: float = 30.0
    longest_pause: float = 5.0
    sleep: Callable[[float], None] = time.sleep
    read_clock: Callable[[], float] = time.monotonic

    def compute_next_pause(self, pause: float) -> float:
        """Return the pause after this one: longer, up to a limit."""
        return min(pause * 1.5, self.longest_pause)


class TackerClient:
    """Client of one Tacker; safe for use by several threads."""

    def __init__(self, endpoint: str, credentials: Credentials, timing: PollTiming) -> None:
        """Create the HTTP client without logging in; the token is requested later."""
        self.endpoint = endpoint
        self.timing = timing
        self._credentials = credentials
        self.project = credentials.project
        # The client has not logged in yet.
        self._token = ""
        self._login_lock = Lock()
        self.verifies_server = credentials.verification is not False
        self._client = ApiClient(endpoint, verify=credentials.verification)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def read(self, path: str) -> Mapping[str, Any] | None:
        """Return an object, None if it does not exist.

        Raises TackerProblem.
        """
        answer = self._read_answer(path, query={})
        if answer.status == _NOT_FOUND:
            return None
        document = self._parse_object(answer, path)
        if document["id"] != path.rpartition("/")[2]:
            raise TackerProblem(
                f"The answer of {self.endpoint} to {_BASE}{path} is another object, with the id "
                f"{document['id']}."
            )
        return document

    @share_deadline()
    def _read_answer(self, path: str, query: Mapping[str, str]) -> WebResponse:
        """Return an answer.

        While Tacker is unreachable, read again for a limited time. Raises TackerProblem.
        """
        ends_at = self.timing.read_clock() + self.timing.outage
        pause = _FIRST_WAIT
        while True:
            try:
                return self._send("GET", path, body=None, query=query)
            except TackerProblem as problem:
                if not problem.is_unreachable or self.timing.read_clock() + pause > ends_at:
                    raise
            self.timing.sleep(pause)
            pause = self.timing.compute_next_pause(pause)

    def read_list(self, path: str, query: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Return the objects of all pages of a list.

        Raises TackerProblem.
        """
        budget = PageLimits()
        rows: list[Mapping[str, Any]] = []
        # The marker in the link of a page identifies the next one; "" is the first or none.
        marker = ""
        while True:
            answer = self._read_answer(path, {**query, _MARKER: marker} if marker else query)
            page = self._parse(answer)
            if list_mappings(page) != page:
                raise TackerProblem(
                    f"The answer of {self.endpoint} to {_BASE}{path} is not a list of objects."
                )
            rows += page
            marker = self._find_next_marker(answer, path)
            # "": not exceeded.
            limit = budget.add_page(answer.content, marker)
            if limit:
                raise TackerProblem(
                    f"The list {_BASE}{path} of {self.endpoint} cannot be read: {limit}."
                )
            if not marker:
                return rows

    def _find_next_marker(self, answer: WebResponse, path: str) -> str:
        """Return the marker of the next page, "" after the last one.

        Raises TackerProblem for a next page without a marker: the list would lack its rows.
        """
        links = _LINK.finditer(answer.headers.get("link", ""))
        link = next((link[1] for link in links if _NEXT.search(link[2])), None)
        if link is None:
            return ""
        marker: str = parse_qs(urlsplit(link).query).get(_MARKER, [""])[0]
        if not marker:
            raise TackerProblem(
                f"The list {_BASE}{path} of {self.endpoint} cannot be read: the address of its "
                f"next page has no {_MARKER}."
            )
        return marker

    def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        check_before_retry: Callable[[], None] = lambda: None,
    ) -> WebResponse:
        """Send a change.

        Send it again after conflicts, for a limited time: Tacker reports the end of an operation
        before it unlocks the VNF. `check_before_retry` raises an exception if another client
        changed the VNF. Raises TackerProblem.
        """
        ends_at = self.timing.read_clock() + _UNLOCK_SECONDS
        while True:
            try:
                return self._send(method, path, body, query={})
            except TackerProblem as problem:
                if problem.status != _CONFLICT or self.timing.read_clock() > ends_at:
                    raise
            self.timing.sleep(_FIRST_WAIT)
            check_before_retry()

    def create_instance(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a VNF instance and return it.

        Raises TackerProblem.
        """
        return self._parse_object(self.write("POST", "/vnf_instances", body), "/vnf_instances")

    def _parse_object(self, answer: WebResponse, path: str) -> Mapping[str, Any]:
        """Return the object in an answer.

        Raises TackerProblem if it has no id.
        """
        document: Mapping[str, Any] = self._parse(answer)
        if not get_text(document, "id"):
            raise TackerProblem(
                f"The answer of {self.endpoint} to {_BASE}{path} is not an object with an id."
            )
        return document

    def _parse(self, answer: WebResponse) -> Any:
        try:
            return parse_json(answer.content)
        except ValueError as problem:
            raise TackerProblem(
                f"The answer of {self.endpoint} cannot be read: {problem}."
            ) from None

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
        *,
        is_repeated: bool = False,
    ) -> WebResponse:
        """Send a request, after a 401 again (`is_repeated`).

        Return Tacker's own 404 to GET or DELETE. Raises TackerProblem.
        """
        headers = {"Version": "2.0.0", "Accept": "application/json"}
        if self._credentials.fields:
            # One of many parallel reads logs in.
            with self._login_lock:
                self._token = self._token or fetch_token(self._credentials)
            headers["X-Auth-Token"] = self._token
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            answer = self._client.send(
                ApiRequest(method, f"{_BASE}{path}", query, content, headers)
            )
        except WebError as problem:
            raise TackerProblem(
                f"Tacker at {self.endpoint}: {problem}.", is_unreachable=True
            ) from None
        if answer.status == _UNAUTHORIZED and self._credentials.fields and not is_repeated:
            # Unless another request has logged in again meanwhile.
            if self._token == headers["X-Auth-Token"]:
                self._token = ""
            return self._send(method, path, body, query, is_repeated=True)
        if answer.is_success:
            return answer
        document = None
        with suppress(ValueError):
            document = parse_json(answer.content)
        reason = str(get_value_at_path(document, "detail") or "").strip()
        if (method, answer.status) in _ABSENT:
            # A gateway without Tacker behind it also answers 404: the object may exist.
            if reason and get_value_at_path(document, "status") == _NOT_FOUND:
                return answer
            reason = (
                "this is not an answer of Tacker. Check its endpoint and the proxies before it."
            )
        detail = reason or "it gave no reason."
        message = f"Tacker rejected {method} {_BASE}{path} (status {answer.status}): {detail}"
        # Such as 503; 500 is an answer of Tacker.
        is_unreachable = answer.status > _SERVER_ERROR
        raise TackerProblem(message, status=answer.status, is_unreachable=is_unreachable)


_MAX_BYTES: Final = 1 << 20
_PLACES: Final = ("clouds.yaml", "~/.config/openstack/clouds.yaml", "/etc/openstack/clouds.yaml")
_CREATED: Final = 201
_REJECTIONS: Final = (400, 401, 403)
# Fields of `auth` in clouds.yaml; the variable of each is OS_ and its name in capitals.
_FIELDS: Final = (
    "auth_url",
    "username",
    "user_id",
    "password",
    "project_name",
    "project_id",
    "user_domain_name",
    "user_domain_id",
    "project_domain_name",
    "project_domain_id",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
    "token",
)
_USER_FIELDS: Final = ("user_id", "username")


class Credentials(Struct, frozen=True):
    """Fields of `auth` as in clouds.yaml, and the certificate settings.

    They are {} for a Tacker without Keystone.
    """

    fields: Mapping[str, str] = {}
    certificate: str = ""
    is_verified: bool = True

    @property
    def project(self) -> str:
        """Id or name of the project, "" if the credentials imply it."""
        return self.fields.get("project_id") or self.fields.get("project_name", "")

    @property
    def verification(self) -> str | bool:
        """Setting `verify` of the client.

        The path of a CA certificate, else whether servers are verified.
        """
        return self.certificate or self.is_verified


def read_credentials(confinement: Confinement) -> Credentials:
    """Read the credentials: of the cloud named by OS_CLOUD, else of other OS_ variables.

    Raises ProviderProblem.
    """
    cloud = read_variable("OS_CLOUD")
    if cloud:
        return _read_cloud(cloud, confinement)
    fields = {name: value for name in _FIELDS if (value := read_variable(f"OS_{name.upper()}"))}
    return _check_login(Credentials(fields, read_variable("OS_CACERT")), "the environment")


def fetch_token(credentials: Credentials) -> str:
    """Log in to Keystone v3, and return the token.

    Raises ProviderProblem.
    """
    fields = credentials.fields
    address = f"{fields['auth_url'].rstrip('/').removesuffix('/v3')}/v3"
    if rejection := check_plain_credentials(address):  # over http
        raise ProviderProblem(f"Keystone: {rejection}.")
    body = json.dumps({"auth": _build_authentication(fields)}).encode()
    client = ApiClient(address, verify=credentials.verification)
    try:
        request = ApiRequest(
            "POST", "/auth/tokens", content=body, headers={"Content-Type": "application/json"}
        )
        answer = client.send(request)
    except WebError as problem:
        raise ProviderProblem(f"Keystone at {address}: {problem}.", is_unreachable=True) from None
    finally:
        client.close()
    token = answer.headers.get("x-subject-token", "")
    if answer.status == _CREATED and token:
        return token
    if answer.status in _REJECTIONS:
        raise ProviderProblem(
            f"Keystone at {address} rejected the credentials (status {answer.status})."
        )
    detail = (
        f"{address} is not Keystone v3, or it failed: status {answer.status} in place of a token"
    )
    raise ProviderProblem(
        f"{detail}. Check auth_url.", is_unreachable=answer.status >= _SERVER_ERROR
    )


def _read_cloud(cloud: str, confinement: Confinement) -> Credentials:
    """Read the credentials of a cloud from the first clouds.yaml found.

    Raises ProviderProblem.
    """
    configured = read_variable("OS_CLIENT_CONFIG_FILE")
    paths = [Path(place).expanduser() for place in ((configured,) if configured else _PLACES)]
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        raise ProviderProblem(
            f'OS_CLOUD is "{cloud}", but there is no clouds.yaml: {", ".join(map(str, paths))}.'
        )
    if is_untrusted_path(str(path), confinement):
        raise ProviderProblem(
            explain_untrusted_file("OS_CLOUD", str(path), "a pull request could replace it")
        )
    try:
        document = load_yaml(read_regular(path, _MAX_BYTES))
    except (OSError, yaml.YAMLError, ValueError, RecursionError):
        raise ProviderProblem(f"{path} cannot be read as YAML.") from None
    entry = get_mapping(document, "clouds", cloud)
    auth = entry.get("auth")
    if not isinstance(auth, Mapping):
        raise ProviderProblem(f'{path} has no cloud "{cloud}" with the field auth.')
    fields = {name: str(auth[name]) for name in _FIELDS if auth.get(name)}
    verified = entry.get("verify") is not False
    return _check_login(
        Credentials(fields, str(entry.get("cacert") or ""), verified),
        f'the cloud "{cloud}" of {path}',
    )


def _check_login(credentials: Credentials, source: str) -> Credentials:
    """Return the credentials if they are enough for a login.

    Raises ProviderProblem.
    """
    fields = credentials.fields
    if "auth_url" not in fields:
        raise ProviderProblem(
            f'auth = "keystone" needs credentials, and {source} has no auth_url. Set OS_CLOUD, or '
            "OS_AUTH_URL and the "
            'other variables of an openrc file. A Tacker without Keystone needs auth = "none".'
        )
    has_password = "password" in fields and not fields.keys().isdisjoint(_USER_FIELDS)
    if not (has_password or "token" in fields or _has_application_credential(fields)):
        detail = (
            "needs a user and a password, a token, or an application credential with its secret"
        )
        raise ProviderProblem(f"{source[0].upper()}{source[1:]} {detail}.")
    return credentials


def _build_authentication(fields: Mapping[str, str]) -> dict[str, Any]:
    """Build the request of Keystone v3.

    It is by application credential, else by token, else by password.
    """
    user: dict[str, Any] = {
        "name": fields.get("username"),
        "domain": _build_domain(fields, "user_domain"),
    }
    if "user_id" in fields:
        user = {"id": fields["user_id"]}
    if _has_application_credential(fields):
        credential: dict[str, Any] = {"secret": fields["application_credential_secret"]}
        if "application_credential_id" in fields:
            credential["id"] = fields["application_credential_id"]
        else:
            credential |= {"name": fields["application_credential_name"], "user": user}
        return {
            "identity": {
                "methods": ["application_credential"],
                "application_credential": credential,
            }
        }
    scope: dict[str, Any] = {}
    if "project_id" in fields:
        scope = {"scope": {"project": {"id": fields["project_id"]}}}
    elif "project_name" in fields:
        domain = _build_domain(fields, "project_domain")
        scope = {"scope": {"project": {"name": fields["project_name"], "domain": domain}}}
    if "token" in fields:
        return {"identity": {"methods": ["token"], "token": {"id": fields["token"]}}, **scope}
    return {
        "identity": {
            "methods": ["password"],
            "password": {"user": user | {"password": fields["password"]}},
        },
        **scope,
    }


def _has_application_credential(fields: Mapping[str, str]) -> bool:
    """Return whether there is an application credential with its secret.

    By its id, or by its name and its user.
    """
    if "application_credential_secret" not in fields:
        return False
    if "application_credential_id" in fields:
        return True
    has_user = not fields.keys().isdisjoint(_USER_FIELDS)
    return has_user and "application_credential_name" in fields


def _build_domain(fields: Mapping[str, str], name: str) -> dict[str, str]:
    """Build the domain in the fields NAME_id or NAME_name for Keystone.

    "Default" is the usual one.
    """
    identifier = fields.get(f"{name}_id")
    return {"id": identifier} if identifier else {"name": fields.get(f"{name}_name", "Default")}
