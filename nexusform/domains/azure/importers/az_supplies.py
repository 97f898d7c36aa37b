"""What a site has beside machines: addresses of L3 networks, of pods and of load balancers, and storage."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from itertools import chain
from typing import Final

from nexusform.diagnostics import Severity
from nexusform.domains.azure.importers.arm import Item, id_key, name_of
from nexusform.domains.azure.importers.az_documents import AzItems
from nexusform.domains.azure.importers.az_model import AzAppliance, AzClusterNetwork, AzNetwork, AzSupplies
from nexusform.plans.room.other_room import (
    ClusterNetworks,
    NetworkSupply,
    RuntimeUpgradeOffer,
    RuntimeVersion,
    StorageSupply,
    Supplies,
)

NETWORKS: Final = "l3_networks"
APPLIANCES: Final = "storage_appliances"
VOLUMES: Final = "volumes"
VERSIONS: Final = "kubernetes_versions"
_INVALID: Final = "invalid-addresses"
_IPV6: Final = ":"
_BUNDLE: Final = "patchVersion:"
_BUNDLE_NAME: Final = re.compile(r"\s*(v?\d[0-9.]*(?:-[0-9.]+)?)(?![\w.-])")
_NEXT: Final = "components:"
# A year of 0001 is Azure's way to say that nobody told.
_UNTIL: Final = re.compile(r"supportExpiryDate:\s*(20\d\d-\d\d-\d\d)")


def read_supplies(items: AzItems) -> AzSupplies:
    """What the resources of a site say of these; what was not listed is not known."""
    networks = tuple(_networks(items.of(NETWORKS))) if _is_told(items, NETWORKS) else None
    appliances = tuple(_appliances(items.of(APPLIANCES))) if _is_told(items, APPLIANCES) else None
    volumes, sizes = None, []
    if _is_told(items, VOLUMES):
        sizes = [item.whole("sizeMiB") or 0 for item in items.of(VOLUMES)]
        volumes = len(sizes), sum(sizes)
    versions = None
    if _is_told(items, VERSIONS):
        minors = chain.from_iterable(item.items("values") for item in items.of(VERSIONS))
        versions = tuple(dict(chain.from_iterable(map(_versions, minors))).items())
    return AzSupplies(
        networks=networks,
        appliances=appliances,
        volumes=volumes,
        volume_sizes=tuple(sorted(Counter(sizes).items())),
        versions=versions,
        clusters=tuple(_clusters(items.of("kubernetes_clusters"))),
        attached=tuple(sorted(_attached(items.of("virtual_machines")).items())),
        runtime=_runtime(items.of("clusters")),
    )


def _runtime(clusters: Sequence[Item]) -> RuntimeVersion | None:
    """What the machines run, as the Nexus cluster says it; None where none says it, or several do."""
    if len(clusters) != 1:
        return None
    version = clusters[0].text("clusterVersion")
    offered = clusters[0].items("availableUpgradeVersions")
    offers = [_offer(one, to) for one in offered if (to := one.text("targetClusterVersion"))]
    return RuntimeVersion(version or "", tuple(offers)) if version or offers else None


def _offer(item: Item, version: str) -> RuntimeUpgradeOffer:
    """One version that is offered."""
    told = ("expectedDuration", "workloadImpact", "impactDescription", "supportExpiryDate")
    return RuntimeUpgradeOffer(version, *(item.text(name) or "" for name in told))


def _versions(minor: Item) -> Iterator[tuple[str, str]]:
    """The versions of one entry of the catalog, each with the day on which its support ends. The bundles of a
    minor version and their days stand in a text, one after the other:
    `{ components: {...}, patchVersion: v1.33.4-4.7.0, supportExpiryDate: 2027-06-30 00:00:00 +0000 UTC }`.
    """
    version = minor.text("version")
    _, *bundles = (minor.text("description") or "").split(_BUNDLE)
    found = [
        (bundle[1], until[1] if (until := _UNTIL.search(text.partition(_NEXT)[0])) else "")
        for text in bundles
        if (bundle := _BUNDLE_NAME.match(text))
    ]
    if found or version:
        yield from found or [(version or "", "")]


def _is_told(items: AzItems, kind: str) -> bool:
    """Whether the export has the whole list of a kind."""
    return kind in items.listed


def _networks(items: Iterable[Item]) -> Iterator[AzNetwork]:
    """The networks by name, each with its IPv4 prefix, None where it has none that can be read."""
    for item in items:
        name = item.needed_text("name")
        if name is None:
            continue
        prefix = item.text("ipv4ConnectedPrefix")
        size = _size_of(item, "ipv4ConnectedPrefix", prefix) if prefix else None
        usable = None if size is None else max(size - 2, 1) if size > 1 else size
        yield AzNetwork(name, id_key(item.text("id") or name), usable)


def _appliances(items: Iterable[Item]) -> Iterator[AzAppliance]:
    for item in items:
        name = item.needed_text("name")
        if name is not None:
            yield AzAppliance(name, item.whole("capacity"), item.whole("capacityUsed"))


def _clusters(items: Iterable[Item]) -> Iterator[AzClusterNetwork]:
    """What the clusters say of their networks; one that says nothing is left out."""
    for item in items:
        name, network = item.text("name"), item.item("networkConfiguration")
        if name is None or network is None:
            continue
        cidrs = network.texts("podCidrs")
        pods = [size for cidr in cidrs if (size := _size_of(network, "podCidrs", cidr)) is not None]
        yield AzClusterNetwork(
            cluster=name,
            node_network=id_key(network.text("cniNetworkId") or ""),
            pod_addresses=sum(pods) if pods else None,
            balancer_addresses=tuple(_balancers(network)),
            nodes=len(item.items("nodes")),
        )


def _balancers(network: Item) -> Iterator[tuple[str, int]]:
    """The address pools of services of the type LoadBalancer, by name, and how many addresses each has."""
    for field in ("bgpServiceLoadBalancerConfiguration", "l2ServiceLoadBalancerConfiguration"):
        balancer = network.item(field)
        for pool in balancer.items("ipAddressPools") if balancer is not None else ():
            sizes = [_size_of(pool, "addresses", text) for text in pool.texts("addresses")]
            yield pool.text("name") or "", sum(size for size in sizes if size is not None)


def _attached(items: Iterable[Item]) -> Counter[str]:
    """How many VMs are attached to each network, by the key of its id."""
    return Counter(
        id_key(network)
        for item in items
        for attachment in item.items("networkAttachments")
        if (network := attachment.text("attachedNetworkId")) is not None
    )


def _size_of(item: Item, field: str, text: str) -> int | None:
    """How many IPv4 addresses a prefix, a range or an address stands for; None, and a finding, for anything
    else. IPv6 addresses are none of these, and never lack.
    """
    if _IPV6 in text:
        return None
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        if dash:
            size = int(IPv4Address(last)) - int(IPv4Address(first)) + 1
            if size > 0:
                return size
        else:
            return IPv4Network(text.strip(), strict=False).num_addresses
    except (AddressValueError, NetmaskValueError, ValueError):
        pass
    detail = f'"{text[:60]}" is no prefix such as 10.0.0.0/24: its addresses are not counted.'
    item.report(field, _INVALID, detail, Severity.WARNING)
    return None


# --- as plans and questions read it -------------------------------------------------------------


def supplies_of(supplies: AzSupplies) -> Supplies:
    """The same by names: what a network is called is unique, and clusters name networks so."""
    networks = supplies.networks or ()
    names = {network.key: _label(network, networks) for network in networks}
    attached = dict(supplies.attached)
    return Supplies(
        networks=None
        if supplies.networks is None
        else tuple(
            NetworkSupply(names[each.key], each.addresses, attached.get(each.key, 0)) for each in networks
        ),
        storage=None
        if supplies.appliances is None
        else tuple(
            StorageSupply(each.name, each.capacity_gib, each.used_gib) for each in supplies.appliances
        ),
        volumes=supplies.volumes,
        volume_sizes=supplies.volume_sizes,
        versions=None if supplies.versions is None else tuple(version for version, _ in supplies.versions),
        supported_until=tuple((version, until) for version, until in supplies.versions or () if until),
        runtime=supplies.runtime,
        clusters=tuple(
            ClusterNetworks(
                cluster=each.cluster,
                network=names.get(each.node_network, name_of(each.node_network)),
                pod_addresses=each.pod_addresses,
                balancers=each.balancer_addresses,
                nodes=each.nodes,
            )
            for each in supplies.clusters
        ),
    )


def _label(network: AzNetwork, networks: Iterable[AzNetwork]) -> str:
    """The name of a network; with its resource group where another one has the same."""
    if sum(other.name == network.name for other in networks) == 1:
        return network.name
    parts = network.key.split("/")
    group = parts[parts.index("resourcegroups") + 1] if "resourcegroups" in parts[:-1] else ""
    return f"{group}/{network.name}" if group else network.name
