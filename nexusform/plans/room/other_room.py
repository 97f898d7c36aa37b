"""What a site has beside machines, against who needs it: addresses for nodes and pods, and storage.

A provider that looks at a site notes what there is with the site (`note_of_supplies`); a plan and questions
read it from there. What was not captured is not known, and never counts as enough. The platform keeps some
addresses for its own and does not say which: what is left is at most what stands here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from msgspec import Struct, convert, field, json
from msgspec.structs import replace

from nexusform.demands import ClaimDemand, PoolDemand, VmDemand
from nexusform.words import counted, first_of

# Under which key the note of a site holds its supplies.
SUPPLIES: Final = "supplies"
# Calico gives every node whole blocks of pod addresses, of this size where nobody says otherwise (/26).
POD_BLOCK: Final = 64
_MIB_OF_GIB: Final = 1024
_MIB: Final = 1024**2
_GIB: Final = 1024**3
_MOST_NAMES: Final = 3


class OtherKind(StrEnum):
    """What may run out beside vCPUs, memory and disk of machines."""

    NODE_ADDRESSES = "l3_network"
    POD_BLOCKS = "pod_cidr"
    BALANCER_ADDRESSES = "bgp_pool"
    STORAGE = "storage_appliance"
    VOLUMES = "volumes"
    CLAIMS = "claims"


UNITS: Final[Mapping[OtherKind, str]] = {
    OtherKind.NODE_ADDRESSES: "addresses",
    OtherKind.POD_BLOCKS: "blocks",
    OtherKind.BALANCER_ADDRESSES: "addresses",
    OtherKind.STORAGE: "GiB",
    OtherKind.VOLUMES: "GiB",
    OtherKind.CLAIMS: "GiB",
}


WORDS: Final[Mapping[OtherKind, str]] = {
    OtherKind.NODE_ADDRESSES: "addresses for nodes",
    OtherKind.POD_BLOCKS: "blocks of pod addresses",
    OtherKind.BALANCER_ADDRESSES: "addresses for load balancers",
    OtherKind.STORAGE: "storage",
    OtherKind.VOLUMES: "promised to volumes",
    OtherKind.CLAIMS: "storage for claims of pods",
}


class NetworkSupply(Struct, frozen=True, array_like=True):
    """An L3 network: its IPv4 addresses for hosts (None: no such prefix), and the VMs attached to it."""

    name: str
    addresses: int | None
    vms: int


class StorageSupply(Struct, frozen=True, array_like=True):
    """A storage appliance: GiB in all and used; None where nothing says it."""

    name: str
    capacity: int | None
    used: int | None


class ClusterNetworks(Struct, frozen=True, array_like=True):
    """A cluster: the network that its nodes have their addresses of, how many IPv4 addresses its pods have,
    its address pools for load balancers, and how many nodes were seen.
    """

    cluster: str
    network: str
    pod_addresses: int | None
    balancers: tuple[tuple[str, int], ...]
    nodes: int


class RuntimeUpgradeOffer(Struct, frozen=True, array_like=True):
    """A version that the platform offers a site's machines, and what it says of it ("" where nothing)."""

    version: str
    duration: str = ""
    workloads: str = ""
    words: str = ""
    supported_until: str = ""


class RuntimeVersion(Struct, frozen=True, array_like=True):
    """The version of a site's machines ("" where nobody told), and what they may be upgraded to."""

    version: str
    offers: tuple[RuntimeUpgradeOffer, ...] = ()


class Supplies(Struct, frozen=True):
    """What a site has; None for what was not captured. `volumes`: how many, and their MiB; `volume_sizes`:
    how many there are of each MiB. `versions`: the Kubernetes versions that clusters there may have;
    `supported_until`: those of them of which the site says on which day support ends; `runtime`: what its
    machines run.
    """

    networks: tuple[NetworkSupply, ...] | None = None
    storage: tuple[StorageSupply, ...] | None = None
    volumes: tuple[int, int] | None = None
    versions: tuple[str, ...] | None = None
    clusters: tuple[ClusterNetworks, ...] = ()
    runtime: RuntimeVersion | None = None
    supported_until: tuple[tuple[str, str], ...] = ()
    volume_sizes: tuple[tuple[int, int], ...] = ()


class OtherRoom(Struct, frozen=True):
    """One thing that may run out on a site. None is what is not known: `total` and `used_before`, `used` for
    what is or was not captured. `surge` is what an upgrade takes of it besides, at most.
    """

    site_id: str
    site: str
    kind: OtherKind
    name: str
    total: int | None = None
    used_before: int | None = None
    used: int | None = None
    surge: int = 0

    @property
    def free_before(self) -> int | None:
        """What is left before the plan, at most."""
        return _less(self.total, self.used_before)

    @property
    def free(self) -> int | None:
        """What is left, at most."""
        return _less(self.total, self.used)

    @property
    def unit(self) -> str:
        """What is counted."""
        return UNITS[self.kind]

    @property
    def lacks(self) -> bool:
        """Whether it does not do for who stands there, or not for an upgrade."""
        return self.free is not None and self.free < self.surge


class Nodes(Struct, frozen=True):
    """The nodes of the managed clusters of a site by the cluster's name, and the most that an upgrade of one
    adds at a time. `networks`: what configuration says of the network of nodes. `claims`: what pods claim of
    storage, for those clusters of which anything is known that runs there.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    surge: Mapping[str, int] = field(default_factory=dict)
    networks: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, ClaimDemand] = field(default_factory=dict)


def left_text(row: OtherRoom, free: int | None) -> str:
    """`3 of 30 (net-a)`, `not captured`, and that an upgrade asks for more."""
    if free is None:
        return "not captured"
    short = f", an upgrade takes {row.surge:,}" if free < row.surge and row.surge else ""
    return f"{free:,} of {row.total:,} ({row.name}{short})"


def lacking_text(row: OtherRoom) -> str:
    """`addresses for nodes of net-a: 3 of 30 are left, and an upgrade takes 5`."""
    free = row.free or 0
    of = f" of {row.name}" if row.name else ""
    if free < 0:
        gib = " GiB" if row.unit == "GiB" else ""
        return f"{WORDS[row.kind]}{of}: {row.used:,}{gib} are needed, and there are {row.total:,} at most"
    left = f"{free:,} of {row.total:,} are left at most"
    return f"{WORDS[row.kind]}{of}: {left}, and an upgrade takes {row.surge:,}"


def note_of_supplies(supplies: Supplies) -> Mapping[str, Any]:
    """The note of a site that says what it has."""
    noted = json.decode(json.encode(supplies))  # lists, as state has them when it is read again
    if supplies.runtime is None:  # notes of sites of which nobody told it stay as they are
        del noted["runtime"]
    for name in ("supported_until", "volume_sizes"):
        if not noted[name]:
            del noted[name]
    return {SUPPLIES: noted}


def noted_supplies(note: Mapping[str, Any] | None) -> Supplies | None:
    """What a site has, as the note of an object says it; None where nobody looked, and of what is no site."""
    noted = (note or {}).get(SUPPLIES)
    return None if noted is None else convert(noted, Supplies)


def nodes_of(
    pools: Iterable[tuple[VmDemand, PoolDemand]],
    networks: Mapping[str, str] | None = None,
    claimed: Mapping[str, ClaimDemand] | None = None,
) -> Nodes:
    """Count the nodes of pools; `claimed` is what pods claim, by the cluster's id."""
    counts: Counter[str] = Counter()
    surge: dict[str, int] = {}
    claims: dict[str, ClaimDemand] = {}
    for owner, pool in pools:
        counts[owner.cluster] += len(pool.numbers)
        surge[owner.cluster] = max(surge.get(owner.cluster, 0), pool.surge)
        asked = (claimed or {}).get(owner.owner.partition(":")[2])
        if asked is not None:
            claims[owner.cluster] = asked
    return Nodes(counts, surge, networks or {}, claims)


def declared_network(attributes: Mapping[str, Any]) -> str:
    """The name of the network that the azure block of a cluster says for its nodes, "" for none."""
    part: Any = attributes
    for name in ("azure", "body", "properties", "networkConfiguration", "cniNetworkId"):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part.rstrip("/").rpartition("/")[2] if isinstance(part, str) else ""


def other_room(
    site_id: str, site: str, supplies: Supplies, before: Nodes, after: Nodes
) -> tuple[OtherRoom, ...]:
    """What may run out on a site, kind by kind."""
    shown = {each.cluster: each for each in supplies.clusters}
    managed = before.counts.keys() | after.counts.keys()
    strangers = {name: each.nodes for name, each in shown.items() if name not in managed}
    counter = _Counter(
        {**strangers, **before.counts}, {**strangers, **after.counts}, after.surge, _networks(shown, after)
    )
    rows = [
        *_node_addresses(supplies, counter),
        *_pod_blocks(supplies, counter),
        *_balancers(supplies),
        *_storage(supplies),
        _claims(supplies, before, after),
    ]
    return tuple(replace(row, site_id=site_id, site=site) for row in rows)


class _Counter(Struct, frozen=True):
    """Nodes by cluster on both sides, what upgrades add, and the network of each cluster."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    surge: Mapping[str, int]
    networks: Mapping[str, str]


def _networks(shown: Mapping[str, ClusterNetworks], after: Nodes) -> dict[str, str]:
    """The network of every cluster: as the site shows it, else as configuration says."""
    return {**after.networks, **{name: each.network for name, each in shown.items() if each.network}}


def _node_addresses(supplies: Supplies, counter: _Counter) -> Iterator[OtherRoom]:
    """The networks of nodes and VMs by name; those that the site does not show are not known."""
    known = {each.name: each for each in supplies.networks or ()}
    clusters = {name for name in counter.before.keys() | counter.after.keys() if name in counter.networks}
    named = {counter.networks[cluster] for cluster in clusters} | known.keys()
    for name in sorted(named):
        own = [cluster for cluster in sorted(clusters) if counter.networks[cluster] == name]
        network = known.get(name)
        vms = network.vms if network is not None else 0
        is_used = bool(own or vms)
        if network is not None and network.addresses is None and not is_used:
            continue  # IPv6 alone
        yield OtherRoom(
            site_id="",
            site="",
            kind=OtherKind.NODE_ADDRESSES,
            name=name,
            total=network.addresses if network is not None else None,
            # Of one that no node and no VM has its address of, nobody tells who uses it.
            used_before=vms + sum(counter.before.get(each, 0) for each in own) if is_used else None,
            used=vms + sum(counter.after.get(each, 0) for each in own) if is_used else None,
            surge=max((counter.surge.get(each, 0) for each in own), default=0),
        )
    if supplies.networks is None:
        yield OtherRoom("", "", OtherKind.NODE_ADDRESSES, "")
    for cluster in sorted((counter.before.keys() | counter.after.keys()) - clusters):
        yield OtherRoom(
            "", "", OtherKind.NODE_ADDRESSES, f"of {cluster}", surge=counter.surge.get(cluster, 0)
        )


def _pod_blocks(supplies: Supplies, counter: _Counter) -> Iterator[OtherRoom]:
    """The blocks of pod addresses of each cluster against its nodes: one at least for each."""
    shown = {each.cluster: each.pod_addresses for each in supplies.clusters}
    for cluster in sorted(counter.before.keys() | counter.after.keys()):
        addresses = shown.get(cluster)
        yield OtherRoom(
            site_id="",
            site="",
            kind=OtherKind.POD_BLOCKS,
            name=cluster,
            total=None if addresses is None else addresses // POD_BLOCK,
            used_before=counter.before.get(cluster, 0),
            used=counter.after.get(cluster, 0),
            surge=counter.surge.get(cluster, 0),
        )


def _balancers(supplies: Supplies) -> Iterator[OtherRoom]:
    """The address pools of load balancers. Which services have an address, no body of Azure says."""
    for each in supplies.clusters:
        for pool, addresses in each.balancers:
            yield OtherRoom("", "", OtherKind.BALANCER_ADDRESSES, f"{each.cluster}/{pool}", total=addresses)


def _storage(supplies: Supplies) -> Iterator[OtherRoom]:
    """The appliances, and what was promised to volumes against all of them."""
    for each in supplies.storage or ():
        yield OtherRoom(
            "", "", OtherKind.STORAGE, each.name, total=each.capacity, used_before=each.used, used=each.used
        )
    if supplies.storage is None:
        yield OtherRoom("", "", OtherKind.STORAGE, "")
    count, mib = supplies.volumes or (0, 0)
    promised = None if supplies.volumes is None else -(-mib // _MIB_OF_GIB)
    name = "" if supplies.volumes is None else counted(count, "volume")
    total = _on_appliances(supplies)
    yield OtherRoom("", "", OtherKind.VOLUMES, name, total=total, used_before=promised, used=promised)


def _on_appliances(supplies: Supplies) -> int | None:
    """The GiB of all appliances together; None where one does not say it."""
    capacities = [each.capacity for each in supplies.storage or ()]
    return sum(each or 0 for each in capacities) if capacities and None not in capacities else None


def _claims(supplies: Supplies, before: Nodes, after: Nodes) -> OtherRoom:
    """What pods claim, and what is promised to volumes beside them, against all appliances. Nothing is known
    where no cluster shows what runs there.
    """
    claims = {**before.claims, **after.claims}
    unknown = [cluster for cluster in after.counts if cluster not in claims]
    unsized = [each.unsized for each in after.claims.values() if each.unsized]
    notes = [f"not of {first_of(unknown, _MOST_NAMES)}"] if claims and unknown else []
    notes += [f"{unsized[0]} does not say how much"] if unsized else []
    name = first_of(sorted(claims), _MOST_NAMES)
    return OtherRoom(
        site_id="",
        site="",
        kind=OtherKind.CLAIMS,
        name=f"{name}; {'; '.join(notes)}" if notes else name,
        total=_on_appliances(supplies),
        used_before=_asked(supplies, before.claims.values()) if claims else None,
        used=_asked(supplies, after.claims.values()) if claims else None,
    )


def _asked(supplies: Supplies, claims: Collection[ClaimDemand]) -> int | None:
    """The GiB that volumes and claims need at least: a claim may have one of the volumes, unless it is new.

    None where a claim cannot be read; or where no volume was captured, unless claims alone are too many.
    """
    total = _on_appliances(supplies)
    if any(each.unsized for each in claims):
        return None
    asked = sum(each.size for each in claims)
    if supplies.volumes is None:
        alone = -(-asked // _GIB)
        return alone if total is not None and alone > total else None
    _, mib = supplies.volumes
    waiting = sum(each.waiting for each in claims)
    if supplies.volume_sizes:
        waiting += _without_volume(supplies.volume_sizes, chain.from_iterable(x.unlooked for x in claims))
    return -(-max(mib * _MIB + waiting, asked) // _GIB)


def _without_volume(sizes: Iterable[tuple[int, int]], claims: Iterable[int]) -> int:
    """The bytes of claims for which no volume stands that is as large, however volumes are dealt out."""
    volumes = sorted(chain.from_iterable([mib * _MIB] * count for mib, count in sizes))
    missing = 0
    for size in sorted(claims, reverse=True):
        if volumes and volumes[-1] >= size:
            volumes.pop()
        else:
            missing += size
    return missing


def tightest(rows: Iterable[OtherRoom], kind: OtherKind) -> OtherRoom | None:
    """Of a kind what is left least of beyond what an upgrade takes; what is not known counts as less. None
    where a site has nothing of the kind.
    """
    of_kind = [row for row in rows if row.kind is kind]
    known = [row for row in of_kind if row.free is not None]
    lacking = [row for row in known if row.lacks]
    if lacking:
        return min(lacking, key=lambda row: (row.free or 0) - row.surge)
    # A network of which nobody tells who uses it says nothing of nodes.
    unknown = [row for row in of_kind if row.free is None and (row.total is None or not known)]
    if unknown:
        return unknown[0]
    return min(known, key=lambda row: (row.free or 0) - row.surge, default=None)


def _less(total: int | None, used: int | None) -> int | None:
    return None if total is None or used is None else total - used
