"""Replay of a recorded story on a hub of the tests.

Requests of users are sent as recorded, and writes of the hub agent are repeated. The events of the
hub's watches are then compared with the recording.
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

from tests.domains.hub.hub_front import (
    PATH,
    PLURALS,
    Body,
    Front,
    get_api_version,
    get_collection_path,
    list_managed_fields,
)

APPLY = "application/apply-patch+yaml"
_OF_SERVER = (
    *(
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "ownerReferences",
    ),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
Key = tuple[str, str, str]


class ObservedEvent(Struct, frozen=True):
    """The comparable part of an object's event in a recording and in its replay.

    `steps` is the increase of its generation since the previous event, `owners` are the managers of
    parts of the spec.
    """

    event: str
    spec: Any = None
    conditions: tuple[tuple[Any, ...], ...] = ()
    finalizers: tuple[str, ...] = ()
    is_going: bool = False
    steps: int = 0
    owners: Mapping[str, set[str]] = {}

    def reduce_to_sparse(self) -> ObservedEvent:
        return replace(self, steps=0, owners={})


def get_object_key(body: Body) -> Key:
    return body["kind"], body["metadata"].get("namespace") or "", body["metadata"]["name"]


def add_transition_times(value: Any) -> Any:
    """Add transition times to conditions.

    A sparse recording lacks them, and an API server requires them.
    """
    if isinstance(value, list):
        return [add_transition_times(each) for each in value]
    if not isinstance(value, dict):
        return value
    times = (
        {"lastTransitionTime": "2026-11-21T03:00:00Z"}
        if {"type", "status", "reason"} <= value.keys()
        else {}
    )
    return {**times, **{name: add_transition_times(each) for name, each in value.items()}}


class StoryReplay:
    """Replays the events of a recording on a hub, and collects `answers`.

    These are the recorded and the actual ones.
    """

    def __init__(self, events: list[Body], hub: Front) -> None:
        self._events = events
        self._hub = hub
        self._waiting = [(n, each) for n, each in enumerate(events) if "request" in each]
        self.answers: list[tuple[str, int, int]] = []
        first: dict[Key, Body] = {}
        for event in events:
            if "object" in event:
                first.setdefault(get_object_key(event["object"]), event)
        objects = [each["object"] for each in events if "object" in each]
        self.generations: dict[Key, int] = {}
        self._keys = {each["metadata"].get("uid"): get_object_key(each) for each in objects}
        self.seeded = {
            key: each["object"] for key, each in first.items() if each["event"] != "ADDED"
        }
        # The change in the first event of these objects is not recorded, except for a deletion.
        self.unplayed = [each for each in first.values() if not _is_complete(each)]

    def seed(self) -> None:
        """Create the earlier objects: namespaces, and objects first reported as modified."""
        namespaces = {
            get_object_key(each["object"])[1] for each in self._events if "object" in each
        } - {""}
        asked = [each for each in self._events if "request" in each and each["status"] == 201]
        made = {each["request"]["path"].removeprefix("/api/v1/namespaces/") for each in asked}
        for name in sorted(namespaces - made):
            self._hub.put(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "setup"
            )
        for key, body in self.seeded.items():
            self._write({}, body)
            stands = self._hub.get(key[0], key[2], key[1])
            self.generations[key] = stands["metadata"]["generation"] if stands is not None else 1

    def play(self) -> None:
        for number, event in enumerate(self._events):
            if "request" in event:
                self._send_until(number)
            elif "object" in event and event not in self.unplayed:
                self._reproduce_event(event)

    def _send_until(self, number: int) -> None:
        while self._waiting and self._waiting[0][0] <= number:
            _, event = self._waiting.pop(0)
            request = event["request"]
            self._ensure_target_exists(request, event)
            # A sparse recording does not have the manager.
            query = dict(request.get("query") or {"fieldManager": "somebody"})
            kind = request.get("content_type") or APPLY
            words = urlencode({**query, "#type": "apply" if "apply" in kind else "merge"})
            body = self._translate_body(request.get("body"))
            content = json.dumps(body).encode() if body else b""
            target = f"{request['path']}?{words}"
            status, _ = self._hub.answer(request["method"], target, "admin-token", content)
            self.answers.append((f"{request['method']} {request['path']}", event["status"], status))

    def _ensure_target_exists(self, request: Body, event: Body) -> None:
        """Create the target of a patch if it is missing in the recording: it existed before."""
        match = PATH.fullmatch(request["path"])
        is_patch = request["method"] == "PATCH" and event["status"] == 200
        if is_patch and match is not None and match["name"]:
            kind = PLURALS[match["group"] or "", match["plural"]][0]
            if self._hub.get(kind, match["name"], match["namespace"] or "") is None:
                stood = _remove_server_fields(event["answer"])
                stood.pop("status", None)
                stood.pop("data", None)
                namespace = match["namespace"]
                if namespace:
                    named = {
                        "apiVersion": "v1",
                        "kind": "Namespace",
                        "metadata": {"name": namespace},
                    }
                    self._hub.put(named, "setup")
                self._hub.put({**stood, **_build_reference(stood)}, "setup")

    def _translate_body(self, body: Any) -> Any:
        """Return the body of a request with the uids of the objects on this hub."""
        uid = ((body or {}).get("preconditions") or {}).get("uid")
        key = self._keys.get(uid)
        now = self._hub.get(key[0], key[2], key[1]) if key else None
        return (
            {**body, "preconditions": {"uid": now["metadata"]["uid"]}} if now is not None else body
        )

    def _reproduce_event(self, event: Body) -> None:
        """Bring an object into the state of an event.

        The pending request does it, or the test as the hub agent.
        """
        body = event["object"]
        key = get_object_key(body)
        if self._is_requested(key, body, event["event"]):
            self._send_until(self._waiting[0][0])
        now = self._hub.get(key[0], key[2], key[1])
        if event["event"] == "DELETED":
            if now is not None:
                self._hub.hold(now)
                now = self._hub.get(key[0], key[2], key[1])
            if now is not None:
                self._hub.put(
                    {
                        **_build_reference(now),
                        "metadata": {**_build_reference(now)["metadata"], "finalizers": None},
                    }
                )
            return
        holding = set(body["metadata"].get("finalizers") or ())
        if (
            body["metadata"].get("deletionTimestamp")
            and now
            and holding - set(now["metadata"].get("finalizers") or ())
        ):
            # In a sparse recording, finalizers were added before the deletion.
            self._write(now, body)
            now = self._hub.get(key[0], key[2], key[1])
        if (
            body["metadata"].get("deletionTimestamp")
            and now
            and not now["metadata"].get("deletionTimestamp")
        ):
            self._hub.hold(now)
            now = self._hub.get(key[0], key[2], key[1])
        self._write(now or {}, body)

    def _is_requested(self, key: Key, body: Body, what: str) -> bool:
        """Return whether the next request causes an event of an object."""
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
        """Write the differences as the hub agent does: the object first, then its status."""
        names = _build_reference(then)
        before = _remove_server_fields(now)
        after = _remove_server_fields(then)
        changed = {
            k: v
            for k, v in _build_merge_patch(before, after).items()
            if k not in ("apiVersion", "kind")
        }
        status = changed.pop("status", None)
        metadata = {**changed.pop("metadata", {}), **names["metadata"]}
        if not now or changed or len(metadata) > len(names["metadata"]):
            self._hub.put({**names, **changed, "metadata": metadata})
        if status is not None:
            self._hub.put({**names, "status": status})


def _is_complete(event: Body) -> bool:
    is_going = "deletionTimestamp" in event["object"]["metadata"]
    return is_going or event["event"] in ("ADDED", "DELETED")


def _build_reference(body: Body) -> Body:
    kind, namespace, name = get_object_key(body)
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": get_api_version(kind), "kind": kind, "metadata": metadata}


def _remove_server_fields(body: Body) -> Body:
    rest = copy.deepcopy(body)
    for name in _OF_SERVER:
        rest.get("metadata", {}).pop(name, None)
    return rest


def _build_merge_patch(before: Body, after: Body) -> Body:
    """Return the merge patch from one object to the other."""
    patch: Body = {name: None for name in before if name not in after}
    for name, value in after.items():
        was = before.get(name)
        if isinstance(was, dict) and isinstance(value, dict):
            inner = _build_merge_patch(was, value)
            patch |= {name: inner} if inner else {}
        elif was != value:
            patch[name] = value
    return patch


# --- compared events ----------------------------------------------------------------------------


def list_recorded_events(story: StoryReplay, events: list[Body]) -> dict[Key, list[ObservedEvent]]:
    """Return the recorded events of each object in order.

    For a pre-existing object, these are the events after the first.
    """
    shown = [each for each in events if "object" in each]
    before = {
        key: body["metadata"]["generation"] - ("deletionTimestamp" in body["metadata"])
        for key, body in story.seeded.items()
    }
    every = [(each["event"], each["object"]) for each in shown if each not in story.unplayed]
    return _group_events(every, before, story.seeded.keys())


def list_observed_events(
    story: StoryReplay, hub: Front, since: Mapping[str, str], keys: set[Key]
) -> dict[Key, list[ObservedEvent]]:
    """Return the events in the watches of a hub by object, since a version of each kind."""
    bodies: dict[str, list[tuple[str, Body]]] = {kind: [] for kind in since}

    def follow_kind(kind: str) -> None:
        query = {"resourceVersion": since[kind], "timeoutSeconds": "1", "watch": "1"}
        for event in hub.events(get_collection_path(kind), query, "admin-token"):
            if event["type"] != "BOOKMARK":
                bodies[kind].append((event["type"], event["object"]))

    following = [threading.Thread(target=follow_kind, args=(kind,)) for kind in since]
    for each in following:
        each.start()
    for each in following:
        each.join()
    every = [
        (what, body)
        for listed in bodies.values()
        for what, body in listed
        if get_object_key(body) in keys
    ]
    return _group_events(every, story.generations, story.seeded.keys())


def read_versions(hub: Front, kinds: set[str]) -> dict[str, str]:
    """Return the current version of a hub by kind."""
    found = {}
    for kind in sorted(kinds):
        _, answer = hub.answer("GET", f"{get_collection_path(kind)}?limit=1", "admin-token", b"")
        found[kind] = answer["metadata"]["resourceVersion"]
    return found


def _group_events(
    shown: list[tuple[str, Body]], before: Mapping[Key, int], without_owners: Collection[Key]
) -> dict[Key, list[ObservedEvent]]:
    """Return the events of each object, without events irrelevant for the comparison."""
    generations = dict(before)
    seen: dict[Key, list[ObservedEvent]] = {}
    for what, body in shown:
        key = get_object_key(body)
        metadata = body["metadata"]
        steps = metadata["generation"] - generations.get(key, metadata["generation"])
        steps = 0 if what == "ADDED" else steps
        generations[key] = metadata["generation"]
        has_owners = key[0] == "ClusterResourcePlacement" and key not in without_owners
        one = ObservedEvent(what)
        if what != "DELETED":
            one = ObservedEvent(
                what,
                body.get("spec"),
                tuple(_list_conditions(body)),
                tuple(sorted(metadata.get("finalizers") or ())),
                "deletionTimestamp" in metadata,
                steps,
                _list_owners(body) if has_owners else {},
            )
        earlier = seen.setdefault(key, [])
        if (
            not earlier
            or one.steps
            or replace(one, event="", steps=0) != replace(earlier[-1], event="", steps=0)
        ):
            earlier.append(one)
    return seen


def find_missing_events(
    came: list[ObservedEvent], seen: list[ObservedEvent]
) -> list[ObservedEvent]:
    """Return the events of a sparse recording missing from the replay in their order.

    Such a recording has only the last of several changes: object and status may have changed
    together, and generations may grow by more. It has no owners.
    """
    rest = iter(each.reduce_to_sparse() for each in came)
    return [each for each in seen if each.reduce_to_sparse() not in rest]


def _list_conditions(body: Body) -> Iterator[tuple[Any, ...]]:
    for each in (body.get("status") or {}).get("conditions") or ():
        yield each["type"], each["status"], each["reason"], each.get("observedGeneration")


def _list_owners(body: Body) -> dict[str, set[str]]:
    managers = {each["manager"] for each in body["metadata"].get("managedFields") or ()}
    of_spec = {
        who: {p for p in list_managed_fields(body, who) if p.startswith(".spec.")}
        for who in managers
    }
    return {who: paths for who, paths in of_spec.items() if paths}
