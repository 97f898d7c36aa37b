"""What is asked of Azure Resource Manager: one change at a time, sent once, followed to its end.

Every change is looked at before it is sent, and sent under a condition: a new resource only where none
stands (If-None-Match), anything else only to the version that was looked at (If-Match). So a change that an
earlier run sent is found under way, or done, and an answer that is behind the times changes nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from nexusform.domains.azure.importers.az_bodies import shows
from nexusform.ports import ChangeRequest, ProviderProblem, StepNews, StepWaits

_TYPES: Final = {
    "kubernetes_clusters": ("kubernetesClusters",),
    "agent_pools": ("kubernetesClusters", "agentPools"),
    "virtual_machines": ("virtualMachines",),
    "bare_metal_machines": ("bareMetalMachines",),
}
RESTING: Final = frozenset({"Succeeded", "Failed", "Canceled", ""})  # provisioningState
BROKEN: Final = frozenset({"Failed", "Canceled"})
NODES_MISSING: Final = "nodes are missing"  # the code of what Azure calls done, and did not do
_ENDS: Final[Mapping[str, str]] = {
    "succeeded": "Succeeded",
    "failed": "Failed",
    "canceled": "Canceled",
    "cancelled": "Canceled",
}  # of an operation, whatever case it is written in
_NOT_SO: Final = 412  # the condition of a request does not hold: the resource is another one since
_LATER: Final = frozenset({408, 409, _NOT_SO, 429, 500, 502, 503, 504})
_NOT_NOW: Final = frozenset({408, 429})
# Codes of a 409 that no waiting ends.
_LASTING: Final = frozenset(
    {"InvalidResourceLocation", "MissingSubscriptionRegistration", "ResourceGroupBeingDeleted", "ScopeLocked"}
)
SHOWN_WITHIN: Final = 300.0  # seconds until what was done must show
LOOKS: Final = 3  # as often as what differs is looked at before it is taken for what stands
_LONGEST: Final = 12 * 3600.0  # seconds of one operation, or of waiting for those of others
_SLICE: Final = 1.0  # seconds between looks at whether the run is to stop


class Target(Struct, frozen=True):
    """A resource: the group of operations of the SDK that it belongs to, its resource group, its names."""

    kind: str
    group: str
    names: tuple[str, ...]

    def path(self, subscription_id: str) -> str:
        """Its id."""
        parts = "/".join(f"{t}/{name}" for t, name in zip(_TYPES[self.kind], self.names, strict=True))
        return (
            f"/subscriptions/{subscription_id}/resourceGroups/{self.group}"
            f"/providers/Microsoft.NetworkCloud/{parts}"
        )

    @property
    def title(self) -> str:
        """Its names for people."""
        return "/".join(self.names)


class Verb(StrEnum):
    """What is done to a resource, as the SDK calls it."""

    CREATE = "create_or_update"
    UPDATE = "update"
    DELETE = "delete"
    CORDON = "cordon"
    UNCORDON = "uncordon"


_ACTIONS: Final = frozenset({Verb.CORDON, Verb.UNCORDON})  # which change no version of what they are sent to
_TO_DO: Final = {
    Verb.CREATE: "make",
    Verb.UPDATE: "change",
    Verb.DELETE: "delete",
    Verb.CORDON: "cordon",
    Verb.UNCORDON: "uncordon",
}
_WAS_DONE: Final = {
    Verb.CREATE: "made",
    Verb.UPDATE: "changed",
    Verb.DELETE: "deleted",
    Verb.CORDON: "cordoned",
    Verb.UNCORDON: "uncordoned",
}


class ArmChange(Struct, frozen=True):
    """One change. `body` is what is sent, `shown` the part of its properties that shows once it is done.
    `unless_shown`: a deletion that is not due where the resource is like this already. `fewer` is the part of
    its properties that leaves fewer VMs. `again`: it failed before, so that it is sent though all shows.
    """

    verb: Verb
    target: Target
    body: Mapping[str, Any] | None = None
    shown: Mapping[str, Any] | None = None
    unless_shown: Mapping[str, Any] | None = None
    fewer: Mapping[str, Any] | None = None
    again: bool = False


class Pace(Struct, frozen=True):
    """How time goes by: seconds between looks where Azure does not say, a sleep, and a clock."""

    interval: float = 10.0
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic


class _Standing(StrEnum):
    DONE = "done"
    GOES_ON = "goes on"
    TO_SEND = "to send"


class _Refused(Exception):
    """Azure took a request for a change, and refused it for good."""


class Failed(ProviderProblem):
    """A change that Azure took, and that failed or was canceled: `status`, and what Azure says (`words`)."""

    def __init__(self, change: ArmChange, status: str, reason: Any) -> None:
        said = reason if isinstance(reason, Mapping) else {}
        self.code = str(said.get("code") or "")
        self.status = status
        self.change = change
        words = ": ".join(str(said[key]) for key in ("code", "message") if said.get(key))
        undone = f"Azure could not {_TO_DO[change.verb]} {change.target.title} ({status})"
        text = f"{undone}: {words or 'it does not say why'}"
        super().__init__(text if text.endswith(".") else f"{text}.", exists=change.verb is Verb.CREATE)


class _Later(Exception):
    """Azure did not take a request now. `seconds`: how long it asks to wait, None when it does not say.
    `may_be_sent`: nobody knows whether it reached Azure.
    """

    def __init__(self, words: str, seconds: float | None, *, may_be_sent: bool) -> None:
        super().__init__(words)
        self.seconds = seconds
        self.may_be_sent = may_be_sent


class Arm:
    """Azure Resource Manager as the SDK's client reaches it, for one step at a time per thread."""

    def __init__(self, client: Any, endpoint: str, subscription_id: str, pace: Pace) -> None:
        self._client = client
        self._endpoint = urlsplit(endpoint)
        self._subscription = subscription_id
        self._pace = pace
        self._sent: set[Target] = set()  # of which a change may have reached Azure

    def get(self, target: Target) -> dict[str, Any] | None:
        """The resource's body, None when there is none. Raises AzureError."""
        from azure.core.exceptions import ResourceNotFoundError

        answers: list[Any] = []
        try:
            read = getattr(self._client, target.kind).get
            body = read(target.group, *target.names, raw_response_hook=answers.append)
        except ResourceNotFoundError:
            return None
        return _with_etag(body.as_dict(), answers)

    def carry_out(self, changes: list[ArmChange], step: ChangeRequest) -> None:
        """Bring changes about one after another, from the one that an earlier run came to. Raises
        ProviderProblem, and StepWaits when the step goes on after this run.
        """
        from azure.core.exceptions import AzureError

        came_to, url = self._came_to(changes, step.begun)
        for number in range(max(came_to, 0), len(changes)):
            change = changes[number]
            sent = number == came_to
            try:
                if sent and url and self.follow(url, change, step):
                    self._until_shown(change, step, "", succeeded=True)
                else:
                    self._bring_about(change, step, sent=sent)
            except _Refused as refused:
                raise ProviderProblem(f"Azure refuses {change.target.title}: {refused}") from None
            except Failed as failed:
                raise self._noted(failed, step) from None
            except AzureError as problem:
                raise self._problem(change, problem, sent=sent or change.target in self._sent) from None

    def _noted(self, failed: Failed, step: ChangeRequest) -> ProviderProblem:
        """A failure with what state is to note of it, so that the change is due again."""
        change = failed.change
        if step.prior is None or change.verb is Verb.DELETE or change.verb in _ACTIONS:
            return failed  # what failed while it was made is tainted; what still stands shows that by itself
        noted = note_of(
            change.target.path(self._subscription), failed.code or failed.status, str(failed), change, step
        )
        return ProviderProblem(noted["words"], exists=failed.exists, unfinished=noted)

    def wait(self, seconds: float | None, step: ChangeRequest, why: str) -> None:
        """Wait before looking again. Raises StepWaits when the run is to stop meanwhile."""
        until = self._pace.now() + (self._pace.interval if seconds is None else seconds)
        while True:
            if step.stopping():
                raise StepWaits(f"{why}. `nexusform apply -resume` goes on with it.")
            left = until - self._pace.now()
            if left <= 0:
                return
            self._pace.sleep(min(left, _SLICE))

    def deadline(self, seconds: float) -> Callable[[], bool]:
        """Whether so many seconds have gone by since."""
        until = self._pace.now() + seconds
        return lambda: self._pace.now() >= until

    # --- one change ----------------------------------------------------------------------------

    def _came_to(self, changes: list[ArmChange], begun: str | None) -> tuple[int, str]:
        """The change that an earlier run sent last, -1 for none, and the URL of its operation."""
        verb, _, rest = (begun or "").partition(" ")
        path, _, url = rest.partition(" ")
        for number, change in enumerate(changes):
            if (change.verb.value, change.target.path(self._subscription)) == (verb, path):
                return number, url if self._is_ours(url) else ""
        return -1, ""

    def _is_ours(self, url: str) -> bool:
        """Whether a URL is at the endpoint: no other server gets the token."""
        parts = urlsplit(url)
        return (parts.scheme, parts.netloc) == (self._endpoint.scheme, self._endpoint.netloc)

    def _bring_about(self, change: ArmChange, step: ChangeRequest, *, sent: bool) -> None:
        """`sent`: the change was sent before; it may have reached Azure or not."""
        is_late, is_lost = self.deadline(_LONGEST), self.deadline(SHOWN_WITHIN)
        while True:
            seen = self.get(change.target)
            standing = _judge(change, seen, sent=sent)
            if standing is _Standing.DONE:
                return
            if standing is _Standing.GOES_ON:
                if seen is None and is_lost():
                    raise ProviderProblem(_gone(change))
                if is_late():
                    raise StepWaits(f"{change.target.title} is {state_of(seen)} for long, and is not done.")
                self.wait(None, step, f"{change.target.title} is {state_of(seen)}")
                continue
            try:
                url = self._send(change, seen, step)
            except _Later as later:
                if is_late():
                    raise ProviderProblem(f"Azure does not take the change: {later}") from None
                step.tell(StepNews(words=f"{str(later).rstrip('.')}. Trying again."))
                self.wait(later.seconds, step, f"{later}")
                sent = sent or later.may_be_sent
                continue
            succeeded = bool(url) and self.follow(url, change, step)
            # An action need not make another version of what it is sent to.
            etag = "" if change.verb in _ACTIONS else str((seen or {}).get("etag") or "")
            self._until_shown(change, step, etag, succeeded=succeeded)
            return

    def _until_shown(
        self, change: ArmChange, step: ChangeRequest, etag_before: str, *, succeeded: bool
    ) -> None:
        """Wait until what was done shows. A change of what stands may show in other words: then that is
        told with what was read back. What still has the etag that it was changed under is behind the times.
        `succeeded`: its operation said so.
        """
        is_late = self.deadline(SHOWN_WITHIN)
        looks = 0
        while True:
            seen = self.get(change.target)
            is_behind = bool(etag_before) and seen is not None and seen.get("etag") == etag_before
            if not is_behind and _judge(change, seen, sent=True) is _Standing.DONE:
                return
            tells = bool(etag_before) or not succeeded
            if tells and not is_behind and state_of(seen) in BROKEN:  # Azure took it back as well
                raise Failed(change, state_of(seen), _reason(seen))
            looks += not is_behind and state_of(seen) in RESTING
            is_settled = change.verb is Verb.UPDATE and succeeded and looks >= LOOKS
            if is_settled or (state_of(seen) in RESTING and is_late()):
                if change.verb is Verb.UPDATE:
                    return
                if change.verb is Verb.CREATE:  # it may show yet, and nobody else would look for it
                    raise StepWaits(f"{_not_shown(change)} `nexusform apply -resume` looks again.")
                raise ProviderProblem(_not_shown(change))
            self.wait(None, step, f"{change.target.title} does not show the change yet")

    def _send(self, change: ArmChange, seen: Mapping[str, Any] | None, step: ChangeRequest) -> str:
        """Send a change; the URL of the operation that it began, "" for none. Raises _Later."""
        from azure.core import MatchConditions
        from azure.core.exceptions import (
            HttpResponseError,
            IncompleteReadError,
            ServiceRequestError,
            ServiceResponseError,
        )

        target = change.target
        noted = f"{change.verb} {target.path(self._subscription)}"
        step.tell(StepNews(operation=noted))
        answers: list[Any] = []
        method = getattr(getattr(self._client, target.kind), f"begin_{change.verb}")
        arguments = [target.group, *target.names, *([change.body] if change.body is not None else [])]
        conditions: dict[str, Any] = {}
        if change.verb is Verb.CREATE:
            conditions = {"match_condition": MatchConditions.IfMissing}
        elif change.verb not in _ACTIONS and (etag := (seen or {}).get("etag")):
            conditions = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
        try:
            # Nothing is sent twice by the client itself: what an unanswered request did is looked at first.
            method(
                *arguments,
                polling=False,
                retry_total=0,
                retry_connect=0,
                retry_read=0,
                retry_status=0,
                raw_response_hook=answers.append,
                **conditions,
            )
        except (ServiceRequestError, ServiceResponseError, IncompleteReadError) as problem:
            words = f"The connection to Azure broke ({_innermost(problem)})"
            self._sent.add(target)
            raise _Later(words, None, may_be_sent=True) from None
        except HttpResponseError as problem:
            code = problem.status_code or 0
            if 200 <= code < 300:  # taken, with an answer that cannot be read
                return self._begun(problem.response, target, noted, step)
            if code not in _LATER or getattr(problem.error, "code", None) in _LASTING:
                raise _Refused(_words(problem)) from None
            words = "It changed meanwhile" if code == _NOT_SO else _words(problem)
            if code >= 500:
                self._sent.add(target)
            raise _Later(words, _retry_after(problem.response), may_be_sent=code >= 500) from None
        return self._begun(answers[-1].http_response if answers else None, target, noted, step)

    def _begun(self, response: Any, target: Target, noted: str, step: ChangeRequest) -> str:
        """The URL of the operation that an answer to a change names, which is noted; "" for none."""
        self._sent.add(target)
        url = _operation_of(response) if response is not None else ""
        if not self._is_ours(url):
            return ""
        step.tell(StepNews(operation=f"{noted} {url}"))
        return url

    def follow(self, url: str, change: ArmChange, step: ChangeRequest) -> bool:
        """Wait until an operation is over; False when Azure has forgotten it, or answers with something that
        is no word of it (a page of a proxy): then the resource tells. Raises ProviderProblem.
        """
        from azure.core.rest import HttpRequest

        is_late = self.deadline(_LONGEST)
        last_status = ""
        while True:
            response = self._client.send_request(HttpRequest("GET", url))
            if response.status_code == 404:
                return False
            if response.status_code >= 400:
                response.raise_for_status()
            body = _json_of(response)
            if body is None:
                return False
            status = _status_of(body, response)
            if status == "Succeeded":
                return True
            if status in BROKEN:
                raise Failed(change, status, body.get("error"))
            url = self._next_of(response, url, change, step)
            if status != last_status:
                step.tell(StepNews(words=f"Azure says: {status}"))
                last_status = status
            if is_late():
                hours = f"{_LONGEST / 3600:.0f} hours"
                raise StepWaits(f"Azure has worked on {change.target.title} for {hours} and is not done.")
            self.wait(_retry_after(response), step, f"Azure goes on with {change.target.title}")

    def _next_of(self, response: Any, url: str, change: ArmChange, step: ChangeRequest) -> str:
        """Where an operation is looked at next: an answer 202 may name another address each time."""
        named = str(response.headers.get("Location") or "") if response.status_code == 202 else ""
        if named in {"", url} or not self._is_ours(named):
            return url
        step.tell(StepNews(operation=f"{change.verb} {change.target.path(self._subscription)} {named}"))
        return named

    def _problem(self, change: ArmChange, problem: Any, *, sent: bool) -> ProviderProblem:
        """An error of the SDK while Azure is looked at: where nothing was sent, what it refuses is over; what
        was sent goes on there, whatever a look at it comes to.
        """
        from azure.core.exceptions import ClientAuthenticationError

        code = getattr(problem, "status_code", None)
        refused = isinstance(problem, ClientAuthenticationError) or (code is not None and 400 <= code < 500)
        if refused and not sent and code not in _NOT_NOW:
            return ProviderProblem(f"Azure refuses {change.target.title}: {_words(problem)}")
        words = _words(problem).rstrip(".")
        return StepWaits(
            f"Azure could not be asked about {change.target.title}: {words}. What was begun goes "
            "on there; `nexusform apply -resume` looks at it."
        )


def _judge(change: ArmChange, seen: Mapping[str, Any] | None, *, sent: bool) -> _Standing:
    """How far a change is. Raises ProviderProblem where it cannot come about."""
    state = state_of(seen)
    properties = (seen or {}).get("properties") or {}
    if change.verb is Verb.DELETE:
        if seen is None or (change.unless_shown is not None and shows(properties, change.unless_shown)):
            return _Standing.DONE
        return _Standing.TO_SEND if state in RESTING else _Standing.GOES_ON
    if seen is None:
        return _judge_absent(change, sent=sent)
    if change.verb is Verb.CREATE and not sent:
        raise ProviderProblem(
            f"{change.target.title} stands in resource group {change.target.group} already, and was not made "
            "by this configuration. Take it over by an import block, or give this one another name."
        )
    if state not in RESTING:
        return _Standing.GOES_ON
    # What only the azure block asks for need not show once it was sent: a key is not given back.
    is_action = change.verb in _ACTIONS
    asked = {"properties": change.shown or {}} if sent or is_action else change.body or {}
    is_as_asked = change.verb is Verb.CREATE or shows(seen, asked)
    if not is_as_asked or (change.again and not sent):
        return _Standing.TO_SEND
    if state in BROKEN and not is_action:  # a machine may have been so for long, and do what is asked
        if sent:
            raise Failed(change, state, _reason(seen))
        return _Standing.TO_SEND
    return _Standing.DONE


def _judge_absent(change: ArmChange, *, sent: bool) -> _Standing:
    """How far a change is of what Azure does not show. Raises ProviderProblem where it is gone."""
    if change.verb is Verb.CREATE:
        return _Standing.TO_SEND
    if sent:  # a look may be behind the times
        return _Standing.GOES_ON
    raise ProviderProblem(_gone(change))


def state_of(seen: Mapping[str, Any] | None) -> str:
    """The provisioningState of a body, "" when it has none."""
    return str(((seen or {}).get("properties") or {}).get("provisioningState") or "")


def _gone(change: ArmChange) -> str:
    return f"{change.target.title} is gone: Azure does not show it."


def _not_shown(change: ArmChange) -> str:
    return f"{change.target.title} was {_WAS_DONE[change.verb]}, and Azure does not show it so."


def note_of(arm_id: str, code: str, words: str, change: ArmChange, step: ChangeRequest) -> dict[str, Any]:
    """What state notes of a change that failed: of which resource (`id`), which of its properties were to be
    otherwise (`parts`, never values: they may be secrets), whether the azure block's body was (`body`),
    Azure's code, how often it came in a row, and words for people.
    """
    before = step.unfinished or {}
    is_same = (before.get("id"), before.get("code")) == (arm_id, code)
    if step.begun is not None and before.get("looked_up"):
        is_same = False  # this failure itself: it was seen before its step went on
    times = int(before.get("times", 1)) + 1 if is_same else 1
    body = (change.body or {}).get("properties")
    parts = sorted(change.shown or ()) if change.shown is not None else sorted(body or ())
    again = f" It failed the same way before: {times} times by now." if is_same else ""
    return {
        "id": arm_id,
        "parts": parts,
        "body": change.verb is Verb.UPDATE and change.body != {"properties": change.shown},
        "code": code,
        "times": times,
        "words": f"{words}{again}",
    }


def _reason(seen: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Why a resource is as it is, where its operation is not known any more."""
    return {"message": words_of(seen)}


def words_of(seen: Mapping[str, Any] | None) -> str:
    """What a resource says of how it is doing, "" where it says nothing."""
    properties = (seen or {}).get("properties") or {}
    return str(properties.get("detailedStatusMessage") or properties.get("detailedStatus") or "").rstrip(".")


def _operation_of(response: Any) -> str:
    headers = response.headers
    return str(headers.get("Azure-AsyncOperation") or headers.get("Location") or "")


def _json_of(response: Any) -> Mapping[str, Any] | None:
    """The body of an answer, None where it has one that is no object."""
    if not response.content.strip():
        return {}
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, Mapping) else None


def _status_of(body: Mapping[str, Any], response: Any) -> str:
    """The status of an operation. A body without one is the resource, or nothing: then the status of the
    answer tells whether the operation goes on.
    """
    status = body.get("status")
    if not isinstance(status, str) or not status:
        return "InProgress" if response.status_code == 202 else "Succeeded"
    return _ENDS.get(status.lower(), status)


def _with_etag(body: Mapping[str, Any], answers: list[Any]) -> dict[str, Any]:
    """A body with the version of the resource: older API versions tell it in the header alone."""
    if body.get("etag") or not answers:
        return dict(body)
    etag = answers[-1].http_response.headers.get("ETag")
    return {**body, "etag": etag} if etag else dict(body)


def _retry_after(response: Any) -> float | None:
    """Seconds that a response asks to wait; None when it does not say (or says a date)."""
    try:
        return max(float(response.headers.get("Retry-After")), 0.0)
    except (AttributeError, TypeError, ValueError):
        return None


def _words(problem: Any) -> str:
    """What Azure says of a refusal, in a line."""
    refusal = getattr(problem, "error", None)
    code, message = getattr(refusal, "code", None), getattr(refusal, "message", None)
    return f"{code}: {message}" if code and message else _first_line(problem)


def _innermost(problem: Exception) -> str:
    """Why a connection broke: what libraries say of it holds the words of those below them in quotes."""
    line = _first_line(problem)
    quoted = re.findall(r"'([^']+)'", line)
    return quoted[-1] if quoted else line


def _first_line(problem: Exception) -> str:
    lines = str(problem).splitlines()
    return lines[0] if lines else type(problem).__name__
