"""Capacity of a site besides machines, against its users.

It is the capacity of addresses for nodes and pods, and of storage. A provider that reads a site
records its supplies with the site (`build_site_resources_note`); plans and questions read them from
there. Values that were not captured are unknown and never count as sufficient. The platform
reserves some addresses and does not report which: spare capacity is an upper limit.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, convert, field, json
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count, format_first_items, group_by
from nexusform.json_data.plain_data import get_part, get_text
from nexusform.placements.vm_demands import ClaimDemand, PoolDemand, VmDemand

# Key of the supplies in the note of a site.
SUPPLIES: Final = "supplies"
# Calico assigns whole blocks of pod addresses to every node, of this size by default (/26).
POD_BLOCK: Final = 64
_MIB_OF_GIB: Final = 1024
_MIB: Final = 1024**2
_GIB: Final = 1024**3
_MAXIMUM_NAMES: Final = 3


class SiteResourceKind(StrEnum):
    """Resources that may run out besides vCPUs, memory and disk of machines."""

    NODE_ADDRESSES = "l3_network"
    POD_BLOCKS = "pod_cidr"
    BALANCER_ADDRESSES = "bgp_pool"
    STORAGE = "storage_appliance"
    VOLUMES = "volumes"
    CLAIMS = "claims"


UNITS: Final[Mapping[SiteResourceKind, str]] = {
    SiteResourceKind.NODE_ADDRESSES: "addresses",
    SiteResourceKind.POD_BLOCKS: "blocks",
    SiteResourceKind.BALANCER_ADDRESSES: "addresses",
    SiteResourceKind.STORAGE: "GiB",
    SiteResourceKind.VOLUMES: "GiB",
    SiteResourceKind.CLAIMS: "GiB",
}

LABELS: Final[Mapping[SiteResourceKind, str]] = {
    SiteResourceKind.NODE_ADDRESSES: "addresses for nodes",
    SiteResourceKind.POD_BLOCKS: "blocks of pod addresses",
    SiteResourceKind.BALANCER_ADDRESSES: "addresses for load balancers",
    SiteResourceKind.STORAGE: "storage",
    SiteResourceKind.VOLUMES: "promised to volumes",
    SiteResourceKind.CLAIMS: "storage for claims of pods",
}


class NetworkAddresses(Struct, frozen=True, array_like=True):
    """L3 network: its IPv4 addresses for hosts, and the VMs attached to it.

    `addresses` is None if the network has no such prefix.
    """

    name: str
    addresses: int | None
    vms: int


class ApplianceUsage(Struct, frozen=True, array_like=True):
    """Storage appliance: GiB in total and used; None if unknown."""

    name: str
    capacity: int | None
    used: int | None


class ClusterNetworks(Struct, frozen=True, array_like=True):
    """Networks of a cluster: node addresses, pod addresses, balancer pools, nodes.

    Pod addresses are a number of IPv4 addresses. Nodes are observed.
    """

    cluster: str
    network: str
    pod_addresses: int | None
    load_balancer_pools: tuple[tuple[str, int], ...]
    nodes: int


class RuntimeUpgradeOffer(Struct, frozen=True, array_like=True):
    """Version offered by the platform for a site's machines, with its description ("" if none)."""

    version: str
    duration: str = ""
    workload_impact: str = ""
    impact: str = ""
    supported_until: str = ""


class RuntimeVersion(Struct, frozen=True, array_like=True):
    """Version of a site's machines ("" if unknown), and the available upgrades."""

    version: str
    offers: tuple[RuntimeUpgradeOffer, ...] = ()


class AttachableNetworks(Struct, frozen=True):
    """Networks of a site for nodes.

    `types` are the completely listed resource types; `networks` are lowered ids with the reason
    against an unusable one ("" for none).
    """

    types: tuple[str, ...]
    networks: tuple[tuple[str, str], ...]


class SiteResources(Struct, frozen=True):
    """Supplies of a site; None if not captured.

    `volumes` has their number and MiB, `volume_sizes` the number of volumes of each MiB. `versions`
    are the Kubernetes versions available to clusters there. `supported_until` and `available_until`
    have the known ends of support and extended availability. `upgrades` are the versions offered to
    a cluster, by its name, and `runtime` is the version of its machines.
    """

    networks: tuple[NetworkAddresses, ...] | None = None
    storage: tuple[ApplianceUsage, ...] | None = None
    volumes: tuple[int, int] | None = None
    versions: tuple[str, ...] | None = None
    clusters: tuple[ClusterNetworks, ...] = ()
    runtime: RuntimeVersion | None = None
    supported_until: tuple[tuple[str, str], ...] = ()
    volume_sizes: tuple[tuple[int, int], ...] = ()
    available_until: tuple[tuple[str, str], ...] = ()
    upgrades: tuple[tuple[str, tuple[str, ...]], ...] = ()
    attachable: AttachableNetworks | None = None


class SiteResourceCapacity(Struct, frozen=True):
    """One resource that may run out on a site.

    None is unknown: `total`, `used_before` and `used` if not captured. `surge` is the maximum
    additional use of an upgrade.
    """

    site_id: str
    site: str
    kind: SiteResourceKind
    name: str
    total: int | None = None
    used_before: int | None = None
    used: int | None = None
    surge: int = 0

    @property
    def free_before(self) -> int | None:
        """Upper limit of the spare amount before the plan."""
        return _subtract_if_known(self.total, self.used_before)

    @property
    def free(self) -> int | None:
        """Upper limit of the spare amount."""
        return _subtract_if_known(self.total, self.used)

    @property
    def unit(self) -> str:
        """Unit of the amounts."""
        return UNITS[self.kind]

    @property
    def is_insufficient(self) -> bool:
        """Whether the amount is too small for current use, or for an upgrade."""
        return self.free is not None and self.free < self.surge


class ClusterNodeCounts(Struct, frozen=True):
    """Nodes of a site's managed clusters by name, and the maximum surge of one upgrade.

    `networks` has the configured networks of nodes. `claims` has the storage claimed by pods, for
    clusters with known workloads.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    surge: Mapping[str, int] = field(default_factory=dict)
    networks: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, ClaimDemand] = field(default_factory=dict)


def format_spare_resources(row: SiteResourceCapacity, free: int | None) -> str:
    """Format `3 of 30 (net-a)` or `not captured`, with a shortage for an upgrade."""
    if free is None:
        return "not captured"
    shortage = f", an upgrade needs {row.surge:,}" if free < row.surge and row.surge else ""
    return f"{free:,} of {row.total:,} ({row.name}{shortage})"


def format_shortage(row: SiteResourceCapacity) -> str:
    """Format the addresses left in a network, or a use above the total.

    An example is `addresses for nodes of net-a: at most 3 of 30 free, but an upgrade needs 5`.
    """
    # Known for an insufficient resource.
    free = row.free or 0
    resource = f"{LABELS[row.kind]} of {row.name}" if row.name else LABELS[row.kind]
    if free < 0:
        # Other units are in the label.
        unit = " GiB" if row.unit == "GiB" else ""
        return f"{resource}: {row.used:,}{unit} needed, at most {row.total:,} exist"
    return f"{resource}: at most {free:,} of {row.total:,} free, but an upgrade needs {row.surge:,}"


def build_site_resources_note(supplies: SiteResources) -> Mapping[str, Any]:
    """Build the note of a site that records its resources besides machines.

    They are networks, storage and versions.
    """
    # The document has lists, as a state that was read.
    document = json.decode(json.encode(supplies))
    for name in (
        "runtime",
        "supported_until",
        "volume_sizes",
        "available_until",
        "upgrades",
        "attachable",
    ):
        # An unknown fact is omitted: the note stays equal to one from before these facts were
        # recorded.
        if not document[name]:
            del document[name]
    return {SUPPLIES: document}


def read_recorded_site_resources(note: Mapping[str, Any] | None) -> SiteResources | None:
    """Return the resources (networks, storage, versions) recorded in the note of a site.

    Return None for other notes.
    """
    document = get_part(note, (SUPPLIES,))
    return None if document is None else convert(document, SiteResources)


def count_nodes(
    pools: Iterable[tuple[VmDemand, PoolDemand]],
    networks: Mapping[str, str] = MappingProxyType({}),
    claims_by_cluster: Mapping[str, ClaimDemand] = MappingProxyType({}),
) -> ClusterNodeCounts:
    """Count nodes and surge nodes by cluster name.

    `networks` is by cluster name, `claims_by_cluster` by cluster id.
    """
    counts: Counter[str] = Counter()
    surge: dict[str, int] = {}
    claims: dict[str, ClaimDemand] = {}
    for owner, pool in pools:
        counts[owner.cluster] += len(pool.numbers)
        # Pools are upgraded one by one.
        surge[owner.cluster] = max(surge.get(owner.cluster, 0), pool.surge_size)
        claim = claims_by_cluster.get(owner.cluster_id)
        if claim is not None:
            claims[owner.cluster] = claim
    return ClusterNodeCounts(counts, surge, networks, claims)


def find_configured_node_network(attributes: Mapping[str, Any]) -> str:
    """Return the name of the node network in the azure block of a cluster, "" for none."""
    network_id = get_text(
        attributes, "azure", "body", "properties", "networkConfiguration", "cniNetworkId"
    )
    return network_id.rstrip("/").rpartition("/")[2]


def compute_site_resource_capacity(
    site_id: str,
    site: str,
    supplies: SiteResources,
    before: ClusterNodeCounts,
    after: ClusterNodeCounts,
) -> tuple[SiteResourceCapacity, ...]:
    """Return the limited resources of a site with their use before and after the plan.

    They are ordered by kind. `supplies` are observed at the site. Observed clusters outside of the
    plan keep their nodes.
    """
    managed_names = before.counts.keys() | after.counts.keys()
    # Nodes of observed clusters outside of the plan.
    unmanaged: dict[str, int] = {}
    observed_networks: dict[str, str] = {}
    observed_clusters = {cluster.cluster: cluster for cluster in supplies.clusters}
    for name, cluster in observed_clusters.items():
        if name not in managed_names:
            unmanaged[name] = cluster.nodes
        if cluster.network:
            observed_networks[name] = cluster.network
    nodes = _SiteNodeCounts(
        before={**unmanaged, **before.counts},
        after={**unmanaged, **after.counts},
        surge=after.surge,
        # An observed network outweighs the configured one.
        networks={**after.networks, **observed_networks},
    )
    rows = [
        *_compute_node_addresses(supplies, nodes),
        *_compute_pod_blocks(supplies, nodes),
        *_compute_load_balancer_addresses(supplies),
        *_compute_appliance_storage(supplies),
        _compute_pod_storage(supplies, before, after),
    ]
    return tuple(replace(row, site_id=site_id, site=site) for row in rows)


class _SiteNodeCounts(Struct, frozen=True):
    """Nodes by cluster before and after, the surge of upgrades, and the network of each cluster."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    surge: Mapping[str, int]
    networks: Mapping[str, str]


def _create_row(kind: SiteResourceKind, name: str, **figures: Any) -> SiteResourceCapacity:
    """Create the row of one resource.

    `compute_site_resource_capacity` adds the site to all rows at the end.
    """
    return SiteResourceCapacity(site_id="", site="", kind=kind, name=name, **figures)


def _compute_node_addresses(
    supplies: SiteResources, nodes: _SiteNodeCounts
) -> Iterator[SiteResourceCapacity]:
    """Yield a row per network, by name, with the number of its used addresses.

    Each node of a cluster and each VM uses one. `surge` is the number of further addresses for the
    upgrade of a cluster. Unknown figures are None. Then follows a row without a name if networks
    were not read, and a row per cluster without a known network.
    """
    read_networks = {network.name: network for network in supplies.networks or ()}
    all_clusters = nodes.before.keys() | nodes.after.keys()
    # Their network is known.
    connected_clusters = all_clusters & nodes.networks.keys()
    network_names = {
        nodes.networks[cluster] for cluster in connected_clusters
    } | read_networks.keys()
    for network_name in sorted(network_names):
        own_clusters = [
            cluster
            for cluster in sorted(connected_clusters)
            if nodes.networks[cluster] == network_name
        ]
        network = read_networks.get(
            network_name, NetworkAddresses(network_name, addresses=None, vms=0)
        )
        # One upgrade at a time.
        surge = max((nodes.surge.get(cluster, 0) for cluster in own_clusters), default=0)
        row = _create_row(
            SiteResourceKind.NODE_ADDRESSES, network_name, total=network.addresses, surge=surge
        )
        if own_clusters or network.vms:
            nodes_before = sum(nodes.before.get(cluster, 0) for cluster in own_clusters)
            nodes_after = sum(nodes.after.get(cluster, 0) for cluster in own_clusters)
            yield replace(
                row, used_before=network.vms + nodes_before, used=network.vms + nodes_after
            )
        elif network.addresses is not None:
            # The use of a network without nodes and VMs is unknown.
            yield row
    if supplies.networks is None:
        yield _create_row(SiteResourceKind.NODE_ADDRESSES, name="")
    for cluster in sorted(all_clusters - connected_clusters):
        surge = nodes.surge.get(cluster, 0)
        yield _create_row(SiteResourceKind.NODE_ADDRESSES, f"of {cluster}", surge=surge)


def _compute_pod_blocks(
    supplies: SiteResources, nodes: _SiteNodeCounts
) -> Iterator[SiteResourceCapacity]:
    """Yield a row per cluster: the blocks in its pod addresses against its nodes.

    Calico gives every node a block.
    """
    pod_addresses = {network.cluster: network.pod_addresses for network in supplies.clusters}
    for cluster in sorted(nodes.before.keys() | nodes.after.keys()):
        addresses = pod_addresses.get(cluster)
        yield _create_row(
            SiteResourceKind.POD_BLOCKS,
            cluster,
            total=None if addresses is None else addresses // POD_BLOCK,
            used_before=nodes.before.get(cluster, 0),
            used=nodes.after.get(cluster, 0),
            surge=nodes.surge.get(cluster, 0),
        )


def _compute_load_balancer_addresses(supplies: SiteResources) -> Iterator[SiteResourceCapacity]:
    """Compute the address pools of load balancers.

    No Azure response lists the services with an address.
    """
    for cluster in supplies.clusters:
        for pool, addresses in cluster.load_balancer_pools:
            yield _create_row(
                SiteResourceKind.BALANCER_ADDRESSES, f"{cluster.cluster}/{pool}", total=addresses
            )


def _compute_appliance_storage(supplies: SiteResources) -> Iterator[SiteResourceCapacity]:
    """Yield a row per storage appliance, and a row of all volumes together.

    If no appliances were captured, yield one row without figures for them.
    """
    kind = SiteResourceKind.STORAGE
    for appliance in supplies.storage or ():
        used = appliance.used
        yield _create_row(
            kind, appliance.name, total=appliance.capacity, used_before=used, used=used
        )
    if supplies.storage is None:  # not captured
        yield _create_row(kind, name="")
    name = ""
    volume_gib = None
    if supplies.volumes is not None:
        count, mib = supplies.volumes
        name = format_count(count, "volume")
        volume_gib = -(-mib // _MIB_OF_GIB)  # rounded up
    total = _sum_appliance_capacity(supplies)
    yield _create_row(
        SiteResourceKind.VOLUMES, name, total=total, used_before=volume_gib, used=volume_gib
    )


def _sum_appliance_capacity(supplies: SiteResources) -> int | None:
    """Return the GiB of all appliances together; None if any is unknown, or there is none."""
    if not supplies.storage:
        return None
    total = 0
    for appliance in supplies.storage:
        if appliance.capacity is None:
            return None
        total += appliance.capacity
    return total


def _compute_pod_storage(
    supplies: SiteResources, before: ClusterNodeCounts, after: ClusterNodeCounts
) -> SiteResourceCapacity:
    """Build the row of the storage claimed by pods, for clusters with known pods.

    Its name lists these clusters, then the others and one claim without a size: `c1; not of c2;
    data-0 has no size`. Without known pods, the use is None.
    """
    # By name of a cluster with known pods.
    claims = {**before.claims, **after.claims}
    unknown_clusters = [cluster for cluster in after.counts if cluster not in claims]
    unsized_claims = [
        claim.unsized_claim for claim in after.claims.values() if claim.unsized_claim
    ]  # names
    name_parts = [format_first_items(sorted(claims), _MAXIMUM_NAMES)]
    if claims and unknown_clusters:
        name_parts.append(f"not of {format_first_items(unknown_clusters, _MAXIMUM_NAMES)}")
    if unsized_claims:
        name_parts.append(f"{unsized_claims[0]} has no size")
    used_before = used = None
    if claims:
        used_before = _compute_claimed_storage(supplies, before.claims.values())
        used = _compute_claimed_storage(supplies, after.claims.values())
    name = "; ".join(name_parts)
    total = _sum_appliance_capacity(supplies)
    return _create_row(
        SiteResourceKind.CLAIMS, name, total=total, used_before=used_before, used=used
    )


def _compute_claimed_storage(
    supplies: SiteResources, claims: Collection[ClaimDemand]
) -> int | None:
    """Return the minimum GiB of storage for existing volumes and claims of pods together.

    An existing claim may use an existing volume of sufficient size; a new claim needs a new one.
    Return None (unknown) if a claim has no size, or if no volume was captured, unless the claims
    alone exceed the total.
    """
    total = _sum_appliance_capacity(supplies)
    # Bytes of all claims.
    claimed_bytes = 0
    # Of claims without an existing volume.
    new_bytes = 0
    # Of existing claims with an unknown volume.
    unverified_sizes: list[int] = []
    for claim in claims:
        # The name of a claim without a size.
        if claim.unsized_claim:
            return None
        claimed_bytes += claim.size
        new_bytes += claim.unbound_size
        unverified_sizes += claim.unverified_sizes
    if supplies.volumes is None:
        claimed_gib = -(-claimed_bytes // _GIB)  # rounded up
        return claimed_gib if total is not None and claimed_gib > total else None
    _, volumes_mib = supplies.volumes
    if supplies.volume_sizes:
        # Assign a sufficient volume to as many of these claims as possible. The others need
        # new storage anyway.
        volumes = sorted(
            chain.from_iterable([mib * _MIB] * count for mib, count in supplies.volume_sizes)
        )
        for size in sorted(unverified_sizes, reverse=True):
            # The largest volume fits the largest claim.
            if volumes and volumes[-1] >= size:
                volumes.pop()
            else:
                new_bytes += size
    # At least the sum of the claims.
    needed_bytes = max(volumes_mib * _MIB + new_bytes, claimed_bytes)
    return -(-needed_bytes // _GIB)  # rounded up


def find_scarcest_resource(
    rows: Iterable[SiteResourceCapacity], kind: SiteResourceKind
) -> SiteResourceCapacity | None:
    """Return the row of a kind with the scarcest resource of a site; None without rows of the kind.

    `free` is the spare amount, None if unknown, and `surge` the further need of an upgrade. It is
    the row with the smallest `free - surge`. If this row is sufficient, return one without a known
    total instead: its resource may be scarcer.
    """
    rows_by_knowledge = group_by(
        (row for row in rows if row.kind is kind), lambda row: row.free is not None
    )
    known_rows = rows_by_knowledge.get(True, [])
    unknown_rows = rows_by_knowledge.get(False, [])
    if not known_rows:
        return next(iter(unknown_rows), None)
    # `free` is known here.
    scarcest = min(known_rows, key=lambda row: (row.free or 0) - row.surge)
    # A row with a total but without a known use does not count: it is a network without nodes.
    uncaptured_rows = [row for row in unknown_rows if row.total is None]
    if scarcest.is_insufficient or not uncaptured_rows:
        return scarcest
    return uncaptured_rows[0]


def _subtract_if_known(total: int | None, used: int | None) -> int | None:
    return None if total is None or used is None else total - used
