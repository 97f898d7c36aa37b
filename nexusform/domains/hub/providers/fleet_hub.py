"""Resources as objects of a hub: what stands is read, what is planned is written, and waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem
from nexusform.domains.fleet.importers.fleet_export import manager_of
from nexusform.domains.fleet.planning.hub import ON_HUB
from nexusform.domains.fleet.types.fleet_hub_export import standing_placement
from nexusform.domains.hub.api.hub import Asked, Hub, HubProblem
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.hub.api.hub_words import Refusal, Refused
from nexusform.domains.hub.providers.hub_approvals import approve
from nexusform.domains.hub.providers.hub_bodies import (
    APPROVALS,
    EVICTION,
    KIND_OF,
    MANIFESTS,
    MEMBERS,
    PLACEMENTS,
    RECORDS,
    RUNS,
    Sent,
    adopted_arguments,
    as_shown,
    differing,
    given_back,
    objects_of,
)
from nexusform.domains.hub.providers.hub_judging import Judging
from nexusform.domains.hub.providers.hub_owners import left_to_others
from nexusform.domains.hub.providers.hub_standing import (
    Shown,
    Standing,
    is_approved,
    manifests_of,
    observed_bindings,
    run_standing,
)
from nexusform.domains.hub.providers.hub_watch import (
    Watch,
    is_external,
    shown_placement,
    what_is_left,
)
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, manifest_of
from nexusform.ports import (
    ChangeRequest,
    NotDoneYet,
    ObjectKey,
    ProviderAnswer,
    ProviderProblem,
    ReadAnswer,
    ReadRequest,
    StepNews,
)

_FOR_RUN: Final = {"fleet_cluster_staged_update_run": "ClusterResourcePlacement"}
_NO_TERMS: Final = frozenset[str]()
Values = Mapping[str, Any]


class Terms(Struct, frozen=True):
    """What the block and the operator say. `may_judge` says of the hub's URL whether a confined run may ask
    it more than what stands.
    """

    manager: str
    judge: str
    read_only: bool
    timeout: float
    confined: bool = False
    may_judge: Callable[[str], bool] = lambda _server: True
    take_ownership: bool = False


class FleetHub:
    """The provider. See the module's text."""

    observes = True

    def __init__(self, name: str, asked: Asked, terms: Terms) -> None:
        self.name = name
        self.sends = not terms.read_only
        self._asked = asked
        self._terms = terms
        self._remarks: list[Problem] = []

    def mind(self, allows: Callable[[str], bool], *, take_ownership: bool) -> None:
        """What the operator lets the run do."""
        self._terms = replace(self._terms, may_judge=allows, take_ownership=take_ownership)

    def remarks(self) -> list[Problem]:
        """What is to be said of what was read."""
        return self._remarks

    # --- reading -------------------------------------------------------------------------------

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """What stands of many objects. Raises ProviderProblem."""
        if not requests:
            return []
        with _in_words():
            standing = _Standing(self._asked.hub(), requests)
            return [self._read_one(standing, request) for request in requests]

    def _read_one(self, standing: _Standing, request: ReadRequest) -> ReadAnswer:
        key, known = request.key, request.known
        if key.type in APPROVALS:
            return self._read_approval(standing, request)
        sent = objects_of(key.type, known)
        if not sent:  # nothing of it stands on a hub
            return ReadAnswer(known)
        shown = [body for each in sent if (body := standing.get(each)) is not None]
        if not shown:
            return self._absent(standing.hub, request)
        attributes: Values = known
        paths = [path for each in sent for path in _differences(each, standing.get(each))]
        if paths or len(shown) < len(sent):
            attributes = as_shown(key.type, known, sent, shown)
        settled = True
        note = {ON_HUB: {"uid": _uid(shown[0])}} if key.type != MANIFESTS else {}
        if key.type in PLACEMENTS:
            kind, namespace, name = _named(key.type, known)
            placement = shown_placement(standing.hub, kind, namespace, name)
            if placement is not None:
                attributes = {**attributes, **_observed(placement, attributes, standing.evictions())}
        elif key.type in RUNS and request.planned is not None:
            settled = run_standing(shown[0], ()).ended
        return ReadAnswer(attributes, observed=True, settled=settled and request.planned is None, note=note)

    def _read_approval(self, standing: _Standing, request: ReadRequest) -> ReadAnswer:
        path = objects_of(request.key.type, request.known)[0].path
        body = standing.hub.get(path)
        granted = body is not None and is_approved(body)
        if request.planned is not None and not granted:
            return ReadAnswer(None, observed=True)
        return ReadAnswer(request.known, observed=True)

    def _absent(self, hub: Hub, request: ReadRequest) -> ReadAnswer:
        """What is not on the hub: a record stays one, and what still goes is not gone."""
        if request.key.type in RECORDS and request.planned is None and not request.going:
            return ReadAnswer(request.known, observed=True)
        if request.going and request.key.type in PLACEMENTS:
            kind, namespace, name = _named(request.key.type, request.known)
            if what_is_left(hub, kind, namespace, name):
                return ReadAnswer(request.known, observed=True, settled=False)
        return ReadAnswer(None, observed=True)

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Values] | None:
        """For import. Raises ProviderProblem."""
        kind = KIND_OF.get(resource_type)
        if kind is None:
            raise ProviderProblem(f"A {resource_type} cannot be taken over from a hub one by one.")
        namespace, _, name = object_id.rpartition("/")
        with _in_words():
            hub = self._asked.hub()
            body = hub.get(KINDS[kind].path(name, namespace))
            if body is None:
                return None
            self._refuse_managed(body, "import")
            arguments = (
                _adopted_member(body) if resource_type == MEMBERS else adopted_arguments(resource_type, body)
            )
            attributes: dict[str, Any] = {"id": object_id, "name": name, **arguments}
            if namespace:
                attributes["namespace"] = namespace
            if resource_type in PLACEMENTS:
                shown = shown_placement(hub, kind, namespace, name)
                evictions = hub.list(KINDS["ClusterResourcePlacementEviction"].collection)
                attributes |= _adopted_placement(shown, object_id, evictions) if shown is not None else {}
            return ObjectKey(resource_type, object_id, 0), attributes

    # --- judging -------------------------------------------------------------------------------

    def judge(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """What the hub makes of a plan. Raises ProviderProblem."""
        return Judging(self._asked, self._terms).judge(requests)

    # --- doing ---------------------------------------------------------------------------------

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Make it, or go on making it. Raises ProviderProblem."""
        return self._act(request)

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Change it. Raises ProviderProblem."""
        return self._act(request)

    def delete(self, request: ChangeRequest) -> None:
        """Delete it, and wait until what it brought is gone. Raises ProviderProblem."""
        kind = request.key.type
        if kind in APPROVALS:
            return  # the hub made it, and what was granted stays granted
        prior = request.prior or {}
        with _in_words():
            hub = self._asked.hub()
            sent = objects_of(kind, prior)
            if self._terms.read_only:
                self._not_by_us([each for each in sent if self._get(hub, each) is not None], "delete")
                return
            if kind == MEMBERS:
                if self._get(hub, sent[0]) is not None:
                    hub.apply(sent[0].path, given_back(sent[0]).body, self._terms.manager)
                return
            uid = str((request.noted.get(ON_HUB) or {}).get("uid") or "")
            for each in reversed(sent):
                self._delete_one(hub, each, uid if len(sent) == 1 else "", request)
            if kind in PLACEMENTS:
                named = _named(kind, prior)
                self._watch(hub, request).gone(*named, sent[0].path, uid)

    def _delete_one(self, hub: Hub, each: Sent, uid: str, request: ChangeRequest) -> None:
        body = self._get(hub, each)
        if body is None:
            return
        if uid and _uid(body) != uid:
            return  # another object of that name, which is not ours
        path = self._path(hub, each)
        hub.delete(path, _uid(body))
        if request.key.type in PLACEMENTS:
            return

        def look(_elapsed: float) -> tuple[bool, str]:
            there = hub.get(path)
            gone = there is None or _uid(there) != _uid(body)
            held = ", ".join(((there or {}).get("metadata") or {}).get("finalizers") or ())
            return gone, f"{each.title} still goes{f', held by {held}' if held else ''}"

        self._watch(hub, request).until(look, f"The deletion of {each.title}")

    def _act(self, request: ChangeRequest) -> ProviderAnswer:
        with _in_words():
            hub = self._asked.hub()
            planned = request.planned or {}
            if request.key.type in APPROVALS:
                return self._grant(hub, request, planned)
            sent = objects_of(request.key.type, planned)
            if self._terms.read_only:
                self._not_by_us([each for each in sent if self._is_otherwise(hub, each)], "write")
            else:
                self._before(hub, request, planned)
                uid = self._write_all(hub, request, sent)
                self._drop_others(hub, request, sent)
            return self._awaited(hub, request, planned, uid if not self._terms.read_only else "")

    def _not_by_us(self, sent: Sequence[Sent], verb: str) -> None:
        """Raises NotDoneYet for what somebody else has to do."""
        if sent:
            names = ", ".join(each.title for each in sent)
            raise NotDoneYet(f"read_only: somebody else has to {verb} {names} on {self._asked.hub().server}.")

    def _is_otherwise(self, hub: Hub, each: Sent) -> bool:
        body = self._get(hub, each)
        return body is None or next(differing(each.body, body), None) is not None

    def _before(self, hub: Hub, request: ChangeRequest, planned: Values) -> None:
        """Wait for what a run or an eviction acts on. Raises StepWaits."""
        if request.prior is not None or request.key.type not in RUNS | {EVICTION}:
            return
        kind = "ResourcePlacement" if planned.get("namespace") else "ClusterResourcePlacement"
        body = objects_of(request.key.type, planned)[0].body
        name = str((body.get("spec") or {}).get("placementName"))
        if request.begun is None or self._get(hub, objects_of(request.key.type, planned)[0]) is None:
            self._watch(hub, request).scheduled(kind, str(planned.get("namespace") or ""), name)

    def _write_all(self, hub: Hub, request: ChangeRequest, sent: Sequence[Sent]) -> str:
        """Write the objects of a step, in their order; the uid of the first."""
        uid = ""
        before = (
            {each.identity for each in objects_of(request.key.type, request.prior)}
            if request.prior
            else set()
        )
        for each in sent:
            body = self._get(hub, each)
            if request.key.type == MEMBERS and body is None:
                name = each.body["metadata"]["name"]
                raise ProviderProblem(
                    f"The hub has no member {name}, and a member is not made by a plan: it comes by the join "
                    "script of KubeFleet (hack/membership/joinMC.sh), or by `az fleet member create`."
                )
            if body is not None:
                self._may_write(each, body, request, known=each.identity in before)
            written = self._write_one(hub, each, body, request)
            uid = uid or _uid(written)
        return uid

    def _may_write(self, each: Sent, body: Values, request: ChangeRequest, *, known: bool) -> None:
        """Raises ProviderProblem where an object stands that is not ours to write."""
        self._refuse_managed(body, "apply")
        is_ours = any(
            one.get("manager") == self._terms.manager and one.get("operation") == "Apply"
            for one in (body.get("metadata") or {}).get("managedFields") or ()
        )
        went_on = request.begun is not None and is_ours
        if known or went_on or request.key.type == MEMBERS:
            return
        if _is_going(body):
            raise ProviderProblem(f"{each.title} is being deleted on the hub; apply again once it is gone.")
        raise ProviderProblem(stands_already(each, request.key, request.address))

    def _refuse_managed(self, body: Values, command: str) -> None:
        who = managed_by(body)
        if who and not self._terms.take_ownership:
            name = (body.get("metadata") or {}).get("name")
            raise ProviderProblem(
                f"{body.get('kind')} {name} is applied by {who}, which would change it back. Change it "
                f"there, or take it over: nexusform {command} -take-ownership."
            )

    def _write_one(self, hub: Hub, each: Sent, body: Values | None, request: ChangeRequest) -> dict[str, Any]:
        path = self._path(hub, each)
        if body is not None and turns_external(each.body, body):
            request.tell(StepNews(operation="external", words=f"{each.title} is left to staged runs"))
            hub.merge(path, EXTERNAL, self._terms.manager)
        request.tell(StepNews(operation=f"apply {each.title}"))
        try:
            force = body is not None and self._terms.take_ownership
            sent = left_to_others(each.body, body, request.ignored, self._terms.manager)
            return hub.apply(path, sent, self._terms.manager, force=force)
        except Refused as refused:
            raise ProviderProblem(refusal_words(refused, each.title)) from None

    def _drop_others(self, hub: Hub, request: ChangeRequest, sent: Sequence[Sent]) -> None:
        """Delete the objects that a step leaves out."""
        if request.prior is None or request.key.type != MANIFESTS:
            return
        kept = {each.identity for each in sent}
        for each in reversed(objects_of(request.key.type, request.prior)):
            if each.identity not in kept:
                self._delete_one(hub, each, "", request)

    def _awaited(self, hub: Hub, request: ChangeRequest, planned: Values, uid: str) -> ProviderAnswer:
        """Wait until the hub has brought it about; what it made of it."""
        kind = request.key.type
        note = {ON_HUB: {"uid": uid}} if uid and kind != MANIFESTS else {}
        watch = self._watch(hub, request)
        if kind in PLACEMENTS:
            named = _named(kind, planned)
            standing = watch.placement(*named, planned.get("bindings") or {})
            return _with_bindings(planned, standing, hub, named, note)
        if kind in RUNS:
            granted = frozenset(str(each) for each in planned.get("approvals") or ())
            run = watch.run(KIND_OF[kind], str(planned.get("namespace") or ""), str(planned["name"]), granted)
            if run.failed:
                raise ProviderProblem(
                    f"The run {planned['name']} ended without success: {run.failed}. It goes no further; "
                    "make another run.",
                    exists=True,
                    attributes=planned,
                )
        if kind == EVICTION:
            why = watch.eviction(objects_of(kind, planned)[0].path, str(planned["name"]))
            if why:
                request.tell(StepNews(words=f"{planned['name']} was not carried out: {why}"))
        return ProviderAnswer(planned, note=note)

    def _grant(self, hub: Hub, request: ChangeRequest, planned: Values) -> ProviderAnswer:
        if planned.get("approved") is False:
            return ProviderAnswer(planned)
        path, name = objects_of(request.key.type, planned)[0].path, str(planned["name"])
        if self._terms.read_only:
            body = hub.get(path)
            if body is None or not is_approved(body):
                raise NotDoneYet(f"read_only: somebody else has to approve {name} on {hub.server}.")
            return ProviderAnswer(planned)

        def look(_elapsed: float) -> tuple[bool, str]:
            return approve(hub, path, request), f"the run has not asked for {name} yet"

        self._watch(hub, request).until(look, f"The approval {name}")
        return ProviderAnswer(planned)

    def _watch(self, hub: Hub, request: ChangeRequest) -> Watch:
        return Watch(hub, request, self._terms.timeout, self._asked.pace)

    def _path(self, hub: Hub, each: Sent) -> str:
        """Where an object stands. Raises ProviderProblem for a kind that the hub does not serve."""
        path = path_on(hub, each)
        if not path:
            raise ProviderProblem(
                f"{each.title}: the hub serves no {each.body.get('apiVersion')} of that kind."
            )
        return path

    def _get(self, hub: Hub, each: Sent) -> dict[str, Any] | None:
        path = path_on(hub, each)
        return hub.get(path) if path else None


EXTERNAL: Final[Mapping[str, Any]] = {"spec": {"strategy": {"type": "External", "rollingUpdate": None}}}


def managed_by(body: Values) -> str:
    """What of Flux or Argo CD applies an object, "" for neither."""
    manifest = manifest_of(dict(body))
    return manager_of(manifest) if manifest is not None else ""


def turns_external(sent: Values, shown: Values) -> bool:
    """Whether a placement is left to staged runs from now on, and what its rolling update said is still
    there.
    """
    wanted = ((sent.get("spec") or {}).get("strategy") or {}).get("type")
    return sent.get("kind") in ("ClusterResourcePlacement", "ResourcePlacement") and (
        wanted == "External" and not is_external(shown)
    )


def path_on(hub: Hub, each: Sent) -> str:
    """Where an object stands on a hub; "" for a kind that it does not serve. Raises Refused."""
    if each.path:
        return each.path
    version = str(each.body.get("apiVersion"))
    plural, namespaced = hub.kinds_of(version).get(str(each.body.get("kind")), ("", False))
    if not plural:
        return ""
    metadata = each.body.get("metadata") or {}
    head = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = f"/namespaces/{metadata.get('namespace') or 'default'}" if namespaced else ""
    return f"{head}{within}/{plural}/{metadata.get('name')}"


def stands_already(each: Sent, key: ObjectKey, address: str) -> str:
    """Why what stands on the hub is not written over, and what to write instead."""
    if key.type == MANIFESTS:
        return (
            f"{each.title} stands on the hub already, and this plan would write over it. Take it out of the "
            "block, or delete it there."
        )
    return (
        f"{each.title} stands on the hub already and is not in state. Take it over as it stands: import "
        f"{{ to = "
        f'{address}, id = "{key.id}" }} with each argument on a line of its own.'
    )


def refusal_words(refused: Refused, title: str) -> str:
    """A refusal in one sentence or more."""
    if refused.kind is Refusal.OTHER_MANAGER:
        parts = [f"{each.field} belongs to {each.manager}" for each in refused.causes if each.manager]
        return (
            f"{title}: {'; '.join(parts)}. Leave the field out of the configuration, or take it over: "
            "nexusform apply -take-ownership."
        )
    if refused.missing_right:
        return f"{title}: {refused.missing_right}."
    words = refused.words
    return f"{title}: the hub refuses it ({refused.status}): {words}"


@contextmanager
def _in_words() -> Iterator[None]:
    """What a hub refuses, or does not answer, as problems of a provider."""
    try:
        yield
    except HubProblem as problem:
        raise ProviderProblem(str(problem)) from None
    except Refused as refused:
        if refused.kind is Refusal.NOT_SIGNED_IN:
            raise ProviderProblem("The hub does not know who asks (401). Sign in again.") from None
        raise ProviderProblem(
            f"The hub refuses ({refused.status}): {refused.missing_right or refused.words}"
        ) from None


class _Standing:
    """What stands on a hub, asked for once: many of one kind by a list, few one by one."""

    _MANY = 5

    def __init__(self, hub: Hub, requests: Sequence[ReadRequest]) -> None:
        self.hub = hub
        self._bodies: dict[str, dict[str, Any] | None] = {}
        self._evictions: list[dict[str, Any]] | None = None
        self._list_many(requests)

    def _list_many(self, requests: Sequence[ReadRequest]) -> None:
        asked: dict[str, list[ReadRequest]] = {}
        for request in requests:
            if request.key.type not in APPROVALS and request.key.type in KIND_OF:
                asked.setdefault(request.key.type, []).append(request)
        for type_name, of_type in asked.items():
            if len(of_type) < self._MANY:
                continue
            kind = KINDS[KIND_OF[type_name]]
            self._bodies.update({each.path: None for r in of_type for each in objects_of(type_name, r.known)})
            for body in self.hub.list(kind.collection):
                metadata = body.get("metadata") or {}
                path = kind.path(str(metadata.get("name")), str(metadata.get("namespace") or ""))
                self._bodies[path] = body

    def evictions(self) -> list[dict[str, Any]]:
        """All evictions of placements."""
        if self._evictions is None:
            self._evictions = self.hub.list(KINDS["ClusterResourcePlacementEviction"].collection)
        return self._evictions

    def get(self, each: Sent) -> dict[str, Any] | None:
        """An object, None where there is none."""
        path = path_on(self.hub, each)
        if not path:
            return None
        if path not in self._bodies:
            self._bodies[path] = self.hub.get(path)
        return self._bodies[path]


def _differences(each: Sent, shown: Values | None) -> Iterator[tuple[Any, ...]]:
    if shown is not None:
        yield from (path for path in differing(each.body, shown) if path[:1] != ("apiVersion",))


def _uid(body: Values) -> str:
    return str((body.get("metadata") or {}).get("uid") or "")


def _is_going(body: Values) -> bool:
    return bool((body.get("metadata") or {}).get("deletionTimestamp"))


def _named(type_name: str, attributes: Values) -> tuple[str, str, str]:
    return KIND_OF[type_name], str(attributes.get("namespace") or ""), str(attributes.get("name"))


def _observed(shown: Shown, attributes: Values, evictions: Sequence[Values]) -> dict[str, Any]:
    """What a hub shows of a placement beside its arguments; what it selects and its pods are foretold."""
    of_hub = standing_placement([*manifests_of(shown), *_manifests(evictions)], str(attributes.get("id")))
    foretold = ("selected_resources", "workloads")
    seen = {name: value for name, value in of_hub.items() if name not in foretold}
    return {**seen, "bindings": _merged(shown, attributes)}


def _manifests(bodies: Sequence[Values]) -> list[Manifest]:
    return [each for each in map(manifest_of, map(dict, bodies)) if each is not None]


def _merged(shown: Shown, attributes: Values) -> dict[str, Any]:
    """The bindings that a hub shows, each as it was remembered where nothing of it changed."""
    known = attributes.get("bindings") or {}
    merged: dict[str, Any] = {}
    for cluster, binding in observed_bindings(shown).items():
        before = known.get(cluster) or {}
        same = all(before.get(name) == value for name, value in binding.items() if name != "provenance")
        merged[cluster] = before if same else binding
    return merged


def _with_bindings(
    planned: Values, standing: Standing, hub: Hub, named: tuple[str, str, str], note: Values
) -> ProviderAnswer:
    """What was planned, with the bindings that the hub decided for."""
    foretold = planned.get("bindings") or {}
    placement = hub.get(KINDS[named[0]].path(named[2], named[1]))
    external = placement is not None and is_external(placement)
    bindings: dict[str, Any] = {}
    for cluster, observed in standing.bindings.items():
        before = foretold.get(cluster)
        # Under External a run of the same apply may go on bringing it there.
        kept = {name: before[name] for name in ("state", "resource_snapshot")} if external and before else {}
        bindings[cluster] = {**observed, **kept}
    paths = tuple(("bindings", cluster) for cluster in bindings)
    return ProviderAnswer({**planned, "bindings": bindings}, paths, note=note)


def _adopted_placement(shown: Shown, key: str, evictions: Sequence[Values]) -> dict[str, Any]:
    """What state is to hold of a placement that is taken over."""
    of_hub = standing_placement([*manifests_of(shown), *_manifests(evictions)], key)
    return {**of_hub, "bindings": observed_bindings(shown)}


def _adopted_member(body: Values) -> dict[str, Any]:
    metadata, spec = body.get("metadata") or {}, body.get("spec") or {}
    own = "kubernetes-fleet.io/member-name"
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != own}
    taints = [
        {"key": t.get("key"), "value": t.get("value") or "", "effect": t.get("effect")}
        for t in spec.get("taints") or ()
    ]
    return {"labels": labels or None, "taint": taints, "health": "Healthy"}
