"""A recorded story played again on a hub of the tests: people's requests are sent as they were sent, and what
the hub agent wrote is written in its place. What the hub's watches tell then is held against the recording.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from tests.domains.hub.hub_front import PATH, PLURALS, Body, Front, fields_of, path_of_kind, version_of_kind

APPLY = "application/apply-patch+yaml"
_OF_SERVER = (
    *("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
Key = tuple[str, str, str]


class Seen(Struct, frozen=True):
    """One event of an object, as far as a recording and a hub that plays it may be compared. `steps`: by how
    many its generation is higher than at the event before. `owners`: who owns which part of the spec.
    """

    event: str
    spec: Any = None
    conditions: tuple[tuple[Any, ...], ...] = ()
    finalizers: tuple[str, ...] = ()
    is_going: bool = False
    steps: int = 0
    owners: Mapping[str, set[str]] = {}

    def as_thinned(self) -> Seen:
        return replace(self, steps=0, owners={})


def key_of(body: Body) -> Key:
    return body["kind"], body["metadata"].get("namespace") or "", body["metadata"]["name"]


def with_times(value: Any) -> Any:
    """What a thinned recording lacks of conditions, and an API server asks for: when they came about."""
    if isinstance(value, list):
        return [with_times(each) for each in value]
    if not isinstance(value, dict):
        return value
    times = {"lastTransitionTime": "2026-11-21T03:00:00Z"} if {"type", "status", "reason"} <= value.keys() else {}
    return {**times, **{name: with_times(each) for name, each in value.items()}}


class Story:
    """Plays the events of a recording on a hub, whose `answers` it notes: what was recorded and what came."""

    def __init__(self, events: list[Body], hub: Front) -> None:
        self._events, self._hub = events, hub
        self._waiting = [(n, each) for n, each in enumerate(events) if "request" in each]
        self.answers: list[tuple[str, int, int]] = []
        first: dict[Key, Body] = {}
        for event in events:
            if "object" in event:
                first.setdefault(key_of(event["object"]), event)
        objects = [each["object"] for each in events if "object" in each]
        self.generations: dict[Key, int] = {}
        self._keys = {each["metadata"].get("uid"): key_of(each) for each in objects}
        self.seeded = {key: each["object"] for key, each in first.items() if each["event"] != "ADDED"}
        # What changed at the first event of those is not recorded, but for a deletion.
        self.unplayed = [each for each in first.values() if not _tells_what_it_is(each)]

    def seed(self) -> None:
        """What stood before: namespaces, and objects whose first event says that they changed."""
        namespaces = {key_of(each["object"])[1] for each in self._events if "object" in each} - {""}
        asked = [each for each in self._events if "request" in each and each["status"] == 201]
        made = {each["request"]["path"].removeprefix("/api/v1/namespaces/") for each in asked}
        for name in sorted(namespaces - made):
            self._hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "setup")
        for key, body in self.seeded.items():
            self._write({}, body)
            stands = self._hub.get(key[0], key[2], key[1])
            self.generations[key] = stands["metadata"]["generation"] if stands is not None else 1

    def play(self) -> None:
        for number, event in enumerate(self._events):
            if "request" in event:
                self._send_until(number)
            elif "object" in event and event not in self.unplayed:
                self._bring_about(event)

    def _send_until(self, number: int) -> None:
        while self._waiting and self._waiting[0][0] <= number:
            _, event = self._waiting.pop(0)
            request = event["request"]
            self._let_stand(request, event)
            query = dict(request.get("query") or {"fieldManager": "somebody"})  # thinned: who is not said
            kind = request.get("content_type") or APPLY
            words = urlencode({**query, "#type": "apply" if "apply" in kind else "merge"})
            body = self._meant(request.get("body"))
            content = json.dumps(body).encode() if body else b""
            target = f"{request['path']}?{words}"
            status, _ = self._hub.answer(request["method"], target, "admin-token", content)
            self.answers.append((f"{request['method']} {request['path']}", event["status"], status))

    def _let_stand(self, request: Body, event: Body) -> None:
        """What a recording does not show that a request changed: it stood there before."""
        match = PATH.fullmatch(request["path"])
        is_patch = request["method"] == "PATCH" and event["status"] == 200
        if is_patch and match is not None and match["name"]:
            kind = PLURALS[match["group"] or "", match["plural"]][0]
            if self._hub.get(kind, match["name"], match["namespace"] or "") is None:
                stood = _without_servers(event["answer"])
                stood.pop("status", None)
                stood.pop("data", None)
                namespace = match["namespace"]
                if namespace:
                    named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                    self._hub.put(named, "setup")
                self._hub.put({**stood, **_names(stood)}, "setup")

    def _meant(self, body: Any) -> Any:
        """What a request says, with the uids that objects have here."""
        uid = ((body or {}).get("preconditions") or {}).get("uid")
        key = self._keys.get(uid)
        now = self._hub.get(key[0], key[2], key[1]) if key else None
        return {**body, "preconditions": {"uid": now["metadata"]["uid"]}} if now is not None else body

    def _bring_about(self, event: Body) -> None:
        """Let an object be as an event shows it: by the request that was under way, or as the hub agent."""
        body = event["object"]
        key = key_of(body)
        if self._is_asked_for(key, body, event["event"]):
            self._send_until(self._waiting[0][0])
        now = self._hub.get(key[0], key[2], key[1])
        if event["event"] == "DELETED":
            if now is not None:
                self._hub.hold(now)
                now = self._hub.get(key[0], key[2], key[1])
            if now is not None:
                self._hub.put({**_names(now), "metadata": {**_names(now)["metadata"], "finalizers": None}})
            return
        holding = set(body["metadata"].get("finalizers") or ())
        if body["metadata"].get("deletionTimestamp") and now and holding - set(now["metadata"].get("finalizers") or ()):
            self._write(now, body)  # of a thinned recording: what holds an object came before its deletion
            now = self._hub.get(key[0], key[2], key[1])
        if body["metadata"].get("deletionTimestamp") and now and not now["metadata"].get("deletionTimestamp"):
            self._hub.hold(now)
            now = self._hub.get(key[0], key[2], key[1])
        self._write(now or {}, body)

    def _is_asked_for(self, key: Key, body: Body, what: str) -> bool:
        """Whether the next request brings about what an event of an object shows."""
        if not self._waiting:
            return False
        request = self._waiting[0][1]["request"]
        match = PATH.fullmatch(request["path"])
        if request["method"] == "GET" or match is None:
            return False
        kind = PLURALS.get((match["group"] or "", match["plural"]), ("", False))[0]
        if (kind, match["namespace"] or "", match["name"] or "") != key:
            return False
        now = self._hub.get(key[0], key[2], key[1])
        if match["sub"]:
            return now is not None and now.get("status") != body.get("status")
        if request["method"] == "DELETE":
            return what == "DELETED" or "deletionTimestamp" in body["metadata"]
        return now is None or now.get("spec") != body.get("spec")

    def _write(self, now: Body, then: Body) -> None:
        """Write what differs, as the hub agent does: the object first, then its status."""
        names = _names(then)
        before, after = _without_servers(now), _without_servers(then)
        changed = {k: v for k, v in _difference(before, after).items() if k not in ("apiVersion", "kind")}
        status = changed.pop("status", None)
        metadata = {**changed.pop("metadata", {}), **names["metadata"]}
        if not now or changed or len(metadata) > len(names["metadata"]):
            self._hub.put({**names, **changed, "metadata": metadata})
        if status is not None:
            self._hub.put({**names, "status": status})


def _tells_what_it_is(event: Body) -> bool:
    is_going = "deletionTimestamp" in event["object"]["metadata"]
    return is_going or event["event"] in ("ADDED", "DELETED")


def _names(body: Body) -> Body:
    kind, namespace, name = key_of(body)
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version_of_kind(kind), "kind": kind, "metadata": metadata}


def _without_servers(body: Body) -> Body:
    rest = copy.deepcopy(body)
    for name in _OF_SERVER:
        rest.get("metadata", {}).pop(name, None)
    return rest


def _difference(before: Body, after: Body) -> Body:
    """The merge patch from one to the other."""
    patch: Body = {name: None for name in before if name not in after}
    for name, value in after.items():
        was = before.get(name)
        if isinstance(was, dict) and isinstance(value, dict):
            inner = _difference(was, value)
            patch |= {name: inner} if inner else {}
        elif was != value:
            patch[name] = value
    return patch


# --- what is compared ----------------------------------------------------------------------------


def recorded(story: Story, events: list[Body]) -> dict[Key, list[Seen]]:
    """What a recording shows of each object, in order; of one that stood before, after its first event."""
    shown = [each for each in events if "object" in each]
    before = {
        key: body["metadata"]["generation"] - ("deletionTimestamp" in body["metadata"])
        for key, body in story.seeded.items()
    }
    every = [(each["event"], each["object"]) for each in shown if each not in story.unplayed]
    return _seen(every, before, story.seeded.keys())


def told(story: Story, hub: Front, since: Mapping[str, str], keys: set[Key]) -> dict[Key, list[Seen]]:
    """What the watches of a hub tell of objects since a version of each kind."""
    bodies: dict[str, list[tuple[str, Body]]] = {kind: [] for kind in since}

    def follow(kind: str) -> None:
        query = {"resourceVersion": since[kind], "timeoutSeconds": "1", "watch": "1"}
        for event in hub.events(path_of_kind(kind), query, "admin-token"):
            if event["type"] != "BOOKMARK":
                bodies[kind].append((event["type"], event["object"]))

    following = [threading.Thread(target=follow, args=(kind,)) for kind in since]
    for each in following:
        each.start()
    for each in following:
        each.join()
    every = [(what, body) for listed in bodies.values() for what, body in listed if key_of(body) in keys]
    return _seen(every, story.generations, story.seeded.keys())


def versions(hub: Front, kinds: set[str]) -> dict[str, str]:
    """At which version a hub is, by kind."""
    found = {}
    for kind in sorted(kinds):
        _, answer = hub.answer("GET", f"{path_of_kind(kind)}?limit=1", "admin-token", b"")
        found[kind] = answer["metadata"]["resourceVersion"]
    return found


def _seen(
    shown: list[tuple[str, Body]], before: Mapping[Key, int], without_owners: Collection[Key]
) -> dict[Key, list[Seen]]:
    """What events tell of each object, but for what changes nothing that is compared."""
    generations = dict(before)
    seen: dict[Key, list[Seen]] = {}
    for what, body in shown:
        key, metadata = key_of(body), body["metadata"]
        steps = metadata["generation"] - generations.get(key, metadata["generation"])
        steps = 0 if what == "ADDED" else steps
        generations[key] = metadata["generation"]
        one = Seen(what) if what == "DELETED" else Seen(
            what,
            body.get("spec"),
            tuple(_conditions(body)),
            tuple(sorted(metadata.get("finalizers") or ())),
            "deletionTimestamp" in metadata,
            steps,
            _owners(body) if key[0] == "ClusterResourcePlacement" and key not in without_owners else {},
        )  # fmt: skip
        earlier = seen.setdefault(key, [])
        if not earlier or one.steps or replace(one, event="", steps=0) != replace(earlier[-1], event="", steps=0):
            earlier.append(one)
    return seen


def missed(came: list[Seen], seen: list[Seen]) -> list[Seen]:
    """What of a thinned recording did not come about in its order. It has the last of several changes alone:
    object and status may have changed together, and generations may grow by more. It names no owners.
    """
    rest = iter(each.as_thinned() for each in came)
    return [each for each in seen if each.as_thinned() not in rest]


def _conditions(body: Body) -> Iterator[tuple[Any, ...]]:
    for each in (body.get("status") or {}).get("conditions") or ():
        yield each["type"], each["status"], each["reason"], each.get("observedGeneration")


def _owners(body: Body) -> dict[str, set[str]]:
    managers = {each["manager"] for each in body["metadata"].get("managedFields") or ()}
    of_spec = {who: {p for p in fields_of(body, who) if p.startswith(".spec.")} for who in managers}
    return {who: paths for who, paths in of_spec.items() if paths}
