"""What a hub makes of a plan: one dry run for each object that it would write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from shlex import quote
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.leaves import leaves
from nexusform.domains.hub.api.hub import Asked, Hub, HubProblem
from nexusform.domains.hub.api.hub_words import Refusal, Refused
from nexusform.domains.hub.providers.hub_bodies import (
    APPROVALS,
    MANIFESTS,
    MEMBERS,
    PLACEMENTS,
    Sent,
    objects_of,
)
from nexusform.domains.hub.providers.hub_bystanders import bystanders
from nexusform.domains.hub.providers.hub_objects import managed_by, named, path_on, standing_of_many
from nexusform.domains.hub.providers.hub_owners import left_to_others, let_go
from nexusform.domains.hub.providers.hub_refusals import no_member, of_azure, stands_already
from nexusform.domains.hub.providers.hub_terms import Terms, taking
from nexusform.domains.hub.providers.hub_writing import EXTERNAL, turns_external
from nexusform.log import log
from nexusform.plain_data import part_at
from nexusform.ports import ChangeRequest
from nexusform.values import UNKNOWN
from nexusform.words import counted, first_of

REFUSED: Final = "the-hub-refuses-this"
OTHER_MANAGER: Final = "fields-belong-to-others"
STANDS: Final = "object-stands-on-the-hub"
NO_MEMBER: Final = "member-is-not-on-the-hub"
OF_OTHERS: Final = "managed-by-others"
TAKEN: Final = "fields-are-taken-over"
STAYS: Final = "fields-stay-with-others"
OF_ANOTHER: Final = "fields-of-another-configuration"
NOT_JUDGED: Final = "not-judged"
_LATER: Final = "later"  # no diagnostic: what the hub can be asked only once the plan is applied
_AT_ONCE: Final = 6
_MOST_NAMED: Final = 4
Finding = tuple[int, Problem]


class Judging:
    """One look of a hub at the changes of a plan."""

    def __init__(self, asked: Asked, terms: Terms, made_anew: Mapping[str, Mapping[str, Problem]]) -> None:
        self._asked = asked
        self._terms = terms
        self._others = made_anew  # what others made anew, by address and title
        self._namespaces: set[str] = set()  # that come with the plan
        self._groups: set[str] = set()  # of CustomResourceDefinitions that come with the plan
        self._standing: dict[str, dict[str, Any] | None] = {}  # by path, of those that were listed
        self.verdict = ""  # what the hub made of the plan, in words

    def judge(self, requests: Sequence[ChangeRequest]) -> list[Finding]:
        """What is to be said of changes, each with its number."""
        numbers = self._asked_of(requests)
        found = self._of_what_is_written(requests, numbers) if numbers else []
        return [*found, *self._of_what_goes(requests)]

    def _of_what_is_written(self, requests: Sequence[ChangeRequest], numbers: Sequence[int]) -> list[Finding]:
        try:
            hub = self._asked.hub()
            if self._terms.confined and not self._terms.may_judge(hub.server):
                return list(
                    self._unasked(numbers, "a confined run asks it only where -allow-remote names it")
                )
        except HubProblem as problem:
            return list(self._unasked(numbers, str(problem)))
        sound = [n for n in numbers if not requests[n].flaw]
        known = [n for n in sound if not _holds_unknown(requests[n].planned)]
        sent = {n: objects_of(requests[n].key.type, requests[n].planned or {}) for n in known}
        for each in (each for objects in sent.values() for each in objects):
            self._note_new(each)

        def one(number: int) -> list[Finding]:
            return list(self._judge_one(hub, number, requests[number], sent[number]))

        try:
            self._standing = standing_of_many(hub, (each for objects in sent.values() for each in objects))
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                found = [finding for findings in pool.map(one, known) for finding in findings]
            found += self._brought_elsewhere(hub, requests, sent)
        except HubProblem as problem:
            return list(self._unasked(numbers, str(problem)))
        found += [_not_known_yet(n, requests[n].address) for n in sound if n not in sent]
        self.verdict = _verdict(hub.server, len(known), found)
        flawed = [(n, requests[n]) for n in numbers if requests[n].flaw]
        return [*_together(found, required=self._terms.judge == "require"), *_left_out(flawed)]

    def _brought_elsewhere(
        self, hub: Hub, requests: Sequence[ChangeRequest], sent: Mapping[int, Sequence[Sent]]
    ) -> Iterator[Finding]:
        """What placements that are not of the plan bring to clusters of what it writes."""
        written = {
            n: _otherwise(objects, requests[n])
            for n, objects in sent.items()
            if requests[n].key.type == MANIFESTS
        }
        changed = {
            named(request.key.type, values)
            for request in requests
            if request.key.type in PLACEMENTS and (values := request.planned or request.prior)
        }
        return bystanders(hub, written, changed)

    def _of_what_goes(self, requests: Sequence[ChangeRequest]) -> list[Finding]:
        """What somebody else applies of that which is to be deleted. That is read, and takes no judgement."""
        sent = {
            n: objects_of(request.key.type, request.prior or {})
            for n, request in enumerate(requests)
            if request.planned is None and request.key.type not in (*APPROVALS, MEMBERS)
        }
        if not sent or self._terms.take_ownership:
            return []
        found: list[Finding] = []
        try:
            hub = self._asked.hub()
            self._standing |= standing_of_many(hub, (each for objects in sent.values() for each in objects))
            for number, objects in sent.items():
                found += [
                    (number, _kept_by(who, each, requests[number]))
                    for each in objects
                    if (who := managed_by(self._body_on(hub, each) or {}))
                ]
        except (HubProblem, Refused) as problem:
            log("debug", "not looked at what is to be deleted", why=str(problem))  # the step finds it out
        return found

    def _body_on(self, hub: Hub, each: Sent) -> Mapping[str, Any] | None:
        path = path_on(hub, each)
        if path in self._standing:
            return self._standing[path]
        return hub.get(path) if path else None

    def unasked(self, requests: Sequence[ChangeRequest], why: str) -> list[Finding]:
        """What is to be said where a run does not ask the hub."""
        numbers = self._asked_of(requests)
        return list(self._unasked(numbers, why)) if numbers else []

    def _asked_of(self, requests: Sequence[ChangeRequest]) -> list[int]:
        """The numbers of the changes of which the hub is asked."""
        if self._terms.judge == "off":
            return []
        return [
            n
            for n, request in enumerate(requests)
            if request.planned is not None and request.key.type not in APPROVALS
        ]

    def _note_new(self, each: Sent) -> None:
        metadata = each.body.get("metadata") or {}
        if each.body.get("kind") == "Namespace":
            self._namespaces.add(str(metadata.get("name")))
        elif each.body.get("kind") == "CustomResourceDefinition":
            self._groups.add(str((each.body.get("spec") or {}).get("group")))

    def _unasked(self, numbers: Sequence[int], why: str) -> Iterator[Finding]:
        """One warning for the plan, or an error where the hub's judgement is required."""
        changes, required = counted(len(numbers), "change"), self._terms.judge == "require"
        detail = f"The hub was not asked what it makes of {changes}: {why.rstrip('.')}."
        if required:
            detail += ' judge = "require" asks for its judgement.'
        severity = Severity.ERROR if required else Severity.WARNING
        yield numbers[0], Problem((), NOT_JUDGED, detail, severity)

    # --- one change ----------------------------------------------------------------------------

    def _judge_one(
        self, hub: Hub, number: int, request: ChangeRequest, sent: Sequence[Sent]
    ) -> Iterator[Finding]:
        before, replaced = (
            {each.identity: each for each in objects_of(request.key.type, values)} if values else {}
            for values in (request.prior, request.replaces)
        )
        if not sent:
            detail = "This goes to a cluster directly (cluster_id), and the provider writes to the hub alone."
            yield number, Problem((), "provider-cannot-do-this", detail)
        for each in sent:
            try:
                if each.identity in replaced:
                    yield from ((number, problem) for problem in self._made_anew(hub, each))
                    continue
                for problem in self._judge_object(hub, each, request, before.get(each.identity)):
                    yield number, problem
            except Refused as refused:
                yield number, self._refusal(refused, each, request)

    def _judge_object(
        self, hub: Hub, each: Sent, request: ChangeRequest, before: Sent | None
    ) -> Iterator[Problem]:
        path = path_on(hub, each)
        if not path:
            yield self._not_served(each)
            return
        body = self._body_on(hub, each)
        if request.key.type == MEMBERS and body is None:
            yield Problem((), NO_MEMBER, no_member(each))
            return
        if body is not None and before is None and request.key.type != MEMBERS:
            history = self._others.get(request.address, {}).get(each.title)
            words = history.detail if history else stands_already(each, request.key, request.address)
            if who := managed_by(body):
                words += f" {who} applies it, and would change it back: importing it takes -take-ownership."
            yield Problem((), STANDS, words)
            return
        yield from self._of_others(each, body)
        if body is not None:
            yield from self._let_go(each, before, body)
        sent = left_to_others(each.body, body, request.ignored, self._terms.manager)
        if body is not None and turns_external(each.body, body):
            hub.merge(path, EXTERNAL, self._terms.manager, dry_run=True)
            # That was not written, so the rest is asked for beside the strategy as it stands.
            sent = {**sent, "spec": {name: part for name, part in sent["spec"].items() if name != "strategy"}}
        yield from self._dry_run(hub, path, Sent(sent, each.path), taking=taking(self._terms, request))

    def _made_anew(self, hub: Hub, each: Sent) -> Iterator[Problem]:
        """What is deleted first: while it stands, a dry run would be answered for a change of it."""
        yield from self._of_others(each, self._body_on(hub, each))
        yield Problem((), _LATER, f"{each.title} (what stands is deleted first)")

    def _of_others(self, each: Sent, body: Mapping[str, Any] | None) -> Iterator[Problem]:
        who = managed_by(body) if body is not None else ""
        if who and not self._terms.take_ownership:
            detail = (
                f"{each.title} is applied by {who}, which would change it back. `apply` writes it only with "
                "-take-ownership; change it there, or leave it out here."
            )
            yield Problem((), OF_OTHERS, detail, Severity.WARNING)

    def _let_go(self, each: Sent, before: Sent | None, body: Mapping[str, Any]) -> Iterator[Problem]:
        """The fields that are applied no more and stay, since somebody else owns them as well; and those that
        go although this configuration never said them.
        """
        manager = self._terms.manager
        stay: list[str] = []
        go: list[str] = []
        for path, owners in let_go(each.body, body, manager).items():
            words = ".".join(map(str, path))
            if owners and not (turns_external(each.body, body) and path[:2] == ("spec", "strategy")):
                stay.append(f"{words} belongs to {' and '.join(owners)} as well")
            elif not owners and (before is None or part_at(before.body, path) is None):
                go.append(words)
        if stay:
            detail = (
                f"{each.title}: {first_of(stay, _MOST_NAMED, separator='; ')}. What stays is as it is there."
            )
            yield Problem((), STAYS, detail, Severity.WARNING)
        if go:
            detail = (
                f"{each.title}: {first_of(go, _MOST_NAMED)} was applied under the name {manager}, is not of "
                "this configuration, and goes with this apply. Give each configuration that writes to one "
                "hub a field_manager of its own."
            )
            yield Problem((), OF_ANOTHER, detail, Severity.WARNING)

    def _dry_run(self, hub: Hub, path: str, each: Sent, *, taking: str) -> Iterator[Problem]:
        """Ask for an object as the apply would; what it takes from others (`taking`) is told. Raises
        Refused.
        """
        try:
            hub.apply(path, each.body, self._terms.manager, dry_run=True)
        except Refused as refused:
            if refused.kind is not Refusal.OTHER_MANAGER or not taking:
                raise
            detail = f"{each.title}: {_owners(refused)}; {taking} takes that over."
            yield Problem((), TAKEN, detail, Severity.WARNING)
            hub.apply(path, each.body, self._terms.manager, force=True, dry_run=True)

    def _not_served(self, each: Sent) -> Problem:
        version = str(each.body.get("apiVersion"))
        if version.partition("/")[0] in self._groups:
            return Problem((), _LATER, f"{each.title} (its CustomResourceDefinition comes with this plan)")
        detail = (
            f"{each.title}: the hub serves no {version} of that kind. Is its CustomResourceDefinition there?"
        )
        return Problem((), REFUSED, detail)

    def _refusal(self, refused: Refused, each: Sent, request: ChangeRequest) -> Problem:
        namespace = str((each.body.get("metadata") or {}).get("namespace") or "")
        if refused.status == 404 and namespace in self._namespaces:
            return Problem((), _LATER, f"{each.title} (its namespace comes with this plan)")
        if refused.kind is Refusal.OTHER_MANAGER:
            return _conflict(refused, each, request)
        return _SAID.get(refused.kind, _refused)(refused, each)


def _otherwise(sent: Sequence[Sent], request: ChangeRequest) -> list[Sent]:
    """What is to be otherwise than it stands."""
    before = objects_of(request.key.type, request.prior) if request.prior else []
    bodies = {each.identity: each.body for each in before}
    return [each for each in sent if bodies.get(each.identity) != each.body]


def _kept_by(who: str, each: Sent, request: ChangeRequest) -> Problem:
    detail = (
        f"{each.title} ({request.address}) is applied by {who}, which would make it again. It is deleted "
        "only with -take-ownership (plan, apply, destroy). To leave it there: nexusform state rm "
        f"{quote(request.address)}."
    )
    return Problem((), OF_OTHERS, detail)


def _not_known_yet(number: int, address: str) -> Finding:
    return number, Problem((), _LATER, f"{address} (some of its values are known only then)")


def _left_out(flawed: Sequence[tuple[int, ChangeRequest]]) -> Iterator[Finding]:
    """One warning for all changes of which nobody knows what is meant."""
    if flawed:
        what = counted(len(flawed), "change")
        reasons = first_of([f"{each.address} ({each.flaw})" for _, each in flawed], _MOST_NAMED)
        detail = f"The hub was not asked what it makes of {what}: {reasons}."
        names = first_of([each.address for _, each in flawed], _MOST_NAMED)
        brief = f"{what} in error, or hanging on what is: {names}"
        yield flawed[0][0], Problem((), NOT_JUDGED, detail, Severity.WARNING, brief=brief)


def _refused(refused: Refused, each: Sent) -> Problem:
    causes = [f"{cause.field}: {cause.words}".removeprefix(": ") for cause in refused.causes if cause.words]
    words = "; ".join(dict.fromkeys(causes)) or refused.words
    return Problem((), REFUSED, f"{each.title}: the hub refuses it ({refused.status}): {words}")


def _webhook(refused: Refused, each: Sent) -> Problem:
    advice = of_azure(each)
    detail = f"{each.title}: the hub refuses it ({refused.status}), {refused.words}{advice and '.'}{advice}"
    return Problem((), REFUSED, detail)


def _silent(refused: Refused, each: Sent) -> Problem:
    detail = (
        f"{each.title}: the hub cannot take it ({refused.status}), {refused.words}. While its failurePolicy "
        "is Fail, nothing of the kind can be written; whoever runs the webhook has to bring it back."
    )
    return Problem((), REFUSED, detail)


def _conflict(refused: Refused, each: Sent, request: ChangeRequest) -> Problem:
    advice = "Leave the field out here (lifecycle ignore_changes), or take it over"
    if request.prior is None:  # nothing is ignored of what is not in state
        advice = (
            "Leave the field out here, take the object over as it stands (import "
            f'{{ to = {request.address}, id = "{request.key.id}" }}), or take the field over'
        )
    detail = (
        f"{each.title}: {_owners(refused)}. An apply would be refused. {advice}: once by nexusform apply "
        "-take-ownership, for good by force_conflicts = true."
    )
    return Problem((), OTHER_MANAGER, detail)


def _owners(refused: Refused) -> str:
    """Which field belongs to whom."""
    parts = [f"{cause.field} belongs to {cause.manager}" for cause in refused.causes if cause.manager]
    return "; ".join(parts)


def _rights(refused: Refused, _each: Sent) -> Problem:
    return Problem((), NOT_JUDGED, refused.missing_right or refused.words, Severity.WARNING)


def _nobody(refused: Refused, _each: Sent) -> Problem:
    detail = f"the hub does not know who asks ({refused.status})"
    return Problem((), NOT_JUDGED, detail, Severity.WARNING)


_SAID: Final[dict[Refusal, Callable[[Refused, Sent], Problem]]] = {
    Refusal.WEBHOOK: _webhook,
    Refusal.SILENT_WEBHOOK: _silent,
    Refusal.RIGHTS: _rights,
    Refusal.NOT_SIGNED_IN: _nobody,
}


def _together(found: Sequence[Finding], *, required: bool) -> Iterator[Finding]:
    """What was found; all that could not be judged in one warning, or in an error where it is required."""
    unjudged = [(number, problem) for number, problem in found if problem.id == NOT_JUDGED]
    yield from ((number, problem) for number, problem in found if problem.id not in (NOT_JUDGED, _LATER))
    if not unjudged:
        return
    what = counted(len({number for number, _ in unjudged}), "change")
    reasons = first_of(
        list(dict.fromkeys(problem.detail.rstrip(".") for _, problem in unjudged)), _MOST_NAMED
    )
    severity = Severity.ERROR if required else Severity.WARNING
    detail = f"The hub could not be asked what it makes of {what}: {reasons}."
    yield unjudged[0][0], Problem((), NOT_JUDGED, detail, severity, brief=f"{what}: {reasons}")


def _verdict(server: str, asked: int, found: Sequence[Finding]) -> str:
    """What a hub made of so many changes."""
    unjudged = {number for number, problem in found if problem.id == NOT_JUDGED}
    refused = {number for number, problem in found if problem.id != _LATER and _is_error(problem)}
    judged = asked - len(unjudged)
    later = first_of([problem.detail for _, problem in found if problem.id == _LATER], _MOST_NAMED)
    when = f" What can be asked only while it is applied: {later}." if later else ""
    if not judged:
        return when.strip()
    taken = judged - len(refused - unjudged)
    return f"The hub {server} takes {taken} of {counted(judged, 'change')} (dry runs).{when}"


def _is_error(problem: Problem) -> bool:
    return problem.severity is Severity.ERROR


def _holds_unknown(value: Any) -> bool:
    return any(leaf is UNKNOWN for _, leaf in leaves(value))
