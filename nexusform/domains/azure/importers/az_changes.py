"""What another tool is about to make, change and remove of a site's clusters, agent pools and VMs, laid over
the site as an export shows it.

A body in a plan has the properties of one that stands, so both are read by the same readers: bodies of
what stands are merged, new ones join them, and what goes leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity, did_you_mean
from nexusform.documents.shapes import mapping_at, mappings_at, text_at, value_at
from nexusform.domains.azure.importers.arm import SHAPE, Item, id_key, kind_of, name_of
from nexusform.domains.azure.importers.az_documents import AzItems
from nexusform.domains.azure.importers.az_model import AzPool
from nexusform.domains.azure.importers.az_workloads import read_pools
from nexusform.plain_data import Path
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.words import listed

CLUSTERS: Final = "kubernetes_clusters"
POOLS: Final = "agent_pools"
VMS: Final = "virtual_machines"
TYPE_OF_KIND: Final[Mapping[str, str]] = {
    CLUSTERS: "Microsoft.NetworkCloud/kubernetesClusters",
    POOLS: "Microsoft.NetworkCloud/kubernetesClusters/agentPools",
    VMS: "Microsoft.NetworkCloud/virtualMachines",
}
KIND_OF: Final[Mapping[str, str]] = {name.lower(): kind for kind, name in TYPE_OF_KIND.items()}
INITIAL_POOLS: Final = "initialAgentPoolConfigurations"

# What decides where VMs go, or whether they are made anew: it must be known. "*" is any entry of a list.
_POOL_FIELDS: Final = ("count", "vmSkuName", "availabilityZones")
_DECIDING: Final[Mapping[str, tuple[Path, ...]]] = {
    CLUSTERS: (
        *(("controlPlaneNodeConfiguration", name) for name in _POOL_FIELDS),
        *((INITIAL_POOLS, "*", name) for name in (*_POOL_FIELDS, "name")),
    ),
    POOLS: tuple((name,) for name in _POOL_FIELDS),
    VMS: (("cpuCores",), ("memorySizeGB",), ("storageProfile", "osDisk"), ("placementHints",)),
}
# What makes a pool or cluster that stands anew where it changes.
_DECIDING_FOR_STANDING: Final[Mapping[str, tuple[Path, ...]]] = {
    CLUSTERS: (("kubernetesVersion",),),
    POOLS: (("labels",), ("taints",), ("mode",)),
    VMS: (),
}
_NEEDED: Final[Mapping[str, tuple[Path, ...]]] = {
    CLUSTERS: (
        ("controlPlaneNodeConfiguration", "count"),
        ("controlPlaneNodeConfiguration", "vmSkuName"),
    ),
    POOLS: (("count",), ("vmSkuName",)),
    VMS: (("cpuCores",), ("memorySizeGB",)),
}


class AzAction(StrEnum):
    """What becomes of an object. `make` and `change` say whether it stands."""

    MAKE = "make"
    CHANGE = "change"
    REMOVE = "remove"
    REPLACE = "replace"
    KEEP = "keep"


class AzChange(Struct, frozen=True):
    """One object of another tool's plan.

    `names` are its own and, before it, its parent's. `id` is its ARM id, "" where only the names tell which
    one it is. `body` is what is asked for, without what is `unknown` (why, by the path in it, () = all of
    it). `place` is what the other tool calls it, `file` where that stands; `needs` are the places that it
    comes after.
    """

    kind: str
    names: tuple[str, ...]
    action: AzAction
    place: str
    file: str
    id: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[Path, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its names for people: `cluster/pool`."""
        return "/".join(self.names)


class NewPool(Struct, frozen=True):
    """An agent pool that comes as an object of its own; `cluster_id` is its cluster's ARM id."""

    cluster_id: str
    pool: AzPool
    place: str


class ChangedItems(Struct, frozen=True):
    """A site's resources after the changes.

    `pools` are the agent pools that come, `replaced` the ids (their keys) of clusters and VMs that are made
    anew, `places` what the other tool calls the objects that come, by id key, in the order of their
    creation. `touched` are the id keys of clusters, VMs and pools that come, and of those that stand and
    change, in the order of what is done; a pool that stands is its cluster's.
    """

    items: AzItems
    pools: tuple[NewPool, ...] = ()
    replaced: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict)
    touched: tuple[str, ...] = ()


def lay_over(items: AzItems, changes: Sequence[AzChange], findings: list[Problem]) -> ChangedItems:
    """The resources of an export as the changes, in the order of creation, leave them."""
    laid = _Laying(items, findings)
    for change in changes:
        laid.take(change)
    return laid.result()


def _by_id_key(items: Iterable[Item]) -> dict[str, Item]:
    return {id_key(str(item.value("id") or item.value("name"))): item for item in items}


class _Laying:
    """The bodies of a site while changes are laid over them, by kind and id key."""

    def __init__(self, items: AzItems, findings: list[Problem]) -> None:
        self.items = items
        self.findings = findings
        self.bodies = {kind: _by_id_key(items.of(kind)) for kind in TYPE_OF_KIND}
        self.locations = _locations(items)
        self.skus = CATALOGUES[NEWEST].vm_skus.keys() | set(_skus_in_use(self.bodies))
        self.pools: list[NewPool] = []
        self.replaced: set[str] = set()
        self.without: set[str] = set()  # clusters of which a pool goes
        self.places: dict[str, str] = {}
        self.touched: dict[str, None] = {}

    def result(self) -> ChangedItems:
        by_kind = {**self.items.by_kind, **{kind: list(held.values()) for kind, held in self.bodies.items()}}
        # A cluster that is made anew has the pools that it is made with, whatever was captured of it.
        standing = [self.bodies[CLUSTERS].get(owner) for owner in self.without - self.replaced]
        told = frozenset(str(item.value("name")).lower() for item in standing if item is not None)
        items = replace(self.items, by_kind=by_kind, pools_of=told)
        return ChangedItems(
            items=items,
            pools=tuple(self.pools),
            replaced=frozenset(self.replaced),
            places=self.places,
            touched=tuple(self.touched),
        )

    def take(self, change: AzChange) -> None:
        """Lay one change over what is there."""
        if change.action is AzAction.KEEP:
            return
        key = self._key(change)
        if key is None:
            return
        if change.action is AzAction.REPLACE and key.partition("/agentpools/")[0] in self.replaced:
            change = replace(change, action=AzAction.MAKE)  # the old pool went with its cluster
        stands = key in self.bodies[change.kind] or self._has_initial_pool(change, key)
        if not self._agrees(change, stands=stands):
            return
        # A pool comes to its cluster, so what changes of the cluster is done before.
        self.touched[key.partition("/agentpools/")[0]] = None
        self.touched[key] = None
        if change.action is AzAction.REMOVE:
            self._remove(change, key)
            return
        if not self._is_known(change, stands=stands and change.action is not AzAction.REPLACE):
            return
        if change.kind == POOLS:
            self._take_pool(change, key, stands=stands)
            return
        if change.action is AzAction.REPLACE:
            self._remove(change, key)
            self.replaced.add(key)
            stands = False
        self.bodies[change.kind][key] = self._changed(change, key) if stands else self._made(change, key)

    # --- which object is meant ---

    def _key(self, change: AzChange) -> str | None:
        """The id key of the object that is meant; None where that cannot be told, which is said."""
        if change.kind != POOLS:
            return self._key_of(change.kind, change.names[-1], change.id, change)
        cluster_id = change.id.rpartition("/")[0].rpartition("/")[0] if change.id else ""
        owner = self._key_of(CLUSTERS, change.names[0], cluster_id, change)
        if owner is None or owner in self.bodies[CLUSTERS]:
            return None if owner is None else f"{owner}/agentpools/{change.names[-1].lower()}"
        if change.action is not AzAction.REMOVE:  # a pool goes with its cluster
            detail = (
                f'the cluster "{change.names[0]}" of this pool is neither in the inventory nor made here.'
            )
            self._say(change, "cluster-of-pool-not-there", detail)
        return None

    def _key_of(self, kind: str, name: str, arm_id: str, change: AzChange) -> str | None:
        """The id key of the object that a change is about, a made-up one for a new object; None, and a
        finding, when several have its name.
        """
        if arm_id:
            return id_key(arm_id)
        end = f"/{TYPE_OF_KIND[kind].rpartition('/')[2].lower()}/{name.lower()}"
        keys = [key for key in self.bodies[kind] if key.endswith(end)]
        location = _location_of(change.body)
        if len(keys) > 1 and location:
            keys = [key for key in keys if _location_of_item(self.bodies[kind][key]) == location]
        if len(keys) > 1:
            detail = (
                f'the inventory holds {len(keys)} of the name "{name}", and nothing here tells which one.'
            )
            self._say(change, "object-not-told", detail)
            return None
        return keys[0] if keys else f"/new/providers/{TYPE_OF_KIND[kind]}/{name}".lower()

    def _agrees(self, change: AzChange, *, stands: bool) -> bool:
        """Whether the inventory can be gone on with: it has what is changed. Where it has what is made, or
        lacks what goes, that is said alone.
        """
        if change.action in (AzAction.CHANGE, AzAction.REPLACE) and not stands:
            detail = f'the inventory has no "{change.title}" to change. Capture it again, or name another.'
            self._say(change, "not-in-the-inventory", detail)
            return False
        if change.action is AzAction.REMOVE and not stands:
            detail = f'the inventory has no "{change.title}" to remove: it is as if it were gone already.'
            self._say(change, "not-in-the-inventory", detail, warns=True)
            return False
        if change.action is AzAction.MAKE and stands:
            detail = (
                f'"{change.title}" is to be made, and the inventory has it already: taken as a change of it.'
            )
            self._say(change, "stands-already", detail, warns=True)
        return True

    # --- what is known ---

    def _is_known(self, change: AzChange, *, stands: bool) -> bool:
        """Whether all that decides placement is known; what is not is named."""
        deciding = _DECIDING[change.kind] + (_DECIDING_FOR_STANDING[change.kind] if stands else ())
        known = True
        for path, why in change.unknown.items():
            at = path[1:] if path[:1] == ("properties",) else path
            if path in ((), ("properties",)) or any(_meet(at, one) for one in deciding):
                known = False
                self._say(
                    change, "not-known-in-the-plan", f"{why}, so nobody can tell where the VMs land.", path
                )
        properties = change.body.get("properties")
        if properties is not None and not isinstance(properties, Mapping):
            detail = f"an object is needed here, not {kind_of(properties)}."
            self._say(change, SHAPE, detail, ("properties",))
            return False
        if not known or not self._are_skus_known(change):
            return False
        if stands:
            return True
        missing = [path for path in _NEEDED[change.kind] if value_at(properties, *path) is None]
        for path in missing:
            self._say(change, "missing-field", f'"{path[-1]}" is missing.', ("properties", *path))
        return not missing

    def _are_skus_known(self, change: AzChange) -> bool:
        """Whether the catalogue or the site has the VM SKUs that are named; what nobody knows is said."""
        properties = mapping_at(change.body, "properties")
        unknown = [sku for sku in dict.fromkeys(_skus_of(properties)) if sku not in self.skus]
        for sku in unknown:
            near = did_you_mean(sku, self.skus)
            detail = f'neither the catalogue ({NEWEST}) nor the site has a VM SKU "{sku}".{near}'
            self._say(change, "unknown-vm-sku", detail)
        return not unknown

    # --- bodies ---

    def _made(self, change: AzChange, key: str) -> Item:
        body = {
            **change.body,
            "id": key,
            "name": change.names[-1],
            "type": TYPE_OF_KIND[change.kind],
            # Behind everything that stands, in the order in which they come.
            "systemData": {"createdAt": f"later-{len(self.places):06}"},
        }
        self._settle_location(change, body)
        self.places[key] = change.place
        return Item(change.file, (change.place,), body, self.findings)

    def _settle_location(self, change: AzChange, body: dict[str, Any]) -> None:
        """A new object stands at the one site that there is, or where its location says."""
        location = _location_of(body)
        if location in self.locations:
            return
        body.pop("extendedLocation", None)
        if len(self.locations) == 1 and not location:
            body["extendedLocation"] = {"name": next(iter(self.locations))}
        elif self.locations:
            names = [name_of(one) for one in self.locations]
            # Locations of one name in two subscriptions or groups are told apart by all of their ids.
            is_alike = bool(location) and name_of(location) in names
            called = location if is_alike else name_of(location)
            said = f'its extended location is "{called}"' if location else "it names none that is known"
            sites = listed(list(self.locations) if is_alike else names)
            detail = f"{said}, and the inventory is of {sites}."
            self._say(change, "extended-location-not-in-the-inventory", detail, ("extendedLocation", "name"))

    def _changed(self, change: AzChange, key: str) -> Item:
        """A body that stands with what is asked for over it; what is not said stays."""
        item = self.bodies[change.kind][key]
        asked = dict(mapping_at(change.body, "properties"))
        initial = asked.pop(INITIAL_POOLS, None)
        if isinstance(initial, list):
            self._compare_initial(change, key, initial)
        return item.over(change.file, (change.place,), asked)

    def _compare_initial(self, change: AzChange, key: str, initial: list[Any]) -> None:
        """Azure reads these only when it makes a cluster: of what stands they change nothing."""
        self._list_pools(key)
        for entry in mappings_at(initial):
            item = self.bodies[POOLS].get(f"{key}/agentpools/{str(entry.get('name')).lower()}")
            stands = item.whole("count") if item is not None else None
            if stands != entry.get("count"):
                stand = f"{stands} stand" if item is not None else "there is no such pool"
                detail = (
                    f'the pool "{entry.get("name")}" asks for {entry.get("count")} VMs here and {stand}: '
                    f"{INITIAL_POOLS} is read when a cluster is made, and changes nothing now. Give the "
                    f"pool a resource of type {TYPE_OF_KIND[POOLS]}."
                )
                self._say(change, "read-at-creation-only", detail, ("properties", INITIAL_POOLS), warns=True)

    # --- agent pools ---

    def _has_initial_pool(self, change: AzChange, key: str) -> bool:
        """Whether a pool stands that no list of agent pools names: one that its cluster was made with."""
        if change.kind != POOLS:
            return False
        owner = key.rpartition("/")[0].rpartition("/")[0]
        if owner in self.places:
            return False
        self._list_pools(owner)
        return key in self.bodies[POOLS]

    def _list_pools(self, owner: str) -> None:
        """Put the pools that a cluster was made with among the agent pools, where none of it are listed."""
        held = self.bodies[POOLS]
        cluster = self.bodies[CLUSTERS].get(owner)
        if cluster is None or any(key.startswith(f"{owner}/agentpools/") for key in held):
            return
        for entry in cluster.items(INITIAL_POOLS):
            name = entry.text("name")
            if name:
                key = f"{owner}/agentpools/{name.lower()}"
                held[key] = entry.over(entry.file, entry.path, {"id": f"{owner}/agentPools/{name}"})

    def _take_pool(self, change: AzChange, key: str, *, stands: bool) -> None:
        """Put a pool as it is asked for in place of the one that stands, or among the new ones."""
        if stands and change.action is not AzAction.REPLACE:
            self.bodies[POOLS][key] = self._changed(change, key)
            return
        if stands:
            self._remove(change, key)
        owner, name = key.rpartition("/agentpools/")[0], change.names[-1]
        body = {**change.body, "id": f"{owner}/agentPools/{name}", "name": name}
        item = Item(change.file, (change.place,), body, self.findings)
        for pool in read_pools([item]).get(owner, []):
            self.pools.append(NewPool(owner, pool, change.place))
            self.places[key] = change.place

    def _remove(self, change: AzChange, key: str) -> None:
        """Take an object away, and with a pool its nodes."""
        self._has_initial_pool(change, key)
        self.bodies[change.kind].pop(key, None)
        if change.kind == CLUSTERS:
            pools = self.bodies[POOLS]
            for pool in [one for one in pools if one.startswith(f"{key}/")]:
                del pools[pool]
        if change.kind != POOLS:
            return
        owner = key.rpartition("/agentpools/")[0]
        self.without.add(owner)
        cluster = self.bodies[CLUSTERS][owner]
        nodes = cluster.value("nodes")
        if isinstance(nodes, list):
            left = [node for node in nodes if not _is_of_pool(node, key)]
            self.bodies[CLUSTERS][owner] = cluster.over(cluster.file, cluster.path, {"nodes": left})

    def _say(self, change: AzChange, kind: str, detail: str, path: Path = (), *, warns: bool = False) -> None:
        severity = Severity.WARNING if warns else Severity.ERROR
        self.findings.append(Problem((change.place, *path), kind, detail, severity, file=change.file))


def _skus_of(body: Mapping[str, Any]) -> Iterator[str]:
    """The VM SKUs that the body of a cluster or a pool names."""
    listed_parts = chain.from_iterable(mappings_at(body, name) for name in (INITIAL_POOLS, "nodes"))
    for part in (body, body.get("controlPlaneNodeConfiguration"), *listed_parts):
        sku = value_at(part, "vmSkuName")
        if isinstance(sku, str):
            yield sku


def _skus_in_use(bodies: Mapping[str, Mapping[str, Item]]) -> Iterator[str]:
    """The VM SKUs of what stands."""
    names = ("vmSkuName", "controlPlaneNodeConfiguration", INITIAL_POOLS, "nodes")
    for kind in (CLUSTERS, POOLS):
        for item in bodies[kind].values():
            yield from _skus_of({name: item.value(name) for name in names})


def _meet(path: Path, deciding: Path) -> bool:
    """Whether one leads to the other, or into it."""
    return all(mine in {"*", other} or other == "*" for mine, other in zip(deciding, path, strict=False))


def _is_of_pool(node: Any, key: str) -> bool:
    return id_key(str(value_at(node, "agentPoolId") or "")) == key


def _location_of(body: Mapping[str, Any]) -> str:
    return id_key(text_at(body, "extendedLocation", "name"))


def _location_of_item(item: Item) -> str:
    return _location_of({"extendedLocation": item.value("extendedLocation")})


def _locations(items: AzItems) -> dict[str, None]:
    """The extended locations of machines and racks, and those that Nexus clusters give their tenants."""
    keys: dict[str, None] = {}
    for kind in ("racks", "bare_metal_machines"):
        keys |= dict.fromkeys(_location_of_item(item) for item in items.of(kind))
    for item in items.of("clusters"):
        keys[_location_of({"extendedLocation": item.value("clusterExtendedLocation")})] = None
    keys.pop("", None)
    return keys
