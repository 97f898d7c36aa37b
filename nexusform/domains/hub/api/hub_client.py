"""API server of a hub: location, credentials, and requests with retries.

Reads and server-side applies may be repeated because an apply declares the desired state; a
deletion carries the uid of its object. A write with the version of its object is rejected with the
status 409 if the object has another one.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Lock, Semaphore, local
from typing import Any, Final

from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import select_word_form
from nexusform.domains.fleet.importers.hub_records import find_newest_heartbeat
from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_kinds import KINDS_BY_PLURAL, build_version_path
from nexusform.files.access_record import read_variable
from nexusform.files.run_log import log_event
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.json_data.plain_data import get_mapping, get_part, get_text, list_mappings
from nexusform.network.api_client import ApiClient, ApiRequest, StreamRejected
from nexusform.network.deadlines import share_deadline
from nexusform.network.http_client import WebResponse
from nexusform.network.read_limits import PageLimits, parse_json
from nexusform.network.web_errors import WebError
from nexusform.providers.kubeconfig import (
    TRUSTED,
    ExecPluginProblem,
    KubeconfigProblem,
    KubeconfigTrust,
    KubernetesAccount,
    build_api_client,
    read_account,
    read_pod_account,
)

KUBECONFIG: Final = "NF_FLEET_KUBECONFIG"
CONTEXT: Final = "NF_FLEET_CONTEXT"
_KUBECTL_VARIABLE: Final = "KUBECONFIG"
_DEFAULT_KUBECONFIG: Final = "~/.kube/config"
_POD_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
_PAGE_SIZE: Final = 500
# Attempts to list a collection if its version expires.
_LIST_ATTEMPTS: Final = 3
# Maximum seconds of retries.
_RETRY_SECONDS: Final = 90.0
# Of dry runs in total: they share the webhook.
_WEBHOOK_RETRY_SECONDS: Final = 8.0
# Of a server without any response so far.
_FIRST_RETRY_SECONDS: Final = 5.0
_CLOCK_PRECISION: Final = 2.0  # seconds
# A version that no object has: the first revision of an API server's storage is empty. An apply
# with it creates a missing object; an existing one is rejected with the status 409.
_VERSION_OF_NONE: Final = "1"
# Maximum requests at a time, however many steps wait.
MAX_CONCURRENT: Final = 16
# Length of one watch in seconds.
_WATCH_SECONDS: Final = 240
# Seconds after these for its end.
_WATCH_MARGIN: Final = 30
_EVENT_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
_JSON: Final = "application/json"
_DRY_RUN_QUERIES: Final[Mapping[bool, Mapping[str, str]]] = {True: {"dryRun": "All"}, False: {}}
_WEB_PAGE: Final = "a web page, such as the sign-in page of a proxy"
_PLURAL: Final = re.compile(r"[^/]+")  # without subresources
_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_TEMPORARY_KINDS: Final = frozenset({ApiErrorKind.TEMPORARY, ApiErrorKind.WEBHOOK_TIMEOUT})
# A patch without a version declares desired state, so its version conflicts are temporary.
_UNVERSIONED_PATCH_KINDS: Final = _TEMPORARY_KINDS | {ApiErrorKind.CONFLICT}
# Maximum bytes of an error that is not JSON.
_MAX_TEXT: Final = 2000


class HubProblem(Exception):
    """Hub without a usable answer; the message names the hub and the cause.

    With `is_temporary`, another try may succeed.
    """

    def __init__(self, message: str, *, is_temporary: bool = False) -> None:
        super().__init__(message)
        # A later request may succeed.
        self.is_temporary = is_temporary


class HubLocation(Struct, frozen=True):
    """Location of a hub: a kubeconfig ("": as found by kubectl) and a context.

    The context "" is the current one.
    """

    kubeconfig: str = ""
    context: str = ""
    trust: KubeconfigTrust = TRUSTED


class ObjectList(Struct, frozen=True):
    """Objects of a collection at one resource version."""

    items: list[dict[str, Any]]
    version: str


class _LongListError(Exception):
    """A list is longer than its caller wants."""


class ClientClock(Struct, frozen=True):
    """Sleep function and clock."""

    sleep: Callable[[float], None] = time.sleep
    read_time: Callable[[], float] = time.monotonic


_SYSTEM_CLOCK: Final = ClientClock()


def resolve_hub_location(settings: Mapping[str, Any], trust: KubeconfigTrust) -> HubLocation:
    """Return the kubeconfig and the context of the hub.

    They come from the environment, else from the settings of the provider. A sandboxed run rejects
    settings different from the environment. Raises HubProblem.
    """
    environment = {"kubeconfig": read_variable(KUBECONFIG), "context": read_variable(CONTEXT)}
    configured = {name: str(settings.get(name) or "") for name in environment}
    # Settings different from the environment; "" is not set.
    rejected = [name for name, value in configured.items() if value not in ("", environment[name])]
    is_sandboxed = bool(trust.confinement.root)
    if rejected and is_sandboxed:
        raise HubProblem(
            f"{' and '.join(rejected)} of the configuration "
            f"{select_word_form(len(rejected), 'is', 'are')} not read in a sandboxed run: a "
            f"kubeconfig may run programs. Leave it out, and set {KUBECONFIG} and {CONTEXT} where "
            "nexusform runs."
        )
    return HubLocation(
        **{name: environment[name] or configured[name] for name in configured}, trust=trust
    )


class HubClient:
    """Client of one API server; safe for use by several threads."""

    def __init__(self, location: HubLocation, timing: ClientClock = _SYSTEM_CLOCK) -> None:
        """Read the account of the kubeconfigs, or of the pod.

        Raises HubProblem.
        """
        self._location = location
        self._timing = timing
        account, self._client = _open_account(location)
        self.server = account.server
        self.unverified_server = account.explain_unverified_server()
        self.context = account.context
        # Clients with expired credentials; other threads may still use them.
        self._expired_clients: list[ApiClient] = []
        self._credentials_lock = Lock()
        # By group and version; (plural, is_namespaced).
        self._kinds: dict[str, Mapping[str, tuple[str, bool]]] = {}
        self._discovery_lock = Lock()
        self._send_slots = Semaphore(MAX_CONCURRENT)
        # Start of webhook timeouts in dry runs.
        self._webhook_failed_at: float | None = None
        self._has_answered = False
        # Of each thread: the deadline of retries, and a function to report a silent hub.
        self._step = local()
        # Seconds of the local clock ahead of the hub's.
        self.clock_skew = 0.0
        # True: its responses have a Date header.
        self._sends_date = False
        self.is_closed = False

    def close(self) -> None:
        """Close the connections."""
        self.is_closed = True
        for client in (*self._expired_clients, self._client):
            client.close()

    @contextmanager
    def limit_retries(self, seconds: float, report: Callable[[str], None]) -> Iterator[None]:
        """Retry requests of this thread for `seconds` at most.

        If the hub does not answer, this is reported.
        """
        self._step.deadline = self._timing.read_time() + seconds
        self._step.report = report
        try:
            yield
        finally:
            del self._step.deadline, self._step.report

    def read_time(self, objects: Iterable[Mapping[str, Any]] = ()) -> datetime:
        """Return the time of the hub's clock, in UTC.

        Without Date headers (a proxy may drop them), it is the newest heartbeat of the members in
        `objects`, if any.
        """
        return self._find_newest_heartbeat(objects) or datetime.now(UTC) - timedelta(
            seconds=self.clock_skew
        )

    def measure_heartbeat_age(self, objects: Iterable[Mapping[str, Any]]) -> float:
        """Return the age of the newest heartbeat by the local clock, in seconds.

        It is 0 with Date headers, or without heartbeats. If it is large, the members are dead, or
        the local clock is ahead of the hub's.
        """
        heartbeat = self._find_newest_heartbeat(objects)
        return (datetime.now(UTC) - heartbeat).total_seconds() if heartbeat is not None else 0.0

    def _find_newest_heartbeat(self, objects: Iterable[Mapping[str, Any]]) -> datetime | None:
        """Return the newest heartbeat of the members among objects.

        The result is None with Date headers, as they are exact.
        """
        return None if self._sends_date else find_newest_heartbeat(objects)

    def _measure_clock_skew(self, date: str) -> None:
        """Compare the local clock with the Date header of a response, precise to a second."""
        try:
            hub_time = parsedate_to_datetime(date)
        except ValueError:
            # No valid Date header.
            return
        self._sends_date = True
        if hub_time.tzinfo is None:
            # The zone -0000.
            hub_time = hub_time.replace(tzinfo=UTC)
        seconds = (datetime.now(UTC) - hub_time).total_seconds()
        self.clock_skew = 0.0 if abs(seconds) < _CLOCK_PRECISION else seconds

    def get(self, path: str, **query: str) -> dict[str, Any] | None:
        """Return an object, None if it does not exist or has no path.

        Raises ApiError and HubProblem.
        """
        if not path:
            return None
        try:
            # [1]: the object.
            return self._require_named_object(path, self._request("GET", path, query)[1])
        except ApiError as api_error:
            if api_error.kind is not ApiErrorKind.NOT_FOUND:
                raise
            return None

    def apply(
        self,
        path: str,
        body: Mapping[str, Any],
        manager: str,
        *,
        existing: Mapping[str, Any] | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Apply an object server-side and return the result.

        Only the version of `existing` is changed, if it is given. Raises ApiError and HubProblem.
        """
        sent_body = _add_version(_remove_unused_namespace(path, body), existing)
        return self._send_patch(
            path, manager, sent_body, APPLY, dry_run=dry_run, force=str(force).lower()
        )

    def apply_new(self, path: str, body: Mapping[str, Any], manager: str) -> dict[str, Any]:
        """Create an object by a server-side apply and return the result.

        An existing object is a conflict of versions, and nothing of it is written. Raises
        ApiError and HubProblem.
        """
        metadata = {**get_mapping(body, "metadata"), "resourceVersion": _VERSION_OF_NONE}
        return self.apply(path, {**body, "metadata": metadata}, manager)

    def replace_managed_fields(
        self,
        path: str,
        managed_fields: Sequence[Mapping[str, Any]],
        manager: str,
        existing: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Replace the records of field managers of an object, and return the result.

        Raises ApiError and HubProblem.
        """
        # An API server ignores an empty list, and removes all records for an empty one of them.
        entries = list(managed_fields) or [{}]
        return self.merge(
            path, {"metadata": {"managedFields": entries}}, manager, existing=existing
        )

    def merge(
        self,
        path: str,
        body: Mapping[str, Any],
        manager: str,
        *,
        existing: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Send a merge patch and return the result.

        Only the version of `existing` is changed, if it is given. Raises ApiError and HubProblem.
        """
        sent_body = _add_version(body, existing)
        return self._send_patch(path, manager, sent_body, MERGE, dry_run=dry_run)

    def _send_patch(
        self,
        path: str,
        manager: str,
        body: Mapping[str, Any],
        content_type: str,
        *,
        dry_run: bool,
        **query: str,
    ) -> dict[str, Any]:
        """Send a patch of an object and return the object in the answer.

        Raises ApiError and HubProblem.
        """
        query = {
            "fieldManager": manager,
            "fieldValidation": "Strict",
            **query,
            **_DRY_RUN_QUERIES[dry_run],
        }
        return self._require_named_object(
            path, self._request("PATCH", path, query, body, content_type)[1]
        )

    def _require_named_object(self, path: str, response: dict[str, Any]) -> dict[str, Any]:
        """Return an object of the hub.

        Raises HubProblem for one without a name.
        """
        if not get_text(response, "metadata", "name"):
            raise HubProblem(f"{self.server} answers {path} with an object without a name.")
        return response

    def delete(self, path: str, existing: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Delete an object at the version that `existing` has; a missing one is no error.

        A dry run needs only the same object, at any version. Raises ApiError.
        """
        preconditions = _select_version(existing)
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        }
        # With a body, an API server ignores the query.
        if dry_run:
            preconditions.pop("resourceVersion", None)
            options["dryRun"] = ["All"]
        self._request_if_found("DELETE", path, _DRY_RUN_QUERIES[dry_run], options)

    def list_objects(self, path: str, **query: str) -> list[dict[str, Any]]:
        """Return all objects of a collection at one version.

        Raises ApiError and HubProblem.
        """
        return self.list_at_version(path, **query).items

    def list_at_version(self, path: str, version: str = "", **query: str) -> ObjectList:
        """Return all objects of a collection at a `version`, with this version.

        The version "" is the latest one: if it expires between the pages of the list, list again.
        Raises ApiError and HubProblem.
        """
        if version:
            return self._list_pages(
                path, query, {"resourceVersion": version, "resourceVersionMatch": "Exact"}
            )
        for _ in range(_LIST_ATTEMPTS - 1):
            try:
                return self._list_pages(path, query, first_query={})
            except ApiError as api_error:
                if api_error.kind is not ApiErrorKind.EXPIRED:
                    raise
        # The last attempt raises any error.
        return self._list_pages(path, query, first_query={})

    def list_short_collection(self, path: str, most: int) -> list[dict[str, Any]] | None:
        """Return all objects of a collection, None if its first page says that it has more.

        Raises ApiError and HubProblem.
        """
        try:
            return self._list_pages(path, query={}, first_query={}, most=most).items
        except _LongListError:
            return None

    def _list_pages(
        self,
        path: str,
        query: Mapping[str, str],
        first_query: Mapping[str, str],
        most: int = sys.maxsize,
    ) -> ObjectList:
        """Return the objects of all pages, with the version of the list.

        `first_query` is added to the first request, since later pages continue its version. Raises
        HubProblem for another response, or above PageLimits, and _LongListError if the server says
        that more than `most` objects follow.
        """
        items: list[dict[str, Any]] = []
        continue_token = ""
        limits = PageLimits()
        while True:
            page_query = {"continue": continue_token} if continue_token else first_query
            answer, document = self._request(
                "GET", path, {**query, "limit": str(_PAGE_SIZE), **page_query}
            )
            page = document.get("items")
            if not isinstance(page, list) or not all(_is_kubernetes_object(item) for item in page):
                raise HubProblem(
                    f"{self.server} answers {path} with something that is not a list of objects."
                )
            kind = get_text(document, "kind").removesuffix("List")
            # Any, unless it is a fleet kind.
            expected = KINDS_BY_PLURAL.get(path.rpartition("/")[2], kind)
            if kind != expected:
                raise HubProblem(
                    f"{self.server} answers {path} with a list of {kind}, not of {expected}."
                )
            items += (
                {"apiVersion": document.get("apiVersion"), "kind": kind, **item} for item in page
            )
            continue_token = get_text(document, "metadata", "continue")
            # The exceeded limit, or "".
            exceeded = limits.add_page(answer.content, continue_token)
            if exceeded:
                raise HubProblem(f"{self.server} does not list {path} completely: {exceeded}.")
            if not continue_token:
                return ObjectList(items, get_text(document, "metadata", "resourceVersion"))
            remaining = get_part(document, ("metadata", "remainingItemCount"))
            if isinstance(remaining, int) and remaining > most:
                raise _LongListError

    def watch(self, path: str, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield changes of a collection since a version until the server ends the watch.

        A change is ADDED, MODIFIED or DELETED with the object; BOOKMARK reports progress. Raises
        ApiError and HubProblem.
        """
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        request = ApiRequest("GET", path, query, headers={"Accept": _JSON})
        try:
            for line in self._client.stream_lines(request, _WATCH_SECONDS + _WATCH_MARGIN):
                if not line.strip():
                    continue  # no event
                event = _parse_json_or_text(line)
                body = get_part(event, ("object",))
                kind = get_text(event, "type")
                if not _is_kubernetes_object(body) or kind not in _EVENT_TYPES:
                    raise HubProblem(
                        f"{self.server} answers a watch of {path} with something that is not an "
                        "event."
                    )
                if kind == "ERROR":
                    code = body.get("code")
                    raise ApiError(code if isinstance(code, int) else 500, body)
                yield (kind, body)
        except StreamRejected as rejection:
            raise _build_api_error(rejection.answer) from None
        except (WebError, ExecPluginProblem) as problem:
            raise HubProblem(f"{self.server} cannot be watched: {problem}.") from None

    def list_group_versions(self) -> list[str]:
        """Return the preferred version of each API group, such as `apps/v1`.

        Raises ApiError and HubProblem.
        """
        groups = list_mappings(self._request_if_found("GET", "/apis", query={}), "groups")
        return list(
            filter(None, (get_text(group, "preferredVersion", "groupVersion") for group in groups))
        )

    def get_api_kinds(self, version: str) -> Mapping[str, tuple[str, bool]]:
        """Return the kinds of a group and version with plural and is_namespaced.

        An example is {"Pod": ("pods", True)}. Return {} if the version is not served. Raises
        ApiError and HubProblem.
        """
        # Concurrent steps request the same kinds.
        with self._discovery_lock:
            if version not in self._kinds:
                path = build_version_path(version)
                response = self._request_if_found("GET", path, query={})
                if response is None:
                    # It may be served later.
                    return {}
                if not isinstance(response.get("resources"), list):
                    raise HubProblem(
                        f"{self.server} answers {path} with something that is not a list of kinds."
                    )
                kinds: dict[str, tuple[str, bool]] = {}
                for resource in list_mappings(response, "resources"):
                    plural = get_text(resource, "name")
                    # Such as pods/log.
                    is_subresource = _PLURAL.fullmatch(plural) is None
                    if "kind" in resource and not is_subresource:
                        kinds[str(resource["kind"])] = (plural, resource.get("namespaced") is True)
                self._kinds[version] = kinds
            return self._kinds[version]

    def forget_api_kinds(self, version: str) -> None:
        """Forget the kinds of a group and version.

        A CustomResourceDefinition of this run may add one.
        """
        with self._discovery_lock:
            self._kinds.pop(version, None)

    def _request_if_found(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        """Send a request and return the object of its answer, None for status 404.

        Raises ApiError and HubProblem.
        """
        try:
            # The object of the answer.
            return self._request(method, path, query, body)[1]
        except ApiError as api_error:
            if api_error.status != 404:
                raise
            return None

    @share_deadline()
    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        content_type: str = _JSON,
    ) -> tuple[WebResponse, dict[str, Any]]:
        """Send a request; return the answer and its object.

        Temporary failures are retried until a deadline. The pause between attempts doubles, from
        half a second to 15 seconds, unless the server requests one (`retry_after`). A hub without
        an answer is reported once to the running step. An error after a retry has `is_repeated`:
        an earlier attempt may have been executed. Raises ApiError and HubProblem.
        """
        content = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        request = ApiRequest(
            method, path, query, content, {"Accept": _JSON, "Content-Type": content_type}
        )
        deadline = self._timing.read_time() + (
            _RETRY_SECONDS if self._has_answered else _FIRST_RETRY_SECONDS
        )
        # Within limit_retries, `_step` has an earlier deadline and a function to report, for
        # this thread alone.
        deadline = min(deadline, getattr(self._step, "deadline", deadline))
        report = getattr(self._step, "report", None)
        is_versioned = bool(get_text(body, "metadata", "resourceVersion"))
        retryable_kinds = (
            _UNVERSIONED_PATCH_KINDS if method == "PATCH" and not is_versioned else _TEMPORARY_KINDS
        )
        wait = 0.5
        is_repeated = False
        while True:
            try:
                return self._send_with_renewed_credentials(request)
            except ApiError as api_error:
                if api_error.kind is ApiErrorKind.WEBHOOK_TIMEOUT and "dryRun" in query:
                    # All dry runs share one limit, from the first timeout of any.
                    self._webhook_failed_at = self._webhook_failed_at or self._timing.read_time()
                    deadline = self._webhook_failed_at + _WEBHOOK_RETRY_SECONDS
                if (
                    api_error.kind not in retryable_kinds
                    or self._timing.read_time() + wait > deadline
                ):
                    api_error.is_repeated = is_repeated
                    raise
                self._timing.sleep(
                    wait if api_error.retry_after is None else min(api_error.retry_after, 30.0)
                )
            except HubProblem as problem:
                if (
                    not problem.is_temporary
                    or self.is_closed
                    or self._timing.read_time() + wait > deadline
                ):
                    raise
                log_event("debug", "hub asked again", path=path, why=str(problem))
                if report is not None:
                    until = datetime.now(UTC) + timedelta(
                        seconds=deadline - self._timing.read_time()
                    )
                    report(f"{str(problem).rstrip('.')}; retried until {until:%H:%M:%S} UTC")
                    report = None  # reported once
                self._timing.sleep(wait)
            is_repeated = True
            wait = min(wait * 2, 15.0)

    def _send_with_renewed_credentials(
        self, request: ApiRequest
    ) -> tuple[WebResponse, dict[str, Any]]:
        """Send a request, and again with new credentials if the hub rejects them.

        Raises ApiError and HubProblem.
        """
        client = self._client
        try:
            return self._send_request(client, request)
        except ApiError as api_error:
            if api_error.kind is not ApiErrorKind.UNAUTHENTICATED:
                raise
        self._refresh_credentials(client)
        return self._send_request(self._client, request)

    def _refresh_credentials(self, expired_client: ApiClient) -> None:
        """Read the credentials again, once for all threads rejected with the former ones.

        Raises HubProblem.
        """
        with self._credentials_lock:
            if self._client is expired_client and not self.is_closed:
                _, self._client = _open_account(self._location)
                self._expired_clients.append(expired_client)

    def _send_request(
        self, client: ApiClient, request: ApiRequest
    ) -> tuple[WebResponse, dict[str, Any]]:
        """Send a request once; return the answer and its object.

        Raises ApiError and HubProblem.
        """
        if self.is_closed:
            raise HubProblem(f"{self.server} is closed.")
        path = request.path
        try:
            with self._send_slots:
                answer = client.send(request)
        except (WebError, ExecPluginProblem) as problem:
            is_temporary = isinstance(problem, ExecPluginProblem) or problem.is_temporary
            raise HubProblem(
                f"{self.server} cannot be reached: {problem}.", is_temporary=is_temporary
            ) from None
        log_event("debug", "hub answered", method=request.method, path=path, status=answer.status)
        self._has_answered = True
        self._measure_clock_skew(answer.headers.get("date", ""))
        if not answer.is_success:
            raise _build_api_error(answer)
        if answer.is_web_page:
            raise HubProblem(
                f"{self.server} answers {path} with {_WEB_PAGE}. Check the address, and sign in "
                "again."
            )
        try:
            document = parse_json(answer.content)
        except ValueError as problem:
            raise HubProblem(
                f"{self.server} answers {path} with something that is not an object: {problem}."
            ) from None
        if not _is_kubernetes_object(document):
            raise HubProblem(
                f"{self.server} answers {path} with something that is not an object of Kubernetes."
            )
        return answer, document


class HubConnection(Struct):
    """Connection to a hub, opened once on first use; safe for concurrent steps."""

    location: HubLocation
    timing: ClientClock = field(default_factory=ClientClock)
    _client: HubClient | None = None
    _lock: Lock = field(default_factory=Lock)

    def allow_servers(self, is_url_allowed: Callable[[str], bool]) -> None:
        """Set the servers that an untrusted kubeconfig may name."""
        self.location = replace(
            self.location, trust=replace(self.location.trust, is_url_allowed=is_url_allowed)
        )

    def connect(self) -> HubClient:
        """Return the client, opened by the first call.

        Raises HubProblem.
        """
        with self._lock:
            if self._client is None:
                self._client = HubClient(self.location, self.timing)
            return self._client

    def list_warnings(self) -> list[Problem]:
        """Return a warning about an unverified server."""
        detail = self._client.unverified_server if self._client is not None else ""
        return [Problem((), "unverified-server", detail, Severity.WARNING)] if detail else []

    def close(self) -> None:
        """Close the client if it was opened."""
        if self._client is not None:
            self._client.close()


class _Metadata(Struct, rename="camel"):
    """Types of the metadata of an object of Kubernetes, as far as they are used."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    continue_token: str | None = field(default=None, name="continue")
    deletion_timestamp: str | None = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    owner_references: list[dict[str, Any]] | None = None
    managed_fields: list[dict[str, Any]] | None = None


class _StatusShape(Struct):
    """Types of the parts of a Status."""

    metadata: _Metadata | None = None


class _ObjectShape(_StatusShape):
    """Types of the parts of another object."""

    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


def _omit_empty(part: Any) -> Any:
    """Return a mapping without its empty parts; another value as it is.

    Empty parts count as absent, of any type.
    """
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if value}


def _is_kubernetes_object(document: Any) -> bool:
    """Return True if a document can be an object of Kubernetes.

    Its members have the right types, or are absent.
    """
    if not isinstance(document, dict):
        return False
    try:
        shape = _StatusShape if get_text(document, "kind") == "Status" else _ObjectShape
        convert(_omit_empty({**document, "metadata": _omit_empty(document.get("metadata"))}), shape)
    except ValidationError:
        return False
    return True


def _build_api_error(answer: WebResponse) -> ApiError:
    """Build the error of an answer without success; a web page is not printed."""
    body = _WEB_PAGE if answer.is_web_page else _parse_json_or_text(answer.content)
    retry_after = answer.headers.get("retry-after", "")
    seconds = float(retry_after) if _SECONDS.fullmatch(retry_after) else None
    return ApiError(answer.status, body, seconds)


def _parse_json_or_text(content: bytes) -> Any:
    """Parse JSON; return other content as text."""
    try:
        return parse_json(content)
    except ValueError:
        return content[:_MAX_TEXT].decode(errors="replace")


def _open_account(location: HubLocation) -> tuple[KubernetesAccount, ApiClient]:
    """Return server with credentials, and its HTTP client.

    Raises HubProblem.
    """
    paths = _find_kubeconfigs(location)
    try:
        account = (
            read_account(paths, location.context, location.trust) if paths else read_pod_account()
        )
        return account, build_api_client(account)
    except (KubeconfigProblem, BackendProblem) as problem:
        raise HubProblem(str(problem)) from None


def _find_kubeconfigs(location: HubLocation) -> list[Path]:
    """Return the kubeconfigs in kubectl's order; [] for the service account of a pod.

    Raises HubProblem without any.
    """
    if location.kubeconfig:
        path = Path(location.kubeconfig).expanduser()
        if not path.is_file():
            raise HubProblem(f'There is no kubeconfig "{location.kubeconfig}".')
        return [path]
    listed_paths = [
        Path(entry).expanduser()
        for entry in read_variable(_KUBECTL_VARIABLE).split(os.pathsep)
        if entry
    ]
    candidates = listed_paths or [Path(_DEFAULT_KUBECONFIG).expanduser()]
    existing = [path for path in candidates if path.is_file()]
    if existing:
        return existing
    if listed_paths:
        # The default kubeconfig may be for another cluster; kubectl ignores it too.
        raise HubProblem(f"No kubeconfig named by {_KUBECTL_VARIABLE} exists.")
    if read_variable(_POD_VARIABLE):
        # This runs in a pod.
        return []
    raise HubProblem(
        f"No kubeconfig found: there is no {_DEFAULT_KUBECONFIG}. Set {KUBECONFIG} or "
        f"{_KUBECTL_VARIABLE} to a "
        "kubeconfig, or write kubeconfig."
    )


def _remove_unused_namespace(path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a body for a path, without the namespace of an object whose path has none."""
    metadata = get_mapping(body, "metadata")
    # The path of a Namespace ends with its name.
    is_namespaced = "/" in path.partition("/namespaces/")[2]
    if is_namespaced or "namespace" not in metadata:
        return body
    kept = {name: value for name, value in metadata.items() if name != "namespace"}
    return {**body, "metadata": kept}


def _select_version(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the uid and the version of an object, as far as it has them."""
    metadata = get_mapping(body, "metadata")
    return {name: metadata[name] for name in ("uid", "resourceVersion") if metadata.get(name)}


def _add_version(body: Mapping[str, Any], existing: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a body to send, with the uid and the version of an existing object."""
    if existing is None:
        return body
    return {**body, "metadata": {**get_mapping(body, "metadata"), **_select_version(existing)}}
