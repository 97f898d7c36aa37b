"""Cache of a hub's collections, updated by a list and a watch.

An apply of many objects would read each before writing and poll it afterwards. From the fifth
object of a collection, one list and one watch replace these reads. If a collection cannot be
watched, or its watch fails, objects are read one by one: a cache responds only while its
watch is active.
"""

from collections import Counter
from collections.abc import Mapping
from threading import Lock, Thread
from typing import Any, Final

from nexusform.documents.scalars import parse_integer
from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_client import ClientClock, HubClient
from nexusform.domains.hub.api.hub_kinds import split_path
from nexusform.files.run_log import log_event

# Number of objects from which a collection is listed.
CACHE_THRESHOLD: Final = 5
# Consecutive failures that end the watch.
_MAX_FAILURES: Final = 5
# Seconds before a failed watch restarts.
_RETRY_SECONDS: Final = 1.0
# The label that names the placement.
PARENT_LABEL: Final = "kubernetes-fleet.io/parent-CRP"
# Namespace and name.
ObjectName = tuple[str, str]
_FLEET_GROUP_SUFFIX: Final = ".kubernetes-fleet.io/"


class CollectionCache:
    """Cache of one collection; safe for use by several threads."""

    def __init__(self, hub: HubClient, collection: str, timing: ClientClock) -> None:
        """Start the watch of the collection in a daemon thread.

        The cache is empty until it receives objects.
        """
        self._hub = hub
        self._collection = collection
        self._timing = timing
        self._lock = Lock()
        self._bodies: dict[ObjectName, dict[str, Any]] = {}
        # Of changes received, for callers waiting for one.
        self._change_counts: Counter[ObjectName] = Counter()
        # Bodies by placement and name.
        self._by_placement: dict[ObjectName, dict[ObjectName, dict[str, Any]]] = {}
        # Latest version received.
        self._version = 0
        # True while the watch runs.
        self.is_active = False
        Thread(target=self._run_watch, daemon=True, name=f"watch {collection}").start()

    def get(self, name: ObjectName) -> dict[str, Any] | None:
        """Return an object as last received, None if it does not exist."""
        with self._lock:
            return self._bodies.get(name)

    def count_changes(self, name: ObjectName) -> int:
        """Return the number of changes received for an object."""
        return self._change_counts[name]

    def list_placement_objects(
        self, placement: ObjectName, since: str
    ) -> list[dict[str, Any]] | None:
        """Return the hub's own objects for a placement.

        The result is None until the cache has reached the version `since`.
        """
        with self._lock:
            version = parse_integer(since)
            if version is None or self._version < version:
                return None
            return list(self._by_placement.get(placement, {}).values())

    def _run_watch(self) -> None:
        """List the collection, then watch it.

        Restart after a failure, until several follow in a row or a permission is missing. While
        `is_active` is False, callers read from the hub.
        """
        failures = 0
        while failures < _MAX_FAILURES and not self._hub.is_closed:
            try:
                version = self._load_collection()
                while not self._hub.is_closed:
                    version = self._process_events(version)
                    failures = 0
                    # Servers end watches occasionally, some immediately.
                    self._timing.sleep(_RETRY_SECONDS)
            except Exception as problem:  # noqa: BLE001
                # Whatever the hub sent: better not to follow than to be stale.
                self.is_active = False
                failures += 1
                log_event("debug", "watch ended", collection=self._collection, why=str(problem))
                if isinstance(problem, ApiError) and problem.kind is ApiErrorKind.PERMISSION:
                    # A restart would fail, too.
                    return
                self._timing.sleep(_RETRY_SECONDS)

    def _load_collection(self) -> str:
        """Replace the cached objects by a list of the collection; return its version."""
        object_list = self._hub.list_at_version(self._collection)
        with self._lock:
            old_bodies = self._bodies
            self._bodies = {}
            self._by_placement = {}
            for body in object_list.items:
                self._cache_object(body)
            self._update_resource_version(object_list.version)
            # Anything may have changed since the last watch.
            for name in {*old_bodies, *self._bodies}:
                self._change_counts[name] += 1
        return object_list.version

    def _process_events(self, version: str) -> str:
        """Process events until the server ends the watch; return the version to continue from."""
        events = self._hub.watch(self._collection, version)
        self.is_active = True
        for kind, body in events:
            name = get_namespaced_name(body)
            version = str((body.get("metadata") or {}).get("resourceVersion") or version)
            with self._lock:
                self._update_resource_version(version)
                # No object changed: the hub only reports its newest version.
                if kind == "BOOKMARK":
                    continue
                if kind == "DELETED":
                    self._bodies.pop(name, None)
                    self._by_placement.get(get_parent_placement(body), {}).pop(name, None)
                else:
                    # ADDED or MODIFIED.
                    self._cache_object(body)
                self._change_counts[name] += 1
        return version

    def _cache_object(self, body: dict[str, Any]) -> None:
        """Store a received object by its name, and by its placement.

        The caller holds the lock.
        """
        name = get_namespaced_name(body)
        self._bodies[name] = body
        self._by_placement.setdefault(get_parent_placement(body), {})[name] = body

    def _update_resource_version(self, version: str) -> None:
        self._version = max(self._version, parse_integer(version) or 0)


class HubCache:
    """Caches of a hub, each started after enough requests for its collection."""

    def __init__(self, hub: HubClient, timing: ClientClock) -> None:
        """Start without caches; many requested names in a collection start its cache."""
        self._hub = hub
        self._timing = timing
        # By collection; many requested names start its cache.
        self._requested: dict[str, set[ObjectName]] = {}
        self._caches: dict[str, CollectionCache] = {}  # by collection
        self._lock = Lock()

    def find_cache(self, path: str) -> tuple[CollectionCache | None, ObjectName]:
        """Return the active cache for the object at a path, and the name of the object.

        The cache is None without an active one. A cache of a fleet kind has all namespaces. Another
        cache has one namespace, to limit its size.
        """
        everywhere, namespace, object_name = split_path(path)
        is_fleet_kind = _FLEET_GROUP_SUFFIX in everywhere
        collection = everywhere if is_fleet_kind else path.rpartition("/")[0]
        name = (namespace, object_name)
        return self.find_collection_cache(collection, name), name

    def find_collection_cache(self, collection: str, name: ObjectName) -> CollectionCache | None:
        """Return the active cache of a collection, if any.

        Start it after enough requested names (`name` is one). The caller reads from the hub while
        the result is None.
        """
        with self._lock:
            requested = self._requested.setdefault(collection, set())
            # Later names are not needed.
            if len(requested) < CACHE_THRESHOLD:
                requested.add(name)
            if len(requested) == CACHE_THRESHOLD and collection not in self._caches:
                self._caches[collection] = CollectionCache(self._hub, collection, self._timing)
            cache = self._caches.get(collection)
        return cache if cache is not None and cache.is_active else None

    def get(self, path: str) -> dict[str, Any] | None:
        """Return an object, None if it does not exist.

        Raises ApiError and HubProblem.
        """
        cache, name = self.find_cache(path)
        return cache.get(name) if cache is not None else self._hub.get(path)

    def count_changes(self, path: str) -> int | None:
        """Return the number of changes received for the object; None without an active cache."""
        cache, name = self.find_cache(path)
        return cache.count_changes(name) if cache is not None else None


def get_namespaced_name(body: Mapping[str, Any]) -> ObjectName:
    """Return namespace and name of an object.

    Raises AttributeError for metadata that are no object.
    """
    metadata = body.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name"))


def get_parent_placement(body: Mapping[str, Any]) -> ObjectName:
    """Return namespace and name of the placement of an object created by the hub.

    Raises AttributeError for metadata or labels that are no objects: a malformed answer ends the
    watch of a cache.
    """
    metadata = body.get("metadata") or {}
    labels = metadata.get("labels") or {}
    return str(metadata.get("namespace") or ""), str(labels.get(PARENT_LABEL))
