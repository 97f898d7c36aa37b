"""Looking at a hub until what was asked of it is so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.documents.shapes import mappings_at
from nexusform.domains.hub.api.hub import Hub, Pace
from nexusform.domains.hub.api.hub_kinds import KINDS, WORK
from nexusform.domains.hub.api.hub_mirror import PARENT, Mirror, Mirrors
from nexusform.domains.hub.api.hub_words import Refusal, Refused
from nexusform.domains.hub.providers.hub_objects import uid_of
from nexusform.domains.hub.providers.hub_standing import (
    PARENT_NAMESPACE,
    RunStanding,
    Shown,
    Standing,
    failures_foretold,
    generation_of,
    held_up,
    index_told,
    is_as_foretold,
    name_of,
    placement_standing,
    run_standing,
    snapshots_behind,
)
from nexusform.ports import ChangeRequest, ProviderProblem, StepNews, StepWaits
from nexusform.words import counted, first_of

_FIRST_LOOK: Final = 0.3  # seconds
_LONGEST_LOOK: Final = 5.0
_BEHIND: Final = 1.0  # seconds after which bindings are asked for, since what follows them tells nothing
_SLICE: Final = 0.2
_QUIET: Final = 90.0  # seconds after which a snapshot that was foretold will not come any more
# Seconds after which a decision counts that is not as foretold: where members were changed in the same apply
# the hub decides once more, and until then it shows the decision of before as final.
_DOUBT: Final = 15.0
_PLACEMENT_SHOWS: Final = 120.0  # seconds in which a placement of the same apply has to appear
_PICKS_AGAIN: Final = 10.0  # seconds in which a hub picks again after an eviction
_STANDS_AGAIN: Final = 120.0  # seconds after which an eviction waits no longer for what comes in its place
_MOST_NAMED: Final = 4
_RESUME: Final = "`nexusform apply -resume` goes on with it."
Values = Mapping[str, Any]
Look = Callable[
    [float], tuple[bool, str]
]  # seconds since the beginning -> whether it is so, else why not yet


class Watch(Struct, frozen=True):
    """Looks until something is so, the step's time is over, or the run is to stop."""

    hub: Hub
    mirrors: Mirrors
    step: ChangeRequest
    timeout: float
    pace: Pace = field(default_factory=Pace)

    def until(self, look: Look, what: str, changes: Callable[[], int | None] = lambda: None) -> None:
        """Look until `look` says that it is so: ever more seldom, and where `changes` tells how often the
        object was seen to change (None: it is not followed), as soon as it does. Raises StepWaits.
        """
        began, pause, told = self.pace.now(), _FIRST_LOOK, ""
        while True:
            seen = changes()  # before the look: what changes during it is looked at again
            elapsed = self.pace.now() - began
            done, words = look(elapsed)
            if done:
                return
            if words and words != told:
                self.step.tell(StepNews(words=words, rests=True))
                told = words
            if elapsed >= self.timeout:
                raise StepWaits(f"{what} takes longer than its timeout: {words}. {_RESUME}")
            stopped = f"{what}: {words}. {_RESUME}"
            if seen is None:
                self._rest(pause, stopped, lambda: False)
            else:
                has_changed = partial(_is_otherwise, changes, seen)
                self._rest(_LONGEST_LOOK, stopped, has_changed)
            pause = min(pause * 1.5, _LONGEST_LOOK)

    def _rest(self, seconds: float, words: str, is_over: Callable[[], bool]) -> None:
        """Sleep in slices, so that Ctrl-C and what happens on the hub are heard. Raises StepWaits."""
        until = self.pace.now() + seconds
        while True:
            if self.step.stopping():
                raise StepWaits(words)
            left = until - self.pace.now()
            if left <= 0 or is_over():
                return
            self.pace.sleep(min(left, _SLICE))

    # --- placements ----------------------------------------------------------------------------

    def placement(
        self, kind: str, namespace: str, name: str, foretold: Values, written: Values
    ) -> tuple[Standing, Standing]:
        """Wait until a placement is rolled out, or picked its clusters where somebody else rolls out: how it
        stood when the hub had just decided, and in the end. `foretold` are its planned attributes, `written`
        the object as it was sent.
        """
        planned, failing = foretold.get("bindings") or {}, failures_foretold(foretold)
        path = KINDS[kind].path(name, namespace)
        decided = last = Standing(done=False)
        behind_since: float | None = None  # since when the bindings that are followed are behind

        def look(elapsed: float) -> tuple[bool, str]:
            nonlocal last, decided, behind_since
            placement = self._placement_on(path, written)
            if placement is None:
                raise ProviderProblem(f"{kind} {name} was deleted while its rollout was waited for.")
            shown = self._followed(placement, planned)
            if shown is None and self._is_followed(placement, planned):
                behind_since = elapsed if behind_since is None else behind_since
                if elapsed - behind_since < _BEHIND:
                    return False, last.words
            behind_since = None
            shown = shown or _glance(self.hub, placement, planned)
            external = is_external(placement)
            last = placement_standing(shown, planned, external=external, failing=failing)
            if last.decided and not last.done and (stop := held_up(shown)):
                last = replace(last, done=True, words=stop.words)
            decided = decided if decided.decided else last
            if last.done and (words := _yet_to_notice(placement, foretold, last, elapsed)):
                return False, words
            if last.done and not last.words:
                last = replace(last, words=_selects_nothing(placement, foretold))
            return last.done, last.words

        def changes() -> int | None:
            return self.mirrors.changes(path) if behind_since is None else None

        self.until(look, f"{kind} {name}", changes)
        if last.words:
            self.step.tell(StepNews(words=last.words))
        return decided, last

    def _followed(self, placement: Values, planned: Values) -> Shown | None:
        """A placement with its bindings as they are followed; None where they are not, or not so far yet that
        they are as new as the placement.
        """
        mirror = self._bindings_of(placement) if _tells_enough(placement, planned) else None
        version = str((placement.get("metadata") or {}).get("resourceVersion") or "")
        bindings = mirror.made_for(_name_of(placement), version) if mirror is not None else None
        return Shown(placement, bindings, is_glance=True) if bindings is not None else None

    def _is_followed(self, placement: Values, planned: Values) -> bool:
        return _tells_enough(placement, planned) and self._bindings_of(placement) is not None

    def _bindings_of(self, placement: Values) -> Mirror | None:
        kind = made_kinds(str(placement.get("kind")))[0]
        return self.mirrors.among(KINDS[kind].collection, _name_of(placement))

    def _placement_on(self, path: str, written: Values) -> Values | None:
        """A placement as it stands. What is followed may be a moment behind what was just written."""
        changes = self.mirrors.changes(path)
        shown = self.mirrors.get(path)
        if changes is None or not written:
            return shown
        if shown is None:
            return self.hub.get(path) if changes else written
        if uid_of(shown) != uid_of(written):
            return self.hub.get(path)
        return shown if generation_of(shown) >= generation_of(written) else written

    def scheduled(self, kind: str, namespace: str, name: str) -> None:
        """Wait until a placement that a run or an eviction names is there and has its clusters: a run in
        haste fails for good.
        """

        def look(elapsed: float) -> tuple[bool, str]:
            shown = shown_placement(self.hub, kind, namespace, name)
            if shown is None:
                if elapsed > _PLACEMENT_SHOWS:
                    raise StepWaits(f"{kind} {name} is not on the hub. {_RESUME}")
                return False, f"{kind} {name} is not on the hub yet"
            standing = placement_standing(shown, {}, external=True)
            return standing.done, f"{kind} {name}: {standing.words}"

        self.until(look, f"{kind} {name}")

    def gone(self, kind: str, namespace: str, name: str, path: str, uid: str) -> None:
        """Wait until a placement is gone, with its bindings and Works."""
        stands = True

        def look(_elapsed: float) -> tuple[bool, str]:
            nonlocal stands
            there = self.mirrors.get(path) if stands else None
            stands = there is not None and uid_of(there) == (uid or None)
            if stands:
                return False, f"{kind} {name} still stands"
            mirror = self.mirrors.among(KINDS[made_kinds(kind)[0]].collection, (namespace, name))
            seen = mirror.made_for((namespace, name), "0") if mirror is not None else []
            left = _as_left(seen) if seen else what_is_left(self.hub, kind, namespace, name)
            return not left, first_of(left, _MOST_NAMED)

        def changes() -> int | None:
            return self.mirrors.changes(path) if stands else None

        self.until(look, f"The deletion of {kind} {name}", changes)

    # --- runs and evictions --------------------------------------------------------------------

    def run(
        self, kind: str, namespace: str, name: str, granted: AbstractSet[str], elsewhere: AbstractSet[str]
    ) -> RunStanding:
        """Wait until a run has ended; approvals in `granted` are given as they are asked for. Other steps
        grant those in `elsewhere` (paths), in which more may come.
        """
        from nexusform.domains.hub.providers.hub_approvals import approve

        last = RunStanding(ended=False)
        asked_for = ""
        requests_kind = KINDS["ApprovalRequest" if namespace else "ClusterApprovalRequest"]

        def look(_elapsed: float) -> tuple[bool, str]:
            nonlocal last, asked_for
            body = self.hub.get(KINDS[kind].path(name, namespace))
            if body is None:
                raise ProviderProblem(f"{kind} {name} was deleted while it was waited for.")
            asked = self._requests_of(requests_kind.collection, namespace, name)
            last = run_standing(body, asked)
            if last.approval in granted:
                approve(self.hub, requests_kind.path(last.approval, namespace), self.step)
                return False, last.words
            if last.approval:
                seen_before, asked_for = asked_for == last.approval, last.approval
                if not seen_before or requests_kind.path(last.approval, namespace) in elsewhere:
                    return False, last.words  # its step may begin only now
                raise StepWaits(
                    f"{kind} {name} waits for a person: {last.approval} has to be approved. Grant it there, "
                    "and `nexusform apply -resume` goes on; or write it in approvals of the block, and apply."
                )
            return last.ended, last.words

        self.until(look, f"{kind} {name}")
        return last

    def _requests_of(self, collection: str, namespace: str, name: str) -> list[dict[str, Any]]:
        """The approval requests of a run."""
        within = f"/namespaces/{namespace}" if namespace else ""
        head, _, plural = collection.rpartition("/")
        selector = f"kubernetes-fleet.io/targetUpdateRun={name}"
        return self.hub.list(f"{head}{within}/{plural}", labelSelector=selector)

    def standing_again(self, name: str, before: int) -> None:
        """Wait until a placement of which a binding was evicted stands again, with as many as before where
        the hub picks so many soon.
        """
        kind = "ClusterResourcePlacement"

        def look(elapsed: float) -> tuple[bool, str]:
            shown = shown_placement(self.hub, kind, "", name)
            if shown is None or elapsed > _STANDS_AGAIN:
                return True, ""
            standing = placement_standing(shown, {}, external=is_external(shown.placement))
            picked = len(standing.bindings) >= before or elapsed > _PICKS_AGAIN
            words = standing.words or "the hub has not picked a cluster in its place yet"
            ends = standing.done or (standing.decided and held_up(shown) is not None)
            return ends and picked, f"{name}: {words}"

        self.until(look, f"{kind} {name}")

    def eviction(self, path: str, name: str) -> str:
        """Wait until an eviction is over; why it was not carried out, "" when it was."""
        why = ""

        def look(_elapsed: float) -> tuple[bool, str]:
            nonlocal why
            body = self.hub.get(path)
            if body is None:
                return True, ""
            over, why = eviction_end(body)
            return over, "the hub has not looked at it yet"

        self.until(look, f"The eviction {name}")
        return why


def eviction_end(body: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether an eviction is over, and why it was not carried out."""
    for each in (body.get("status") or {}).get("conditions") or ():
        kind, status = each.get("type"), each.get("status")
        if (kind, status) == ("Valid", "False") or (kind, status) == ("Executed", "False"):
            return True, str(each.get("message") or each.get("reason"))
        if (kind, status) == ("Executed", "True"):
            return True, ""
    return False, ""


def _yet_to_notice(placement: Values, foretold: Values, last: Standing, elapsed: float) -> str:
    """What a hub that seems to be done may not have noticed yet, in words; "" for nothing, or when it will
    not notice it any more.
    """
    planned = foretold.get("bindings") or {}
    if elapsed < _QUIET and not is_external(placement):
        if snapshots_behind(planned, last.latest):
            return "the hub has not taken a snapshot of the new content yet"
        if words := _selects_nothing(placement, foretold):
            return words
    if planned and elapsed < _DOUBT and not is_as_foretold(planned, last.bindings):
        return "the hub has not picked the clusters that were foretold"
    return ""


def _selects_nothing(placement: Values, foretold: Values) -> str:
    """Words where a hub selects nothing for a placement although objects were foretold, as one does that has
    not heard of them; "" otherwise, and where staged runs decide what is selected.
    """
    objects = foretold.get("selected_resources") or ()
    if not objects or is_external(placement) or mappings_at(placement, "status", "selectedResources"):
        return ""
    return f"the hub selects nothing, and {counted(len(objects), 'object')} were foretold"


def _is_otherwise(changes: Callable[[], int | None], seen: int) -> bool:
    return changes() != seen


# --- what a hub shows ------------------------------------------------------------------------------


def shown_placement(hub: Hub, kind: str, namespace: str, name: str) -> Shown | None:
    """A placement with what the hub made for it; None where there is none."""
    placement = hub.get(KINDS[kind].path(name, namespace))
    if placement is None:
        return None
    if not has_been_scheduled(placement):
        return Shown(placement, (), (), ())  # nothing to look at yet
    return _whole(hub, placement, kind, namespace, name)


def _glance(hub: Hub, placement: Values, planned: Values) -> Shown:
    """A placement with its bindings alone, where that is enough: one request instead of three."""
    if not has_been_scheduled(placement):
        return Shown(placement, (), (), ())
    kind = str(placement.get("kind"))
    if _tells_enough(placement, planned):
        return Shown(placement, _made_for(hub, made_kinds(kind)[0], *_name_of(placement)), is_glance=True)
    return _whole(hub, placement, kind, *_name_of(placement))


def _tells_enough(placement: Values, planned: Values) -> bool:
    """Whether the status of a placement tells which snapshot it speaks of, and a plan says which is meant."""
    if not has_been_scheduled(placement) or is_external(placement):
        return False
    is_meant = planned and all(isinstance(each.get("resource_snapshot"), int) for each in planned.values())
    return bool(is_meant) and index_told(placement) is not None


def _name_of(placement: Values) -> tuple[str, str]:
    return str((placement.get("metadata") or {}).get("namespace") or ""), name_of(placement)


def _whole(hub: Hub, placement: Mapping[str, Any], kind: str, namespace: str, name: str) -> Shown:
    bindings, policies, snapshots = (_made_for(hub, made, namespace, name) for made in made_kinds(kind))
    return Shown(placement, bindings, policies, snapshots)


def has_been_scheduled(placement: Mapping[str, Any]) -> bool:
    """Whether the hub has decided on a placement as it is written."""
    scheduled = f"{placement.get('kind')}Scheduled"
    generations = [
        int(each.get("observedGeneration") or 0)
        for each in (placement.get("status") or {}).get("conditions") or ()
        if each.get("type") == scheduled
    ]
    return bool(generations) and max(generations) >= generation_of(placement)


def made_kinds(kind: str) -> tuple[str, str, str]:
    """What a hub makes for placements of a kind: bindings, snapshots of policies, and of resources."""
    prefix = "" if kind == "ResourcePlacement" else "Cluster"
    return f"{prefix}ResourceBinding", f"{prefix}SchedulingPolicySnapshot", f"{prefix}ResourceSnapshot"


def made_by_placement(hub: Hub, kind: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The objects of a kind that the hub made for placements, by the namespace and name of the placement."""
    made: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for body in hub.list(KINDS[kind].collection, labelSelector=PARENT):
        metadata = body.get("metadata") or {}
        parent = str((metadata.get("labels") or {}).get(PARENT))
        made.setdefault((str(metadata.get("namespace") or ""), parent), []).append(body)
    return made


def _made_for(hub: Hub, kind: str, namespace: str, name: str) -> list[dict[str, Any]]:
    """The objects of a kind that the hub made for a placement."""
    table = KINDS[kind]
    head, _, plural = table.collection.rpartition("/")
    within = f"/namespaces/{namespace}" if table.namespaced else ""
    return hub.list(f"{head}{within}/{plural}", labelSelector=f"{PARENT}={name}")


def is_external(placement: Mapping[str, Any]) -> bool:
    """Whether staged runs roll a placement out."""
    return ((placement.get("spec") or {}).get("strategy") or {}).get("type") == "External"


def what_is_left(hub: Hub, kind: str, namespace: str, name: str) -> list[str]:
    """Bindings and Works of a placement that still stand, each with what holds it. Where Works may not be
    looked at, the bindings tell: their finalizer waits for the Works.
    """
    prefix = "" if kind == "ResourcePlacement" else "Cluster"
    bindings = _made_for(hub, f"{prefix}ResourceBinding", namespace, name)
    left = _as_left(bindings)
    selector = f"{PARENT}={name}" + (
        f",{PARENT_NAMESPACE}={namespace}" if namespace else f",!{PARENT_NAMESPACE}"
    )
    try:
        works = hub.list(WORK.collection, labelSelector=selector)
    except Refused as refused:
        if refused.kind is not Refusal.RIGHTS:
            raise
        works = []
    return left + [
        f"{str((each.get('metadata') or {}).get('namespace')).removeprefix('fleet-member-')}: Work "
        f"{name_of(each)}{_held_by(each)}"
        for each in works
    ]


def _as_left(bindings: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{(each.get('spec') or {}).get('targetCluster')}: binding {name_of(each)}{_held_by(each)}"
        for each in bindings
    ]


def _held_by(body: Mapping[str, Any]) -> str:
    names = (body.get("metadata") or {}).get("finalizers") or ()
    return f" (held by {counted(len(names), 'finalizer')}: {', '.join(names)})" if names else ""


_AGENT: Final = "/apis/apps/v1/namespaces/fleet-system/deployments/hub-agent"


def hub_version(hub: Hub) -> str:
    """The image of the hub's agent; "" where it may not be looked at, or runs elsewhere."""
    try:
        agent = hub.get(_AGENT)
    except Refused:
        return ""
    template = (((agent or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    images = [str(each.get("image") or "") for each in template.get("containers") or ()]
    return images[0] if images else ""
