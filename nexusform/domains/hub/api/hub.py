"""The API server of a hub, over lightkube: where it is, who asks, and each request until it is answered.

What reads may be asked again, and so may a server-side apply, which says what is to be and not what is to be
done; a deletion carries the uid of what is meant.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from nexusform.domains.hub.api.hub_silence import why_silent
from nexusform.domains.hub.api.hub_words import Refusal, Refused
from nexusform.log import log
from nexusform.providers.kubeconfig import (
    Account,
    KubeconfigProblem,
    account_of_pod,
    http_client,
    read_account,
)

if TYPE_CHECKING:
    from httpx2 import Client

KUBECONFIG: Final = "NF_FLEET_KUBECONFIG"
CONTEXT: Final = "NF_FLEET_CONTEXT"
_OF_KUBECTL: Final = "KUBECONFIG"
_AT_HOME: Final = "~/.kube/config"
_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
_PAGE: Final = 500
_AGAIN: Final = 3  # how often a list is begun again that grew too old
_PATIENCE: Final = 90.0  # seconds of asking again
_PATIENCE_WITH_WEBHOOKS: Final = 8.0  # of a dry run, once: all others ask the same webhook
_FIRST_PATIENCE: Final = 5.0  # of a server that has never answered
_SECONDS: Final = 30.0  # of one request
_AT_ONCE: Final = 16  # requests at a time, however many steps wait
_LARGEST: Final = 1 << 28  # bytes of an answer
_WATCHED: Final = 240  # seconds of one watch
_EVENTS: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
_JSON: Final = "application/json"


class HubProblem(Exception):
    """The hub cannot be asked: the message says which, and why."""


class Way(Struct, frozen=True):
    """How a hub is reached: a kubeconfig ("" = as kubectl finds it) and a context ("" = its current one)."""

    kubeconfig: str = ""
    context: str = ""


class Listed(Struct, frozen=True):
    """The objects of a collection at one moment, which `version` names."""

    items: list[dict[str, Any]]
    version: str


class Pace(Struct, frozen=True):
    """How time goes by."""

    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic


def way_to_hub(settings: Mapping[str, Any], *, confined: bool) -> Way:
    """What the environment says, else the settings; in a confined run the environment alone. Raises
    HubProblem.
    """
    written = {name: str(settings.get(name) or "") for name in ("kubeconfig", "context")}
    given = {"kubeconfig": os.environ.get(KUBECONFIG, ""), "context": os.environ.get(CONTEXT, "")}
    refused = [name for name in written if confined and written[name] and written[name] != given[name]]
    if refused:
        raise HubProblem(
            f"{' and '.join(refused)} of the configuration {'is' if len(refused) == 1 else 'are'} not read "
            f"in a confined run: a kubeconfig may run programs. Leave it out, and set {KUBECONFIG} and "
            f"{CONTEXT} where nexusform runs."
        )
    return Way(**{name: given[name] or written[name] for name in written})


class Hub:
    """One API server. Calls may come from several threads at once."""

    def __init__(self, way: Way, pace: Pace | None = None) -> None:
        self._way = way
        self._pace = pace or Pace()
        account = _account(way)
        self._client, self.server = _client(account), account.server
        self._former: list[Client] = []  # whose credentials ran out; others may still wait for their answers
        self._renewing = Lock()
        self._kinds: dict[str, Mapping[str, tuple[str, bool]]] = {}
        self._discovering = Lock()
        self._sending = Semaphore(_AT_ONCE)
        self._silent_since: float | None = None  # since when a webhook does not answer dry runs
        self._has_answered = False
        self.closed = False

    def close(self) -> None:
        """Give the connections back."""
        self.closed = True
        for client in (*self._former, self._client):
            client.close()

    # --- requests ------------------------------------------------------------------------------

    def get(self, path: str, **query: str) -> dict[str, Any] | None:
        """An object, None where there is none. Raises Refused and HubProblem."""
        try:
            return self._object("GET", path, query)
        except Refused as refused:
            if refused.status == 404 and refused.kind is Refusal.NO_OBJECT:
                return None
            raise

    def apply(
        self, path: str, body: Mapping[str, Any], manager: str, *, force: bool = False, dry_run: bool = False
    ) -> dict[str, Any]:
        """Server-side apply: the object as it is then. Raises Refused and HubProblem."""
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": "true" if force else "false"}
        return self._object("PATCH", path, query | _dry(dry_run), body, APPLY)

    def merge(
        self, path: str, body: Mapping[str, Any], manager: str, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """A merge patch: the object as it is then. Raises Refused and HubProblem."""
        query = {"fieldManager": manager, "fieldValidation": "Strict"}
        return self._object("PATCH", path, query | _dry(dry_run), body, MERGE)

    def delete(self, path: str, uid: str = "", *, dry_run: bool = False) -> None:
        """Delete the object with this uid; one that is gone already is no error. Raises Refused."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            self._object("DELETE", path, _dry(dry_run), options)
        except Refused as refused:
            if refused.status != 404:
                raise

    def list(self, path: str, **query: str) -> list[dict[str, Any]]:
        """All objects of a collection, at one moment. Raises Refused and HubProblem."""
        return self.listed(path, **query).items

    def listed(self, path: str, at: str = "", **query: str) -> Listed:
        """All objects of a collection, and at which moment: now, or at the version `at`, which may have grown
        too old. Raises Refused and HubProblem.
        """
        if at:
            exactly = {"resourceVersion": at, "resourceVersionMatch": "Exact"}
            return self._all_pages(path, query, exactly)
        for number in range(_AGAIN):
            try:
                return self._all_pages(path, query, {})
            except Refused as refused:
                if refused.kind is not Refusal.GONE or number == _AGAIN - 1:
                    raise
        raise AssertionError

    def _all_pages(self, path: str, query: Mapping[str, str], first: Mapping[str, str]) -> Listed:
        """`first` is what the first page is asked for besides: further ones are of the same moment."""
        items: list[dict[str, Any]] = []
        more = ""
        while True:
            asked = {**query, "limit": str(_PAGE), **({"continue": more} if more else first)}
            answer = self._object("GET", path, asked)
            page = answer.get("items")
            if not isinstance(page, list):
                raise HubProblem(f"{self.server} answers {path} with something that is no list.")
            kind = str(answer.get("kind") or "").removesuffix("List")
            items += ({"apiVersion": answer.get("apiVersion"), "kind": kind, **item} for item in page)
            metadata = answer.get("metadata") or {}
            more = str(metadata.get("continue") or "")
            if not more:
                return Listed(items, str(metadata.get("resourceVersion") or ""))

    def watch(self, path: str, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """What happens to the objects of a collection since a moment, until the server ends it: ADDED,
        MODIFIED or DELETED, and the object; BOOKMARK tells how far it is. Raises Refused and HubProblem.
        """
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCHED),
        }
        patience = (_SECONDS, _WATCHED + _SECONDS, _SECONDS, _SECONDS)  # to connect, read, write, wait
        headers = {"Accept": _JSON}
        try:
            with self._client.stream("GET", path, params=query, headers=headers, timeout=patience) as answer:
                _raise_unless_success(answer)
                for line in answer.iter_lines():
                    yield self._event(path, line)
        except (Refused, HubProblem):
            raise
        except Exception as problem:  # noqa: BLE001 - of httpx, of sockets
            raise HubProblem(f"{self.server} cannot be watched: {why_silent(problem)}.") from None

    def _event(self, path: str, line: str) -> tuple[str, dict[str, Any]]:
        event = _decoded(line)
        body = event.get("object") if isinstance(event, dict) else None
        kind = str(event.get("type")) if isinstance(event, dict) else ""
        if not isinstance(body, dict) or kind not in _EVENTS:
            raise HubProblem(f"{self.server} answers a watch of {path} with something that is no event.")
        if kind == "ERROR":
            raise Refused(int(body.get("code") or 500), body)
        return kind, body

    def kinds_of(self, version: str) -> Mapping[str, tuple[str, bool]]:
        """What a group and version serves: kind to plural and whether it stands in namespaces; nothing where
        it is not served. Raises Refused and HubProblem.
        """
        with self._discovering:  # many steps ask for the same at once
            return self._kinds_served(version)

    def _kinds_served(self, version: str) -> Mapping[str, tuple[str, bool]]:
        if version not in self._kinds:
            path = f"/apis/{version}" if "/" in version else f"/api/{version}"
            try:
                answer = self._object("GET", path, {})
            except Refused as refused:
                if refused.status != 404:
                    raise
                return {}  # it may be served later
            self._kinds[version] = {
                str(each["kind"]): (str(each["name"]), each.get("namespaced") is True)
                for each in answer.get("resources") or ()
                if "/" not in str(each.get("name"))
            }
        return self._kinds[version]

    # --- one request ---------------------------------------------------------------------------

    def _object(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        content_type: str = _JSON,
    ) -> dict[str, Any]:
        """Ask until there is an answer. Raises Refused and HubProblem."""
        patience = _PATIENCE if self._has_answered else _FIRST_PATIENCE
        until, wait, renewed = self._pace.now() + patience, 0.5, False
        while True:
            client = self._client
            try:
                return self._ask(client, method, path, query, body, content_type)
            except Refused as refused:
                if refused.kind is Refusal.NOT_SIGNED_IN and not renewed:
                    renewed = True
                    self._renew(client)
                    continue
                if refused.kind is Refusal.SILENT_WEBHOOK and "dryRun" in query:
                    until = self._patient_until()
                if not _may_pass(method, refused) or self._pace.now() + wait > until:
                    raise
                self._pace.sleep(wait if refused.retry_after is None else min(refused.retry_after, 30.0))
            except HubProblem as problem:
                if self.closed or self._pace.now() + wait > until:
                    raise
                log("debug", "hub asked again", path=path, why=str(problem))
                self._pace.sleep(wait)
            wait = min(wait * 2, 15.0)

    def _renew(self, refused: Client) -> None:
        """Read the credentials anew, once for all who were refused with the former ones. Raises
        HubProblem.
        """
        with self._renewing:
            if self._client is refused and not self.closed:
                self._client = _client(_account(self._way))
                self._former.append(refused)

    def _patient_until(self) -> float:
        """Until when dry runs are asked again that a webhook did not answer."""
        self._silent_since = self._silent_since or self._pace.now()
        return self._silent_since + _PATIENCE_WITH_WEBHOOKS

    def _ask(
        self,
        client: Client,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        content_type: str,
    ) -> dict[str, Any]:
        if self.closed:
            raise HubProblem(f"{self.server} is not asked any more.")
        headers = {"Accept": _JSON, "Content-Type": content_type}
        content = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        try:
            request = client.build_request(method, path, params=dict(query), content=content, headers=headers)
            with self._sending:
                answer = client.send(request)
        except Exception as problem:  # noqa: BLE001 - of httpx, of sockets, of an exec plug-in
            raise HubProblem(f"{self.server} cannot be asked: {why_silent(problem)}.") from None
        log("debug", "hub answered", method=method, path=path, status=answer.status_code)
        self._has_answered = True
        text = answer.text
        if not answer.is_success:
            raise Refused(answer.status_code, _decoded(text), _seconds(answer.headers.get("Retry-After")))
        document = _decoded(text)
        if not isinstance(document, dict) or len(text) > _LARGEST:
            raise HubProblem(f"{self.server} answers {path} with something that is no object of Kubernetes.")
        return document


class Asked(Struct):
    """A hub that is reached when it is first asked, once: many steps may begin together."""

    way: Way
    pace: Pace = field(default_factory=Pace)
    _hub: Hub | None = None
    _reaching: Lock = field(default_factory=Lock)

    def hub(self) -> Hub:
        """The hub. Raises HubProblem."""
        with self._reaching:
            if self._hub is None:
                self._hub = Hub(self.way, self.pace)
            return self._hub

    def close(self) -> None:
        """Leave the hub, where it was reached."""
        if self._hub is not None:
            self._hub.close()


def _raise_unless_success(answer: Any) -> None:
    """Raises Refused for an answer that begins no stream."""
    if not answer.is_success:
        raise Refused(answer.status_code, _decoded(answer.read().decode()))


def _may_pass(method: str, refused: Refused) -> bool:
    """Whether asking once more may be answered otherwise. A conflict of versions passes by itself for a
    request that says what is to be.
    """
    if refused.kind in (Refusal.LATER, Refusal.SILENT_WEBHOOK):
        return True
    return refused.kind is Refusal.CONFLICT and method == "PATCH"


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text[:2000]


def _seconds(header: str | None) -> float | None:
    return float(header) if header is not None and header.isdecimal() else None


# --- connecting ----------------------------------------------------------------------------------


def _account(way: Way) -> Account:
    """Who asks which server. Raises HubProblem."""
    try:
        paths = _kubeconfigs(way)
        return read_account(paths, way.context) if paths else account_of_pod()
    except KubeconfigProblem as problem:
        raise HubProblem(str(problem)) from None


def _client(account: Account) -> Client:
    """Raises HubProblem."""
    try:
        return http_client(account, _SECONDS)
    except KubeconfigProblem as problem:
        raise HubProblem(str(problem)) from None


def _kubeconfigs(way: Way) -> list[Path]:
    """The kubeconfigs in the order of kubectl; none for the service account of a pod. Raises HubProblem."""
    if way.kubeconfig:
        return [_existing(way.kubeconfig)]
    named = [Path(each).expanduser() for each in os.environ.get(_OF_KUBECTL, "").split(os.pathsep) if each]
    standing = [path for path in named if path.is_file()]
    if named and not standing:
        # What stands at home may be another cluster: kubectl does not look there either.
        raise HubProblem(f"None of the kubeconfigs is there that {_OF_KUBECTL} names.")
    at_home = Path(_AT_HOME).expanduser()
    if standing or at_home.is_file():
        return standing or [at_home]
    if os.environ.get(_IN_CLUSTER):
        return []
    raise HubProblem(
        f"Which hub is meant is not said: there is no {_AT_HOME}. Set {KUBECONFIG} or {_OF_KUBECTL} to a "
        "kubeconfig, or write kubeconfig."
    )


def _existing(named: str) -> Path:
    path = Path(named).expanduser()
    if not path.is_file():
        raise HubProblem(f'There is no kubeconfig "{named}".')
    return path
