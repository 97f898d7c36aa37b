"""What stands on a hub of resources that are known, and what is there to be taken over."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Problem
from nexusform.domains.fleet.scheduling.rollout import Stop
from nexusform.domains.fleet.types.fleet_hub_export import standing_placement
from nexusform.domains.hub.api.hub import Hub
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.hub.api.hub_mirror import MANY
from nexusform.domains.hub.providers.hub_bodies import (
    APPROVALS,
    KIND_OF,
    MANIFESTS,
    MEMBERS,
    PLACEMENTS,
    RECORDS,
    Sent,
    adopted_arguments,
    as_shown,
    differing,
    objects_of,
)
from nexusform.domains.hub.providers.hub_objects import (
    held_by,
    is_deleted,
    named,
    path_on,
    standing_of_many,
)
from nexusform.domains.hub.providers.hub_others import is_another, made_anew, noted_of, told_of_others
from nexusform.domains.hub.providers.hub_overrides import OVERRIDES, OverrideLook
from nexusform.domains.hub.providers.hub_refusals import refuse_managed
from nexusform.domains.hub.providers.hub_standing import (
    Shown,
    is_approved,
    manifests_of,
    observed_bindings,
)
from nexusform.domains.hub.providers.hub_terms import Terms
from nexusform.domains.hub.providers.hub_under_way import is_going, not_done, noted, placement_left
from nexusform.domains.hub.providers.hub_watch import (
    has_been_scheduled,
    made_by_placement,
    made_kinds,
    shown_placement,
    what_is_left,
)
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, manifest_of
from nexusform.ports import ObjectKey, ProviderProblem, ReadAnswer, ReadRequest
from nexusform.words import first_of

Values = Mapping[str, Any]
T = TypeVar("T")
_MOST_NAMED: Final = 4
FORETOLD: Final = ("selected_resources", "workloads")  # of a placement, whatever a hub shows
_EVICTIONS: Final = KINDS["ClusterResourcePlacementEviction"].collection


class Seen(Struct, frozen=True):
    """What is to be said of objects, by their address: of placements that no apply waits for what the hub has
    still to do, in words; which fields others set, likewise; which objects others made anew, by title;
    and that a rollout stops.
    """

    under_way: dict[str, str] = field(default_factory=dict)
    of_others: dict[str, str] = field(default_factory=dict)
    made_anew: dict[str, dict[str, Problem]] = field(default_factory=dict)
    stopped: dict[str, Problem] = field(default_factory=dict)

    def followed_by(self, later: Seen, asked: Collection[str]) -> Seen:
        """What is to be said once the addresses `asked` were looked at again."""
        return Seen(
            _without(self.under_way, asked) | later.under_way,
            _without(self.of_others, asked) | later.of_others,
            _without(self.made_anew, asked) | later.made_anew,
            _without(self.stopped, asked) | later.stopped,
        )


def _without(said: Mapping[str, T], addresses: Collection[str]) -> dict[str, T]:
    return {address: each for address, each in said.items() if address not in addresses}


def read_all(hub: Hub, terms: Terms, requests: Sequence[ReadRequest]) -> tuple[list[ReadAnswer], Seen]:
    """What stands of many objects, and what is to be said of them. Raises Refused and HubProblem."""
    standing, seen = _Standing(hub, requests), Seen()
    return [_read_one(standing, terms, request, seen) for request in requests], seen


def _read_one(standing: _Standing, terms: Terms, request: ReadRequest, seen: Seen) -> ReadAnswer:
    key, known = request.key, request.known
    if key.type in APPROVALS:
        return _read_approval(standing, request)
    sent = objects_of(key.type, known)
    if not sent:  # nothing of it stands on a hub
        return ReadAnswer(known)
    ours = _ours(standing, terms, request, sent, seen)
    if not ours:
        return _absent(standing.hub, request)
    shown = [body for _, body in ours]
    attributes: Values = known
    paths = [path for each, body in ours for path in _differences(each, body)]
    if paths or len(shown) < len(sent):
        attributes = as_shown(key.type, known, sent, shown)
    note = noted_of(key.type, ours, terms.manager, request.noted)
    placement = None
    if key.type in PLACEMENTS:
        placement = standing.placement(*named(key.type, known))
        if placement is not None:
            attributes = {**attributes, **_observed(placement, attributes, standing.evictions())}
    left = not_done(key.type, shown[0]) if placement is None else placement_left(placement)
    if isinstance(left, Stop):
        seen.stopped[request.address] = replace(left.problem(), about=request.address)
    words = "" if isinstance(left, Stop) else left
    if key.type in OVERRIDES and (request.planned is not None or request.unfinished):
        words = OverrideLook(standing.hub, key.type, known, gone=False).look()[1]
    going_on = noted(request, sent[0].title, words)
    if not going_on and (still := _still_to_be_told(key.type, *ours[0], words)):
        seen.under_way[request.address] = still
    # A step that an earlier run began is done once more, which settles what was foretold of it.
    return ReadAnswer(attributes, observed=True, settled=request.planned is None, note=note | going_on)


def _still_to_be_told(type_name: str, each: Sent, body: Values, words: str) -> str:
    """What becomes of an object although no apply waits for it, in words; "" for nothing. `words` are what
    the hub has still to do.
    """
    if is_deleted(body) and type_name != MEMBERS:
        return f"{each.title} is being deleted{held_by(body)}"
    return words if type_name in PLACEMENTS else ""


def _ours(
    standing: _Standing, terms: Terms, request: ReadRequest, sent: Sequence[Sent], seen: Seen
) -> list[tuple[Sent, dict[str, Any]]]:
    """The objects of a resource that stand, without those that others made anew; what is to be said of them
    joins `seen`. Where others write all of them (`read_only`), all are ours.
    """
    type_name, address = request.key.type, request.address
    shown: list[tuple[Sent, dict[str, Any]]] = []
    for each in sent:
        body = standing.get(each)
        if body is None:
            continue
        anew = not terms.read_only and is_another(type_name, each, body, request.noted)
        if anew and type_name not in RECORDS:
            problem = made_anew(request, each, body, taken=terms.take_ownership)
            seen.made_anew.setdefault(address, {})[each.title] = problem
        if not anew or terms.take_ownership:
            shown.append((each, body))
    others = told_of_others(type_name, shown, terms.manager)
    if others:
        seen.of_others[address] = others
    return shown


def _read_approval(standing: _Standing, request: ReadRequest) -> ReadAnswer:
    path = objects_of(request.key.type, request.known)[0].path
    body = standing.hub.get(path)
    granted = body is not None and is_approved(body)
    if request.planned is not None and not granted:
        return ReadAnswer(None, observed=True)
    return ReadAnswer(request.known, observed=True)


def _absent(hub: Hub, request: ReadRequest) -> ReadAnswer:
    """What is not on the hub: a record stays one, and what still goes is not gone."""
    if request.key.type in RECORDS and request.planned is None and not is_going(request):
        return ReadAnswer(request.known, observed=True)
    if is_going(request) and request.key.type in PLACEMENTS:
        kind, namespace, name = named(request.key.type, request.known)
        left = what_is_left(hub, kind, namespace, name)
        if left:
            note = noted(request, f"{kind} {name}", first_of(left, _MOST_NAMED))
            return ReadAnswer(request.known, observed=True, settled=False, note=note)
    if is_going(request) and request.key.type in OVERRIDES:
        words = OverrideLook(hub, request.key.type, request.known, gone=True).look()[1]
        if words:
            note = noted(request, KIND_OF[request.key.type], words)
            return ReadAnswer(request.known, observed=True, settled=False, note=note)
    return ReadAnswer(None, observed=True)


def find(hub: Hub, terms: Terms, resource_type: str, object_id: str) -> tuple[ObjectKey, Values] | None:
    """What an import takes over. Raises ProviderProblem, Refused and HubProblem."""
    kind = KIND_OF.get(resource_type)
    if kind is None:
        raise ProviderProblem(f"A {resource_type} cannot be taken over from a hub one by one.")
    namespace, _, name = object_id.rpartition("/")
    body = hub.get(KINDS[kind].path(name, namespace))
    if body is None:
        return None
    refuse_managed(terms, body, "import")
    is_member = resource_type == MEMBERS
    arguments = _adopted_member(body) if is_member else adopted_arguments(resource_type, body)
    attributes: dict[str, Any] = {"id": object_id, "name": name, **arguments}
    if namespace:
        attributes["namespace"] = namespace
    if resource_type in PLACEMENTS:
        shown = shown_placement(hub, kind, namespace, name)
        attributes |= _adopted_placement(shown, object_id, hub.list(_EVICTIONS)) if shown is not None else {}
    return ObjectKey(resource_type, object_id, 0), attributes


class _Standing:
    """What stands on a hub, asked for once: many of one kind by a list, few one by one."""

    def __init__(self, hub: Hub, requests: Sequence[ReadRequest]) -> None:
        self.hub = hub
        self._bodies: dict[str, dict[str, Any] | None] = {}
        self._evictions: list[dict[str, Any]] | None = None
        self._listed: set[str] = set()  # the kinds that were asked for by a list
        self._made: dict[str, dict[tuple[str, str], list[dict[str, Any]]]] = {}
        self._list_many(requests)

    def _list_many(self, requests: Sequence[ReadRequest]) -> None:
        asked: dict[str, list[ReadRequest]] = {}
        for request in requests:
            if request.key.type not in APPROVALS and request.key.type in KIND_OF:
                asked.setdefault(request.key.type, []).append(request)
        manifests = [each for each in requests if each.key.type == MANIFESTS]
        objects = (each for r in manifests for each in objects_of(MANIFESTS, r.known))
        self._bodies.update(standing_of_many(self.hub, objects))
        for type_name, of_type in asked.items():
            if len(of_type) < MANY:
                continue
            self._listed.add(KIND_OF[type_name])
            kind = KINDS[KIND_OF[type_name]]
            self._bodies.update({each.path: None for r in of_type for each in objects_of(type_name, r.known)})
            for body in self.hub.list(kind.collection):
                metadata = body.get("metadata") or {}
                path = kind.path(str(metadata.get("name")), str(metadata.get("namespace") or ""))
                self._bodies[path] = body

    def evictions(self) -> list[dict[str, Any]]:
        """All evictions of placements."""
        if self._evictions is None:
            self._evictions = self.hub.list(_EVICTIONS)
        return self._evictions

    def placement(self, kind: str, namespace: str, name: str) -> Shown | None:
        """A placement with what the hub made for it, None where there is none."""
        if kind not in self._listed:
            return shown_placement(self.hub, kind, namespace, name)
        body = self._bodies.get(KINDS[kind].path(name, namespace))
        if body is None or not has_been_scheduled(body):
            return Shown(body, (), (), ()) if body is not None else None
        made = (self._made_of(each).get((namespace, name), []) for each in made_kinds(kind))
        bindings, policies, snapshots = made
        return Shown(body, bindings, policies, snapshots)

    def _made_of(self, kind: str) -> Mapping[tuple[str, str], list[dict[str, Any]]]:
        """What the hub made of a kind, by placement."""
        if kind not in self._made:
            self._made[kind] = made_by_placement(self.hub, kind)
        return self._made[kind]

    def get(self, each: Sent) -> dict[str, Any] | None:
        """An object, None where there is none."""
        path = path_on(self.hub, each)
        if not path:
            return None
        if path not in self._bodies:
            self._bodies[path] = self.hub.get(path)
        return self._bodies[path]


def _differences(each: Sent, shown: Values) -> Iterator[tuple[Any, ...]]:
    return (path for path in differing(each.body, shown) if path[:1] != ("apiVersion",))


def _observed(shown: Shown, attributes: Values, evictions: Sequence[Values]) -> dict[str, Any]:
    """What a hub shows of a placement beside its arguments; what it selects and its pods are foretold."""
    of_hub = standing_placement([*manifests_of(shown), *_manifests(evictions)], str(attributes.get("id")))
    seen = {name: value for name, value in of_hub.items() if name not in FORETOLD}
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
