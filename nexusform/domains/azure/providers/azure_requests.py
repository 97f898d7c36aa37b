"""Requests to Azure Resource Manager: one change at a time, sent once and tracked to its end.

Each change is checked before it is sent, and sent under a condition: a new resource only if absent
(If-None-Match), others only for the version read (If-Match). A change sent by an earlier run is
therefore found in progress or done, and a stale response changes nothing.
"""

import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.azure.importers.azure_request_bodies import has_requested_values
from nexusform.domains.azure.providers.arm_changes import (
    ACTION_VERBS,
    MAX_SECONDS,
    POOLS,
    ArmChange,
    ArmOperation,
    ArmTarget,
)
from nexusform.domains.azure.providers.creation_tags import (
    add_creation_tag,
    has_creation_tag,
    has_other_creation_tag,
)
from nexusform.domains.azure.providers.start_values import (
    find_later_difference,
    find_result_difference,
    find_start_difference,
    has_target_values,
)
from nexusform.interfaces.plugins import (
    EARLIER_CREATION_HINT,
    ChangeRequest,
    ProviderProblem,
    StepPending,
    StepProgress,
)
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.network.connection_errors import describe_connection_error

FINAL_STATES: Final = frozenset({"Succeeded", "Failed", "Canceled", ""})  # provisioningState
FAILED_STATES: Final = frozenset({"Failed", "Canceled"})
# Code for an operation reported as done with missing nodes.
NODES_MISSING: Final = "nodes are missing"
# Of an operation, whatever case it is written in.
_FINAL_STATUSES: Final[Mapping[str, str]] = {
    "succeeded": "Succeeded",
    "failed": "Failed",
    "canceled": "Canceled",
    "cancelled": "Canceled",
}
# Code of a failed precondition: the resource was changed since the read.
_PRECONDITION_FAILED: Final = 412
_RETRY_CODES: Final = frozenset({408, 409, _PRECONDITION_FAILED, 429, 500, 502, 503, 504})
_THROTTLE_CODES: Final = frozenset({408, 429})
# Settings of the SDK.
_NO_RETRIES: Final = dict.fromkeys(
    ("retry_total", "retry_connect", "retry_read", "retry_status"), 0
)
# Error codes of a 409 without a retry.
_PERMANENT_CONFLICTS: Final = frozenset(
    {
        "InvalidResourceLocation",
        "MissingSubscriptionRegistration",
        "ResourceGroupBeingDeleted",
        "ScopeLocked",
    }
)
# Seconds until a change must be visible.
VISIBILITY_TIMEOUT: Final = 300.0
# Reads of a differing resource before it counts as final.
MAX_READS: Final = 3
# Seconds between checks for a stop request.
_STOP_CHECK_SECONDS: Final = 1.0


# Other operations have the infinitive of their name.
_INFINITIVES: Final = {ArmOperation.CREATE: "make", ArmOperation.UPDATE: "change"}
_PARTICIPLES: Final = {
    ArmOperation.CREATE: "made",
    ArmOperation.UPDATE: "changed",
    ArmOperation.DELETE: "deleted",
    ArmOperation.CORDON: "cordoned",
    ArmOperation.UNCORDON: "uncordoned",
    ArmOperation.POWER_OFF: "powered off",
}


class PollTiming(Struct, frozen=True):
    """Polling interval in seconds, a sleep function and a clock."""

    interval: float = 10.0
    sleep: Callable[[float], None] = time.sleep
    read_time: Callable[[], float] = time.monotonic


class _ChangeStatus(StrEnum):
    """Progress of a change."""

    DONE = "done"
    IN_PROGRESS = "goes on"
    NOT_SENT = "to send"


class _RequestRejected(Exception):
    """Permanent rejection of a request by Azure."""


class AzureChangeFailed(ProviderProblem):
    """Failed or canceled change after Azure accepted it, with its `status` and Azure's message."""

    def __init__(self, change: ArmChange, status: str, reason: Any) -> None:
        """Describe the failed change.

        `reason` is Azure's error object with `code` and `message`, or None.
        """
        error_fields = get_mapping(reason)
        self.code = get_text(error_fields, "code")
        self.status = status
        self.change = change
        message = ": ".join(filter(None, (self.code, get_text(error_fields, "message"))))
        infinitive = _INFINITIVES.get(change.verb, change.verb.value.replace("_", " "))
        summary = f"Azure could not {infinitive} {change.target.title} ({status})"
        text = f"{summary}: {message or 'no reason given'}".removesuffix(".")
        # A failed creation leaves an object.
        super().__init__(f"{text}.", object_exists=change.verb is ArmOperation.CREATE)


class RetryLater(Exception):
    """Temporary rejection by Azure.

    `seconds` is the requested delay or None. With `may_be_sent`, Azure may have the request.
    """

    def __init__(self, message: str, seconds: float | None, *, may_be_sent: bool) -> None:
        super().__init__(message)
        # Requested delay; None if it is not reported.
        self.seconds = seconds
        # Azure may have received the request.
        self.may_be_sent = may_be_sent


class ArmClient:
    """Azure Resource Manager through the SDK's client, for one step at a time per thread."""

    def __init__(self, client: Any, endpoint: str, subscription_id: str, pace: PollTiming) -> None:
        """Keep the SDK's client and the URL of ARM (`endpoint`).

        `pace` has the interval of reads, and the clock.
        """
        self._client = client
        self._endpoint = urlsplit(endpoint)
        self._subscription = subscription_id
        self._pace = pace
        # Targets of changes that possibly reached Azure.
        self._possibly_sent: set[ArmTarget] = set()
        # Of the step, before the one to send.
        self._completed_changes: list[ArmChange] = []

    def get_body(self, target: ArmTarget) -> dict[str, Any] | None:
        """Return the body of a resource, None if it does not exist.

        Raises AzureError.
        """
        from azure.core.exceptions import ResourceNotFoundError, ServiceResponseError

        responses: list[Any] = []
        try:
            get_resource = getattr(self._client, target.kind).get
            body = dict(
                get_resource(
                    target.group, *target.names, raw_response_hook=responses.append
                ).as_dict()
            )
            # Older API versions have the etag only in the header.
            etag = responses[-1].http_response.headers.get("ETag") if responses else None
            body["etag"] = body.get("etag") or etag
        except ResourceNotFoundError:
            return None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            # The SDK cannot parse the answer.
            raise ServiceResponseError(
                f"the answer about {target.title} is not a resource of Azure"
            ) from None
        return body

    def apply_changes(self, changes: list[ArmChange], step: ChangeRequest) -> None:
        """Apply changes one after another, starting with the last one sent by an earlier run.

        Raises ProviderProblem, and StepPending if the step continues after this run.
        """
        from azure.core.exceptions import AzureError

        # -1 and "": none was sent.
        last_sent, url = self._find_last_sent_change(changes, step.resumed_operation)
        for number in range(max(last_sent, 0), len(changes)):
            change = changes[number]
            self._completed_changes = _list_completed_changes(changes, number)
            was_sent = number == last_sent
            try:
                if was_sent and url and self.wait_for_operation(url, change, step):
                    # The etag from before the change is unknown in this run.
                    self._wait_until_visible(change, step, etag_before="", succeeded=True)
                else:
                    self._apply_change(change, step, was_sent=was_sent)
                if number == len(changes) - 1:
                    self._check_completed_changes(step)
            except _RequestRejected as rejection:
                raise ProviderProblem(f"Azure rejects {change.target.title}: {rejection}") from None
            except AzureChangeFailed as failure:
                raise self._build_recorded_failure(failure, step) from None
            except AzureError as problem:
                # This run may have sent it.
                was_sent = was_sent or change.target in self._possibly_sent
                raise self._build_problem(change, problem, was_sent=was_sent) from None

    def _build_recorded_failure(
        self, failure: AzureChangeFailed, step: ChangeRequest
    ) -> ProviderProblem:
        """Return a failure with a record in state for a later retry.

        A change that needs no record is returned as it is.
        """
        change = failure.change
        if step.prior is None or change.verb is ArmOperation.DELETE or change.verb in ACTION_VERBS:
            # A failed creation is tainted; the object itself shows a failed deletion or action.
            return failure
        path = change.target.build_path(self._subscription)
        record = build_failure_record(
            path, failure.code or failure.status, str(failure), change, step
        )
        return ProviderProblem(
            record["message"], object_exists=failure.object_exists, unfinished_change=record
        )

    def wait(self, step: ChangeRequest, reason: str, seconds: float | None = None) -> None:
        """Wait before the next read, `seconds` or else the interval.

        Raises StepPending if the run has to stop.
        """
        end_time = self._pace.read_time() + (self._pace.interval if seconds is None else seconds)
        while True:
            if step.should_stop():
                raise StepPending(f"{reason}. `nexusform apply -resume` continues it.")
            remaining = end_time - self._pace.read_time()
            if remaining <= 0:
                return
            self._pace.sleep(min(remaining, _STOP_CHECK_SECONDS))

    def start_deadline(self, seconds: float) -> Callable[[], bool]:
        """Return a function that is True once this many seconds have passed."""
        end_time = self._pace.read_time() + seconds
        return lambda: self._pace.read_time() >= end_time

    def _find_last_sent_change(
        self, changes: list[ArmChange], recorded_operation: str | None
    ) -> tuple[int, str]:
        """Find the recorded change, the last one sent by an earlier run.

        Return its index (-1: none) and operation URL ("": none, or of another server); restore its
        marker in `changes`.
        """
        # The record is VERB[@MARKER] PATH [URL]. PATH: ARM id of the resource. MARKER: start of an
        # action's run before.
        operation_name, _, path_and_url = (recorded_operation or "").partition(" ")
        path, _, url = path_and_url.partition(" ")
        verb, _, marker = operation_name.partition("@")
        for number, change in enumerate(changes):
            if (change.verb.value, change.target.build_path(self._subscription)) == (verb, path):
                changes[number] = replace(change, marker=marker) if marker else change
                return number, (url if self._is_url_of_arm_endpoint(url) else "")
        return -1, ""

    def _is_url_of_arm_endpoint(self, url: str) -> bool:
        """Return True if a URL is at the endpoint; no other server receives the token."""
        parts = urlsplit(url)
        return (parts.scheme, parts.netloc) == (self._endpoint.scheme, self._endpoint.netloc)

    def _apply_change(self, change: ArmChange, step: ChangeRequest, *, was_sent: bool) -> None:
        """Apply one change and wait until it is visible.

        Return without a request if it is done already. With `was_sent`, an earlier request possibly
        reached Azure. Raises ProviderProblem, StepPending and _RequestRejected.
        """
        is_overdue = self.start_deadline(MAX_SECONDS)
        is_missing_too_long = self.start_deadline(VISIBILITY_TIMEOUT)
        while True:
            observed = self.get_body(change.target)
            # Only this creation is certain to have made an object with its tag.
            is_own = was_sent and (
                change.verb is not ArmOperation.CREATE or has_creation_tag(observed or {}, step)
            )
            is_unproven = was_sent and not is_own and step.resumed_operation is not None
            if is_unproven and observed is not None and not has_other_creation_tag(observed, step):
                raise _build_existing_object_problem(change, EARLIER_CREATION_HINT)
            progress = _determine_progress(change, observed, was_sent=is_own)
            if progress is _ChangeStatus.DONE:
                # Nothing is left to do.
                return
            if progress is _ChangeStatus.IN_PROGRESS:
                if observed is None and is_missing_too_long():
                    raise ProviderProblem(
                        f"{change.target.title} was deleted: Azure does not show it. Plan again."
                    )
                if is_overdue():
                    raise StepPending(
                        f"{change.target.title} is {read_provisioning_state(observed)} for a long "
                        "time."
                    )
                self.wait(step, f"{change.target.title} is {read_provisioning_state(observed)}")
                # Azure accepts no other change meanwhile.
                continue
            self._check_completed_changes(step)
            self.check_start_values(change, observed, step, was_sent=was_sent)
            try:
                url = self.send_change(change, observed, step)
            except RetryLater as retry:
                if is_overdue():
                    raise ProviderProblem(f"Azure rejects the change: {retry}") from None
                step.report_progress(
                    StepProgress(message=f"{str(retry).rstrip('.')}. Trying again.")
                )
                self.wait(step, f"{retry}", retry.seconds)
                was_sent = was_sent or retry.may_be_sent
                continue
            succeeded = bool(url) and self.wait_for_operation(url, change, step)
            # An action may leave the etag of its resource, so an equal etag proves nothing.
            etag_before = "" if change.verb in ACTION_VERBS else get_text(observed, "etag")
            self._wait_until_visible(change, step, etag_before, succeeded=succeeded)
            return

    def _check_completed_changes(self, step: ChangeRequest) -> None:
        """Raise ProviderProblem if another client changed what earlier requests of a step left.

        A read may be outdated, so a difference is read again. Raises StepPending and AzureError.
        """
        for change in self._completed_changes:
            for read in range(MAX_READS):
                difference = find_later_difference(
                    change, self.get_body(change.target), is_sensitive=step.is_sensitive
                )
                if not difference:
                    break
                if read < MAX_READS - 1:
                    self.wait(step, difference)
            else:
                raise ProviderProblem(difference)

    def check_start_values(
        self,
        change: ArmChange,
        observed: Mapping[str, Any] | None,
        step: ChangeRequest,
        *,
        was_sent: bool,
    ) -> None:
        """Raise ProviderProblem if a resource has other values than the plan started from.

        `observed` is its current body, None if absent. A cluster is deleted and upgraded with its
        pools, so they are compared, too.
        """
        if observed is None:
            # An absent resource has no values to overwrite.
            return
        is_deleted_cluster = (
            change.verb is ArmOperation.DELETE and change.target.kind == "kubernetes_clusters"
        )
        if is_deleted_cluster or change.start.has_pools:
            observed = {**observed, POOLS: self._read_pools(change.target)}
        difference = find_start_difference(
            change, observed, was_sent=was_sent, is_sensitive=step.is_sensitive
        )
        if difference:
            raise ProviderProblem(difference)

    def _read_pools(self, cluster: ArmTarget) -> dict[str, Any]:
        """Read the pools of a cluster, by name in lower case.

        Raises AzureError.
        """
        pools = self._client.agent_pools.list_by_kubernetes_cluster(cluster.group, *cluster.names)
        bodies = [pool.as_dict() for pool in pools]
        return {str(body.get("name")).casefold(): body for body in bodies}

    def _wait_until_visible(
        self, change: ArmChange, step: ChangeRequest, etag_before: str, *, succeeded: bool
    ) -> None:
        """Wait until reads from Azure show a change.

        With `succeeded`, its operation reported success. A body with `etag_before`, the etag before
        the change ("" if unknown), is stale and proves nothing. Raises AzureChangeFailed for a
        failed state. Return for an update after enough current reads or a timeout: the caller
        reports other values than requested. Otherwise a timeout raises StepPending for a new
        object, else ProviderProblem.
        """
        is_overdue = self.start_deadline(VISIBILITY_TIMEOUT)
        # Reads of a current body in a final state.
        final_reads = 0
        while True:
            observed = self.get_body(change.target)
            # Made again since, by another state with the same name.
            if (
                change.verb is ArmOperation.CREATE
                and observed is not None
                and not has_creation_tag(observed, step)
            ):
                hint = "" if has_other_creation_tag(observed, step) else EARLIER_CREATION_HINT
                raise _build_existing_object_problem(change, hint)
            state = read_provisioning_state(observed)
            is_final = state in FINAL_STATES
            is_stale = bool(etag_before) and get_text(observed, "etag") == etag_before
            if not is_stale:
                if _determine_progress(change, observed, was_sent=True) is _ChangeStatus.DONE:
                    # It is visible.
                    return
                # Without an etag, a failed state after a reported success may be older
                # than the change.
                is_state_of_change = etag_before != "" or not succeeded
                if state in FAILED_STATES and is_state_of_change:
                    raise AzureChangeFailed(
                        change, state, {"message": read_status_message(observed)}
                    )
                final_reads += is_final
            has_timed_out = is_final and is_overdue()
            has_enough_reads = succeeded and final_reads >= MAX_READS
            if change.verb is ArmOperation.UPDATE and (has_timed_out or has_enough_reads):
                difference = find_result_difference(
                    change, get_mapping(observed), is_sensitive=step.is_sensitive
                )
                if difference:
                    raise ProviderProblem(difference)
                # The caller reports other values of arguments.
                return
            if has_timed_out:
                message = (
                    f"{change.target.title} was {_PARTICIPLES[change.verb]}, but Azure does not "
                    "show that."
                )
                # It may become visible later: only a resumed step looks for it.
                if change.verb is ArmOperation.CREATE:
                    raise StepPending(f"{message} `nexusform apply -resume` checks again.")
                raise ProviderProblem(message)
            self.wait(step, f"{change.target.title} does not show the change yet")

    def send_change(
        self, change: ArmChange, observed: Mapping[str, Any] | None, step: ChangeRequest
    ) -> str:
        """Send a change, report it to `step`, and return the URL of its operation, "" for none.

        `observed` is the current body, None if absent. Raises RetryLater for a temporary problem,
        _RequestRejected for a permanent one.
        """
        from azure.core.exceptions import (
            HttpResponseError,
            IncompleteReadError,
            ServiceRequestError,
            ServiceResponseError,
        )

        target = change.target
        operation = f"{change.operation_name} {target.build_path(self._subscription)}"
        step.report_progress(StepProgress(operation=operation))
        # The hook adds the one response.
        responses: list[Any] = []
        method = getattr(getattr(self._client, target.kind), f"begin_{change.verb}")
        body = change.build_body(observed)
        if change.verb is ArmOperation.CREATE:
            body = add_creation_tag(body, step)
        arguments = [target.group, *target.names, *([body] if body is not None else [])]
        options = {**_NO_RETRIES, **_build_condition(change, observed)}
        try:
            # The client itself never retries: the effect of an unanswered request is read first.
            method(*arguments, polling=False, raw_response_hook=responses.append, **options)
        except (ServiceRequestError, ServiceResponseError, IncompleteReadError) as problem:
            message = f"The connection to Azure failed ({describe_connection_error(problem)})"
            self._possibly_sent.add(target)
            raise RetryLater(message, seconds=None, may_be_sent=True) from None
        except HttpResponseError as problem:
            code = problem.status_code or 0
            # The request was accepted, but its response is unreadable.
            if 200 <= code < 300:
                return self._record_operation(problem.response, target, operation, step)
            if (
                code not in _RETRY_CODES
                or getattr(problem.error, "code", None) in _PERMANENT_CONFLICTS
            ):
                raise _RequestRejected(_format_error(problem)) from None
            message = (
                "It was changed meanwhile"
                if code == _PRECONDITION_FAILED
                else _format_error(problem)
            )
            # Azure may have accepted it.
            if code >= 500:
                self._possibly_sent.add(target)
            raise RetryLater(
                message, _read_retry_after(problem.response), may_be_sent=code >= 500
            ) from None
        return self._record_operation(responses[-1].http_response, target, operation, step)

    def _record_operation(
        self, response: Any, target: ArmTarget, operation: str, step: ChangeRequest
    ) -> str:
        """Record a sent request (`operation`: verb and path) with the URL to poll.

        Return the URL, "" for none.
        """
        self._possibly_sent.add(target)
        url = str(
            response.headers.get("Azure-AsyncOperation") or response.headers.get("Location", "")
        )
        if not self._is_url_of_arm_endpoint(url):
            # None, or of another server.
            return ""
        step.report_progress(StepProgress(operation=f"{operation} {url}"))
        return url

    def wait_for_operation(self, url: str, change: ArmChange, step: ChangeRequest) -> bool:
        """Wait for the end of an operation.

        Return True for a success; False if the result is unknown: Azure no longer has the
        operation, or the response is not JSON (a proxy page). Raises AzureChangeFailed for a failed
        or canceled operation, StepPending after the time limit, AzureError for another response.
        """
        from azure.core.rest import HttpRequest

        is_overdue = self.start_deadline(change.time_limit)
        last_status = ""
        while True:
            response = self._client.send_request(HttpRequest("GET", url))
            if response.status_code == 404:
                # Azure no longer has it.
                return False
            if response.status_code >= 400:
                response.raise_for_status()
            body = _parse_object(response)
            if body is None:
                return False
            # Without a status in the body, the HTTP status decides.
            status = get_text(body, "status") or (
                "InProgress" if response.status_code == 202 else "Succeeded"
            )
            status = _FINAL_STATUSES.get(status.lower(), status)
            if status == "Succeeded":
                return True
            if status in FAILED_STATES:
                raise AzureChangeFailed(change, status, body.get("error"))
            url = self._find_next_polling_url(response, url, change, step)
            # Each status is reported once.
            if status != last_status:
                step.report_progress(StepProgress(message=f"status in Azure: {status}"))
                last_status = status
            if is_overdue():
                limit = f"{change.time_limit / 60:.0f} minutes"
                raise StepPending(
                    f"The change of {change.target.title} is still in progress after {limit}."
                )
            self.wait(
                step,
                f"Azure continues the change of {change.target.title}",
                _read_retry_after(response),
            )

    def _find_next_polling_url(
        self, response: Any, url: str, change: ArmChange, step: ChangeRequest
    ) -> str:
        """Return the URL of the next read.

        A response 202 may contain a new one, recorded for a resumed step.
        """
        location = str(response.headers.get("Location", "")) if response.status_code == 202 else ""
        if location in {"", url} or not self._is_url_of_arm_endpoint(location):
            # None, the same, or of another server.
            return url
        path = change.target.build_path(self._subscription)
        step.report_progress(StepProgress(operation=f"{change.operation_name} {path} {location}"))
        return location

    def _build_problem(self, change: ArmChange, problem: Any, *, was_sent: bool) -> ProviderProblem:
        """Build a problem for an SDK error.

        StepPending, but ProviderProblem if Azure rejects a change not yet sent.
        """
        from azure.core.exceptions import ClientAuthenticationError

        code = getattr(problem, "status_code", None)
        is_rejected = isinstance(problem, ClientAuthenticationError) or code in range(400, 500)
        if is_rejected and not was_sent and code not in _THROTTLE_CODES:
            return ProviderProblem(f"Azure rejects {change.target.title}: {_format_error(problem)}")
        message = _format_error(problem).rstrip(".")
        return StepPending(
            f"Azure could not be queried about {change.target.title}: {message}. The started "
            "change continues there; `nexusform apply -resume` checks it."
        )


def _build_condition(change: ArmChange, observed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Build a request's condition: nothing changed since `observed`.

    Actions have none: they change no version.
    """
    from azure.core import MatchConditions

    if change.verb is ArmOperation.CREATE and observed is None:
        return {"match_condition": MatchConditions.IfMissing}
    etag = "" if change.verb in ACTION_VERBS else get_text(observed, "etag")
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified} if etag else {}


def _parse_object(response: Any) -> Mapping[str, Any] | None:
    """Return the object in a response, {} without a body.

    Return None if the response is not from Azure, but a page of a proxy.
    """
    try:
        body = response.json() if response.content.strip() else {}
    except ValueError:
        return None
    return body if isinstance(body, Mapping) else None


def _determine_progress(
    change: ArmChange, observed: Mapping[str, Any] | None, *, was_sent: bool
) -> _ChangeStatus:
    """Determine the progress of a change from the resource's body in Azure.

    `observed` is this body, None if absent. With `was_sent`, Azure may have the request already.
    Raises ProviderProblem for an impossible change, AzureChangeFailed after a failure.
    """
    state = read_provisioning_state(observed)
    if observed is None:
        return _determine_absent_progress(change, was_sent=was_sent)
    if change.verb is ArmOperation.DELETE:
        if change.skip_if is not None and has_requested_values(
            get_mapping(observed, "properties"), change.skip_if
        ):
            # An earlier run deleted and re-created it.
            return _ChangeStatus.DONE
        return _ChangeStatus.NOT_SENT if state in FINAL_STATES else _ChangeStatus.IN_PROGRESS
    if change.verb is ArmOperation.CREATE and not was_sent and not change.is_retry:
        raise _build_existing_object_problem(change)
    if state not in FINAL_STATES:
        return _ChangeStatus.IN_PROGRESS
    is_action = change.verb in ACTION_VERBS
    if not _is_change_visible(change, observed, was_sent=was_sent):
        return _ChangeStatus.NOT_SENT
    if change.is_retry and not was_sent:
        # It failed before, although its values are visible.
        return _ChangeStatus.NOT_SENT
    # A machine in a failed state can still perform an action.
    if state in FAILED_STATES and not is_action:
        if was_sent:
            raise AzureChangeFailed(change, state, {"message": read_status_message(observed)})
        # An earlier change failed: send this one.
        return _ChangeStatus.NOT_SENT
    return _ChangeStatus.DONE


def _list_completed_changes(changes: list[ArmChange], number: int) -> list[ArmChange]:
    """List the changes before one: the last of each resource, without deletions before it."""
    completed = {change.target: change for change in changes[:number]}
    # It creates the resource again.
    target = changes[number].target
    if target in completed and completed[target].verb is ArmOperation.DELETE:
        del completed[target]
    return list(completed.values())


def _build_existing_object_problem(change: ArmChange, hint: str = "") -> ProviderProblem:
    """Build the problem of a creation whose name another object has."""
    return ProviderProblem(
        f"{change.target.title} already exists in resource group {change.target.group} and is not "
        f"in the state. Import it with an import block, or use another name.{hint}"
    )


def _is_change_visible(change: ArmChange, observed: Mapping[str, Any], *, was_sent: bool) -> bool:
    """Return True if a resource has the values of a change.

    For an update these are all values that it sends, for an action its `expected` properties. Azure
    returns no secrets such as passwords, so with `was_sent` these are not compared.
    """
    if change.verb is ArmOperation.CREATE:
        # Its existence suffices.
        return True
    if change.verb in ACTION_VERBS:
        # The body of an action is no part of the machine.
        return has_requested_values(
            get_mapping(observed, "properties"), get_mapping(change.expected)
        )
    return has_target_values(change, observed, was_sent=was_sent)


def _determine_absent_progress(change: ArmChange, *, was_sent: bool) -> _ChangeStatus:
    """Return the progress of a change on an absent resource.

    Raises ProviderProblem if the resource was removed.
    """
    if change.verb is ArmOperation.DELETE:
        return _ChangeStatus.DONE
    if change.verb is ArmOperation.CREATE:
        return _ChangeStatus.NOT_SENT
    # The read may be stale.
    if was_sent:
        return _ChangeStatus.IN_PROGRESS
    raise ProviderProblem(f"{change.target.title} was deleted: Azure does not show it. Plan again.")


def read_provisioning_state(body: Mapping[str, Any] | None) -> str:
    """Return the provisioningState of a body, "" if absent."""
    return get_text(body, "properties", "provisioningState")


def build_failure_record(
    arm_id: str, code: str, message: str, change: ArmChange, step: ChangeRequest
) -> dict[str, Any]:
    """Build the record of a failed change for state.

    `id` is the resource, `parts` the names of its changed properties. `body` is True if the
    azure block was changed. `code` is Azure's, `times` the number of consecutive failures, and
    `words` the message.
    """
    previous = get_mapping(step.unfinished_change)
    is_same = (previous.get("id"), previous.get("code")) == (arm_id, code)
    if step.resumed_operation is not None and previous.get("looked_up"):
        # No repetition: a read recorded this same failure, and the resumed step finds it again.
        is_same = False
    times = int(previous.get("times", 1)) + 1 if is_same else 1
    changed = (
        change.expected if change.expected is not None else get_mapping(change.body, "properties")
    )
    repetition = f" It failed the same way before: {times} times so far." if is_same else ""
    return {
        "id": arm_id,
        "parts": sorted(changed),
        "body": change.verb is ArmOperation.UPDATE
        and change.body != {"properties": change.expected},
        "code": code,
        "times": times,
        "message": f"{message}{repetition}",
    }


def read_status_message(body: Mapping[str, Any] | None) -> str:
    """Return the detailed status of a resource, "" if absent."""
    message = get_text(body, "properties", "detailedStatusMessage") or get_text(
        body, "properties", "detailedStatus"
    )
    return message.rstrip(".")


def _read_retry_after(response: Any) -> float | None:
    """Return the Retry-After seconds of a response, None if absent or a date."""
    try:
        return max(float(response.headers.get("Retry-After")), 0.0)
    except (AttributeError, TypeError, ValueError):
        return None


def _format_error(problem: Any) -> str:
    """Format an Azure error in one line."""
    error = getattr(problem, "error", None)
    code = getattr(error, "code", None)
    message = getattr(error, "message", None)
    return f"{code}: {message}" if code and message else extract_first_line(problem)


def extract_first_line(problem: Exception) -> str:
    """Return the first line of an error, or else the name of its class."""
    return next(iter(str(problem).splitlines()), type(problem).__name__)
