"""One step of an apply, as a hub carries it out: written, and waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.planning.beside_others import ON_HUB
from nexusform.domains.hub.api.hub import Hub, Pace
from nexusform.domains.hub.api.hub_kinds import KINDS, MEMBER
from nexusform.domains.hub.api.hub_mirror import Mirrors
from nexusform.domains.hub.api.hub_words import Refusal, Refused
from nexusform.domains.hub.providers.hub_approvals import Beside, approve
from nexusform.domains.hub.providers.hub_bodies import (
    APPROVALS,
    EVICTION,
    MANIFESTS,
    MEMBERS,
    PLACEMENTS,
    RUNS,
    Sent,
    differing,
    given_back,
    objects_of,
    run_of_approval,
)
from nexusform.domains.hub.providers.hub_objects import (
    held_by,
    is_applied_by,
    is_deleted,
    named,
    object_on,
    path_needed,
    uid_of,
)
from nexusform.domains.hub.providers.hub_others import OnHub, is_another, known_uid, noted_of
from nexusform.domains.hub.providers.hub_overrides import OVERRIDES, OverrideLook
from nexusform.domains.hub.providers.hub_owners import is_as_applied, left_to_others, says_nothing
from nexusform.domains.hub.providers.hub_refusals import (
    no_member,
    refusal_words,
    refuse_managed,
    stands_already,
)
from nexusform.domains.hub.providers.hub_settling import (
    Figures,
    Settled,
    Settling,
    figures_of,
    is_decided_anew,
)
from nexusform.domains.hub.providers.hub_standing import Standing, is_approved, observed_bindings
from nexusform.domains.hub.providers.hub_terms import Terms, taking
from nexusform.domains.hub.providers.hub_watch import Watch, hub_version, is_external, shown_placement
from nexusform.ports import ChangeRequest, NotDoneYet, ProviderAnswer, ProviderProblem, StepNews, StepWaits

Values = Mapping[str, Any]
EXTERNAL: Final[Mapping[str, Any]] = {"spec": {"strategy": {"type": "External", "rollingUpdate": None}}}


class Writing(Struct, frozen=True):
    """One step. `request` says what is to be, and hears how it goes."""

    hub: Hub
    mirrors: Mirrors
    terms: Terms
    request: ChangeRequest
    pace: Pace
    beside: Beside
    at_planning: Figures | None = None  # the members' figures on which the plan stands

    @property
    def _kind(self) -> str:
        return self.request.key.type

    @property
    def _planned(self) -> Values:
        return self.request.planned or {}

    @property
    def _watch(self) -> Watch:
        return Watch(self.hub, self.mirrors, self.request, self.terms.timeout, self.pace)

    def _standing(self, each: Sent) -> dict[str, Any] | None:
        return object_on(self.hub, self.mirrors, each)

    # --- what goes -----------------------------------------------------------------------------

    def delete(self) -> None:
        """Delete it, and wait until what it brought is gone. Raises ProviderProblem and Refused."""
        if self._kind in APPROVALS:
            return  # the hub made it, and what was granted stays granted
        sent = objects_of(self._kind, self.request.prior or {})
        if self.terms.read_only:
            self._not_by_us([each for each in sent if self._standing(each) is not None], "delete")
            return
        if self._kind == MEMBERS:
            if self._standing(sent[0]) is not None:
                self.hub.apply(sent[0].path, given_back(sent[0]).body, self.terms.manager)
            return
        for each in reversed(sent):
            self._delete_one(each)
        if self._kind in PLACEMENTS:
            uid = known_uid(self._kind, sent[0], self.request.noted)
            self._watch.gone(*named(self._kind, self.request.prior or {}), sent[0].path, uid)
        elif self._kind in OVERRIDES:
            self._await_override(self.request.prior or {}, gone=True)

    def _delete_one(self, each: Sent) -> None:
        body = self._standing(each)
        if body is None:
            return
        if is_another(self._kind, each, body, self.request.noted):
            words = f"{each.title} was made anew by others since the plan, and stays"
            self.request.tell(StepNews(words=words))
            return
        refuse_managed(self.terms, body, "destroy")
        path = path_needed(self.hub, each)
        self.hub.delete(path, uid_of(body))
        if self._kind in PLACEMENTS:
            return

        def look(_elapsed: float) -> tuple[bool, str]:
            there = self.mirrors.get(path)
            gone = there is None or uid_of(there) != uid_of(body)
            return gone, f"{each.title} still goes{held_by(there or {})}"

        self._watch.until(look, f"The deletion of {each.title}", partial(self.mirrors.changes, path))

    def _not_by_us(self, sent: Sequence[Sent], verb: str) -> None:
        """Raises NotDoneYet for what somebody else has to do."""
        if sent:
            names = ", ".join(each.title for each in sent)
            raise NotDoneYet(f"read_only: somebody else has to {verb} {names} on {self.hub.server}.")

    # --- what is to be -------------------------------------------------------------------------

    def write(self) -> ProviderAnswer:
        """Make or change it, or go on with that. Raises ProviderProblem and Refused."""
        if self._kind in APPROVALS:
            return self._grant()
        if self._kind in RUNS:
            _, namespace, name = named(self._kind, self._planned)
            with self.beside.running(_run_path(namespace, name)):
                return self._written()
        return self._written()

    def _written(self) -> ProviderAnswer:
        sent = objects_of(self._kind, self._planned)
        if self.terms.read_only:
            self._not_by_us([each for each in sent if self._is_otherwise(each)], "write")
            return self._awaited(())
        self._wait_for_placement(sent[0])
        before = self._bound(sent[0]) if self._kind == EVICTION else 0
        written = self._write_all(sent)
        self._drop_others(sent)
        answer = self._awaited(written)
        if self._kind == EVICTION and self.request.prior is None:
            self._watch.standing_again(_placement_of(sent[0]), before)
        return answer

    def _bound(self, eviction: Sent) -> int:
        """How many clusters the placement of an eviction has."""
        shown = shown_placement(self.hub, "ClusterResourcePlacement", "", _placement_of(eviction))
        return len(observed_bindings(shown)) if shown is not None else 0

    def _is_otherwise(self, each: Sent) -> bool:
        body = self._standing(each)
        return body is None or next(differing(each.body, body), None) is not None

    def _wait_for_placement(self, each: Sent) -> None:
        """Wait for what a run or an eviction acts on. Raises StepWaits."""
        if self.request.prior is not None or self._kind not in RUNS | {EVICTION}:
            return
        namespace = str(self._planned.get("namespace") or "")
        kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
        name = _placement_of(each)
        if self.request.begun is None or self._standing(each) is None:
            self._watch.scheduled(kind, namespace, name)

    def _write_all(self, sent: Sequence[Sent]) -> list[OnHub]:
        """Write the objects of a step, in their order; each as it is then."""
        prior = self.request.prior
        all_written: list[OnHub] = []
        before = {each.identity for each in objects_of(self._kind, prior)} if prior else set()
        made: set[str] = set()  # namespaces, in which nothing stands yet
        for each in sent:
            metadata = each.body.get("metadata") or {}
            body = None if metadata.get("namespace") in made else self._standing(each)
            if self._kind == MEMBERS and body is None:
                raise ProviderProblem(no_member(each))
            if body is not None:
                self._may_write(each, body, known=each.identity in before)
            written = self._write_one(each, body)
            all_written.append((each, written))
            if body is None and each.body.get("kind") == "Namespace":
                made.add(str(metadata.get("name")))
        return all_written

    def _may_write(self, each: Sent, body: Values, *, known: bool) -> None:
        """Raises ProviderProblem where an object stands that is not ours to write."""
        refuse_managed(self.terms, body, "apply")
        if known and is_another(self._kind, each, body, self.request.noted) and not self.terms.take_ownership:
            raise ProviderProblem(
                f"{each.title} was deleted and made anew by others since the plan. Plan again, and the plan "
                "says what can be done."
            )
        if is_deleted(body) and self._kind != MEMBERS:
            raise ProviderProblem(f"{each.title} is being deleted on the hub; apply again once it is gone.")
        if known or self._went_on(each, body) or self._kind == MEMBERS:
            return
        raise ProviderProblem(stands_already(each, self.request.key, self.request.address))

    def _went_on(self, each: Sent, body: Values) -> bool:
        """Whether an earlier run of this step wrote an object. Who applies one that says nothing owns nothing
        of it: then it tells that this object, or one behind it, was what that run had come to.
        """
        if self.request.begun is None or is_applied_by(body, self.terms.manager):
            return self.request.begun is not None
        come_to = [_operation(one) for one in objects_of(self._kind, self._planned)]
        return says_nothing(each.body) and self.request.begun in come_to[come_to.index(_operation(each)) :]

    def _write_one(self, each: Sent, body: Values | None) -> dict[str, Any]:
        path, manager = path_needed(self.hub, each), self.terms.manager
        if body is not None and turns_external(each.body, body):
            words = f"{each.title} is left to staged runs"
            self.request.tell(StepNews(operation="external", words=words))
            self.hub.merge(path, EXTERNAL, manager)
        sent = left_to_others(each.body, body, self.request.ignored, manager)
        if self.request.begun is not None and body is not None and is_as_applied(sent, body, manager):
            return dict(body)  # an earlier run sent it
        self.request.tell(StepNews(operation=_operation(each)))
        try:
            force = body is not None and bool(taking(self.terms, self.request))
            return self.hub.apply(path, sent, manager, force=force)
        except Refused as refused:
            raise ProviderProblem(refusal_words(refused, each)) from None

    def _drop_others(self, sent: Sequence[Sent]) -> None:
        """Delete the objects that a step leaves out."""
        if self.request.prior is None or self._kind != MANIFESTS:
            return
        kept = {each.identity for each in sent}
        for each in reversed(objects_of(self._kind, self.request.prior)):
            if each.identity not in kept:
                self._delete_one(each)

    # --- until it is so ------------------------------------------------------------------------

    def _awaited(self, written: Sequence[OnHub]) -> ProviderAnswer:
        """Wait until the hub has brought it about; what it made of it. `written` are the objects as they are
        once sent, none where nothing was.
        """
        planned = self._planned
        note = noted_of(self._kind, written, self.terms.manager)
        if self._kind in PLACEMENTS:
            what = named(self._kind, planned)
            placement = written[0][1] if written else {}
            decided, standing = self._watch.placement(*what, planned, placement)
            settled = self._settled(decided, standing)
            for miss in settled.misses:
                self.request.tell(StepNews(words=miss.words))
            if note:
                note = {ON_HUB: {**note[ON_HUB], **settled.note()}}
            external = is_external(objects_of(self._kind, planned)[0].body)
            answer = _with_bindings(planned, standing, note, external=external)
            return replace(answer, claims=settled.claims)
        if self._kind in RUNS:
            self._await_run()
        elif self._kind in OVERRIDES:
            self._await_override(planned, gone=False)
        elif self._kind == EVICTION:
            why = self._watch.eviction(objects_of(self._kind, planned)[0].path, str(planned["name"]))
            if why:
                self.request.tell(StepNews(words=f"{planned['name']} was not carried out: {why}"))
        return ProviderAnswer(planned, note=note)

    def _settled(self, decided: Standing, last: Standing) -> Settled:
        """What became of what was foretold, at the first moment at which the hub had decided. Where others
        act on the placement meanwhile (an eviction of the same apply) it is the end that counts.
        """
        planned = self._planned.get("bindings") or {}
        prior = (self.request.prior or {}).get("bindings") or {}
        if self.request.prior is not None and not is_decided_anew(prior, planned):
            return Settled()
        name = "/".join(filter(None, named(self._kind, self._planned)[1:]))
        evictions = [(values or {}).get("evictions") or () for values in (self.request.prior, self._planned)]
        settling = Settling(
            self.at_planning,
            self.at_planning or {},
            spread_counts=not prior,
            evicted=len(evictions[0]) < len(evictions[1]),
        )
        looks = [settling.settle(name, planned, each.bindings) for each in (decided, last)]
        settled = min(looks, key=lambda each: len(each.misses))
        if not settled.misses:
            return settled
        shown = decided.bindings if settled is looks[0] else last.bindings
        now = figures_of(self.hub.list(MEMBER.collection), datetime.now(UTC))
        settling = replace(settling, now=now, version=hub_version(self.hub))
        return settling.settle(name, planned, shown)

    def _await_override(self, attributes: Values, *, gone: bool) -> None:
        """Wait until the clusters of the placement that an override names have it, or have it no more."""
        try:
            looking = OverrideLook(self.hub, self._kind, attributes, gone=gone)
            what = f"The rollout of {attributes.get('name')}"
            self._watch.until(looking.look, what)
            if looking.stops:
                self.request.tell(StepNews(words=looking.stops))
        except Refused as refused:
            if refused.kind is not Refusal.RIGHTS:
                raise
            words = f"it is not waited for until its clusters have it: {refused.missing_right}"
            self.request.tell(StepNews(words=words))

    def _await_run(self) -> None:
        """Raises ProviderProblem for a run that ended without success."""
        planned = self._planned
        granted = frozenset(str(each) for each in planned.get("approvals") or ())
        run = self._watch.run(*named(self._kind, planned), granted, self.beside.granted)
        if run.failed:
            raise ProviderProblem(
                f"The run {planned['name']} ended without success: {run.failed}. It goes no further; "
                "make another run.",
                exists=True,
                attributes=planned,
            )

    def _grant(self) -> ProviderAnswer:
        planned = self._planned
        if planned.get("approved") is False:
            return ProviderAnswer(planned)
        path, name = objects_of(self._kind, planned)[0].path, str(planned["name"])
        asking = run_of_approval(self._kind, planned)
        run = _run_path(str(planned.get("namespace") or ""), asking)
        if self.terms.read_only:
            body = self.hub.get(path)
            if body is None or not is_approved(body):
                raise NotDoneYet(f"read_only: somebody else has to approve {name} on {self.hub.server}.")
            return ProviderAnswer(planned)

        def look(_elapsed: float) -> tuple[bool, str]:
            has_ended = run in self.beside.ended  # before the look: it may ask until it ends
            if approve(self.hub, path, self.request):
                return True, ""
            if has_ended:
                raise StepWaits(f"{asking} goes on no further in this apply, and has not asked for {name}.")
            return False, f"the run has not asked for {name} yet"

        with self.beside.granting(path):
            self._watch.until(look, f"The approval {name}")
        return ProviderAnswer(planned)


def _run_path(namespace: str, name: str) -> str:
    return KINDS["StagedUpdateRun" if namespace else "ClusterStagedUpdateRun"].path(name, namespace)


def _operation(each: Sent) -> str:
    """What is told before an object is sent."""
    return f"apply {each.title}"


def _placement_of(each: Sent) -> str:
    """The placement that a run or an eviction names."""
    return str((each.body.get("spec") or {}).get("placementName"))


def turns_external(sent: Values, shown: Values) -> bool:
    """Whether a placement is left to staged runs from now on, and what its rolling update said is still
    there.
    """
    wanted = ((sent.get("spec") or {}).get("strategy") or {}).get("type")
    return sent.get("kind") in ("ClusterResourcePlacement", "ResourcePlacement") and (
        wanted == "External" and not is_external(shown)
    )


def _with_bindings(planned: Values, standing: Standing, note: Values, *, external: bool) -> ProviderAnswer:
    """What was planned, with the bindings that the hub decided for."""
    foretold = planned.get("bindings") or {}
    bindings: dict[str, Any] = {}
    for cluster, observed in standing.bindings.items():
        before = foretold.get(cluster)
        # Under External a run of the same apply may go on bringing it there.
        kept = {name: before[name] for name in ("state", "resource_snapshot")} if external and before else {}
        bindings[cluster] = {**observed, **kept}
    paths = tuple(("bindings", cluster) for cluster in bindings)
    return ProviderAnswer({**planned, "bindings": bindings}, paths, note=note)
