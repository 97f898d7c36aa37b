"""What stands on a hub, kept by a list and a watch of each collection of which many objects are asked for.

An apply that writes a thousand objects would ask for each before it writes it, and then look again and again
whether the hub is done with it. From the fifth object of a collection on, one list tells what stands and one
watch what becomes of it. Where a hub does not let a collection be watched, or the watch broke, each object is
asked for by itself as before: a mirror answers only while it follows.
"""

from __future__ import annotations

from threading import Lock, Thread
from typing import Any, Final

from nexusform.domains.hub.api.hub import Hub, Pace
from nexusform.domains.hub.api.hub_words import Refusal, Refused
from nexusform.log import log

MANY: Final = 5  # from which on objects of one collection are listed instead of asked for one by one
_MOST_FAILURES: Final = 5  # in a row, after which a collection is not watched any more
_PAUSE: Final = 1.0  # seconds before a watch that broke is begun again
PARENT: Final = "kubernetes-fleet.io/parent-CRP"  # the label that names the placement
Name = tuple[str, str]  # namespace and name


class Mirror:
    """One collection. Calls may come from several threads at once."""

    def __init__(self, hub: Hub, collection: str, pace: Pace) -> None:
        self._hub = hub
        self._collection = collection
        self._pace = pace
        self._lock = Lock()
        self._bodies: dict[Name, dict[str, Any]] = {}
        self._changes: dict[Name, int] = {}
        self._made: dict[Name, dict[Name, dict[str, Any]]] = {}  # by the placement that each was made for
        self._version = 0  # how far it is
        self.follows = False
        Thread(target=self._follow, daemon=True, name=f"watch {collection}").start()

    def get(self, name: Name) -> dict[str, Any] | None:
        """An object as it was seen last, None where there is none."""
        with self._lock:
            return self._bodies.get(name)

    def changes(self, name: Name) -> int:
        """A number that grows whenever an object is seen to change."""
        return self._changes.get(name, 0)

    def made_for(self, placement: Name, since: str) -> list[dict[str, Any]] | None:
        """What the hub made for a placement; None while it is not known to be as new as the version `since`
        (an object tells its own; versions of one hub are in order).
        """
        with self._lock:
            if not since.isdecimal() or self._version < int(since):
                return None
            return list(self._made.get(placement, {}).values())

    def _follow(self) -> None:
        """List, and watch from there on; begin again where that ends."""
        failures = 0
        while failures < _MOST_FAILURES and not self._hub.closed:
            try:
                version = self._list()
                while not self._hub.closed:
                    version = self._watch(version)
                    failures = 0
                    self._pace.sleep(_PAUSE)  # servers end watches now and then; some end each at once
            except Exception as problem:  # noqa: BLE001 - whatever the hub sent: better not to follow than to be stale
                self.follows = False
                failures += 1
                log("debug", "watch ended", collection=self._collection, why=str(problem))
                if isinstance(problem, Refused) and problem.kind is Refusal.RIGHTS:
                    return
                self._pace.sleep(_PAUSE)

    def _list(self) -> str:
        listed = self._hub.listed(self._collection)
        with self._lock:
            before = self._bodies
            self._bodies, self._made = {}, {}
            for body in listed.items:
                self._put(body)
            self._note_version(listed.version)
            for name in {*before, *self._bodies}:
                self._changes[name] = self._changes.get(name, 0) + 1
        return listed.version

    def _watch(self, version: str) -> str:
        """Take in what happens until the server ends the watch; the version to go on from."""
        events = self._hub.watch(self._collection, version)
        self.follows = True
        for kind, body in events:
            name = _name_of(body)
            version = str((body.get("metadata") or {}).get("resourceVersion") or version)
            with self._lock:
                if kind == "DELETED":
                    self._bodies.pop(name, None)
                    self._made.get(_placement_of(body), {}).pop(name, None)
                elif kind != "BOOKMARK":
                    self._put(body)
                self._changes[name] = self._changes.get(name, 0) + 1
                self._note_version(version)
        return version

    def _put(self, body: dict[str, Any]) -> None:
        name = _name_of(body)
        self._bodies[name] = body
        self._made.setdefault(_placement_of(body), {})[name] = body

    def _note_version(self, version: str) -> None:
        if version.isdecimal():
            self._version = max(self._version, int(version))


class Mirrors:
    """The mirrors of a hub, each made when so many objects of its collection were asked for."""

    def __init__(self, hub: Hub, pace: Pace) -> None:
        self._hub = hub
        self._pace = pace
        self._asked: dict[str, set[Name]] = {}
        self._mirrors: dict[str, Mirror] = {}
        self._lock = Lock()

    def of(self, path: str) -> tuple[Mirror | None, Name]:
        """The mirror that holds the object at a path, where one follows its collection."""
        collection, name = _collection_of(path)
        return self.among(collection, name), name

    def among(self, collection: str, name: Name) -> Mirror | None:
        """The mirror of a collection, where one follows it; `name` is what is asked for."""
        with self._lock:
            asked = self._asked.setdefault(collection, set())
            if len(asked) < MANY:
                asked.add(name)
            if len(asked) == MANY and collection not in self._mirrors:
                self._mirrors[collection] = Mirror(self._hub, collection, self._pace)
            mirror = self._mirrors.get(collection)
        return mirror if mirror is not None and mirror.follows else None

    def get(self, path: str) -> dict[str, Any] | None:
        """An object as it stands, None where there is none. Raises Refused and HubProblem."""
        mirror, name = self.of(path)
        return mirror.get(name) if mirror is not None else self._hub.get(path)

    def changes(self, path: str) -> int | None:
        """A number that grows whenever the object is seen to change; None where nobody follows it."""
        mirror, name = self.of(path)
        return mirror.changes(name) if mirror is not None else None


def _name_of(body: dict[str, Any]) -> Name:
    metadata = body.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name"))


def _placement_of(body: dict[str, Any]) -> Name:
    metadata = body.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str((metadata.get("labels") or {}).get(PARENT))


def _collection_of(path: str) -> tuple[str, Name]:
    """Where all objects of a kind are listed, and the name of the one at a path. Kinds of the fleet are
    listed for all namespaces at once, as a plan does; others may hold more than anybody wants to read.
    """
    place, _, name = path.rpartition("/")
    head, _, within = place.partition("/namespaces/")
    namespace, _, plural = within.partition("/")
    if not plural:  # of no namespace, or a namespace itself
        return place, ("", name)
    return (f"{head}/{plural}" if _FLEET in head else place), (namespace, name)


_FLEET: Final = ".kubernetes-fleet.io/"
