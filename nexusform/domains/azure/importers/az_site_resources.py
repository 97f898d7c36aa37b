"""Supplies of a site besides machines.

Addresses of L3 networks, pods and load balancers, storage, and versions.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from itertools import chain, pairwise
from typing import Final, NamedTuple, TypeAlias

from nexusform.diagnostics.diagnostic import Severity
from nexusform.diagnostics.phrases import enclose
from nexusform.domains.azure.importers.arm_resources import (
    ArmItem,
    extract_name,
    extract_resource_group,
    find_group,
    iterate_named_items,
    normalize_id,
)
from nexusform.domains.azure.importers.az_documents import AzResources
from nexusform.plans.site_capacity.site_resource_capacity import (
    ApplianceUsage,
    AttachableNetworks,
    ClusterNetworks,
    NetworkAddresses,
    RuntimeUpgradeOffer,
    RuntimeVersion,
    SiteResources,
)

NETWORKS: Final = "l3_networks"
APPLIANCES: Final = "storage_appliances"
VOLUMES: Final = "volumes"
_NETWORK_KINDS: Final = (NETWORKS, "l2_networks", "trunked_networks")
_UNUSABLE_STATES: Final = frozenset({"failed", "canceled", "error"})
VERSIONS: Final = "kubernetes_versions"
_INVALID: Final = "invalid-addresses"
_IPV6: Final = ":"
_BUNDLE_KEY: Final = "patchVersion:"
_BUNDLE_NAME: Final = re.compile(r"\s*(v?\d[0-9.]*(?:-[0-9.]+)?)(?![\w.-])")
_NEXT_BUNDLE: Final = "components:"
# Azure writes the year 0001 for an unknown date.
_AVAILABILITY_END: Final = re.compile(r"endOfExtendedAvailabilityDate:\s*(20\d\d-\d\d-\d\d)")
_SUPPORT_END: Final = re.compile(r"supportExpiryDate:\s*(20\d\d-\d\d-\d\d)")
# Fields of an offered upgrade, in the order of RuntimeUpgradeOffer.
_UPGRADE_DETAILS: Final = (
    "expectedDuration",
    "workloadImpact",
    "impactDescription",
    "supportExpiryDate",
)

# Lower-case id, name and number of addresses.
_Network: TypeAlias = tuple[str, str, int | None]


def read_site_resources(items: AzResources) -> SiteResources:
    """Read the networks, storage and versions (of Kubernetes and the runtime) of a site.

    A field is None if the list of its kind was not captured completely. Networks get unique names.
    """
    listed = {kind: items.list_resources(kind) for kind in items.listed_kinds}
    # Id, name and number of addresses of each.
    networks = list(_read_networks(listed.get(NETWORKS, ())))
    appliances = tuple(
        ApplianceUsage(name, item.read_number("capacity"), item.read_number("capacityUsed"))
        for name, item in iterate_named_items(listed.get(APPLIANCES, ()))
    )
    sizes = [item.read_number("sizeMiB", 0) for item in listed.get(VOLUMES, ())]
    versions = _collect_versions(listed.get(VERSIONS, ()))
    # By lower-case id.
    network_names = _build_network_names(networks)
    vm_counts = _count_attached_vms(items.list_resources("virtual_machines"))
    addresses = tuple(
        NetworkAddresses(network_names[id_], size, vm_counts[id_]) for id_, _, size in networks
    )
    return SiteResources(
        networks=addresses if NETWORKS in listed else None,
        storage=appliances if APPLIANCES in listed else None,
        # Number of volumes, and their MiB.
        volumes=(len(sizes), sum(sizes)) if VOLUMES in listed else None,
        volume_sizes=tuple(sorted(Counter(sizes).items())),
        versions=tuple(versions) if VERSIONS in listed else None,
        supported_until=tuple(
            (name, version.support_end) for name, version in versions.items() if version.support_end
        ),
        available_until=tuple(
            (name, version.availability_end)
            for name, version in versions.items()
            if version.availability_end
        ),
        clusters=tuple(
            _read_cluster_networks(items.list_resources("kubernetes_clusters"), network_names)
        ),
        runtime=_read_runtime(items.list_resources("clusters")),
        upgrades=tuple(
            _read_available_cluster_upgrades(items.list_resources("kubernetes_clusters"))
        ),
        attachable=_read_attachable_networks(items),
    )


def _count_attached_vms(vms: Iterable[ArmItem]) -> Counter[str]:
    """Count the attached VMs by lower-case id of their network."""
    counts: Counter[str] = Counter()
    for vm in vms:
        attachments = vm.read_objects("networkAttachments")
        counts.update(
            normalize_id(attachment.read_text("attachedNetworkId", ""))
            for attachment in attachments
        )
    return counts


def _build_network_names(networks: Sequence[_Network]) -> dict[str, str]:
    """Build the name of each network by lower-case id.

    A name that is not unique includes the resource group.
    """
    counts = Counter(name for _id, name, _size in networks)
    names: dict[str, str] = {}
    for network_id, name, _ in networks:
        group = extract_resource_group(network_id)
        names[network_id] = f"{group}/{name}" if group and counts[name] > 1 else name
    return names


def _read_runtime(clusters: Sequence[ArmItem]) -> RuntimeVersion | None:
    """Read the runtime version of the only Nexus cluster and the upgrades offered to it.

    Return None if the version is unknown.
    """
    if len(clusters) != 1:
        return None
    version = clusters[0].read_text("clusterVersion", "")
    offers: list[RuntimeUpgradeOffer] = []
    for item in clusters[0].read_objects("availableUpgradeVersions"):
        target_version = item.read_text("targetClusterVersion")
        if target_version:
            details = (item.read_text(name, "") for name in _UPGRADE_DETAILS)
            offers.append(RuntimeUpgradeOffer(target_version, *details))
    return RuntimeVersion(version, tuple(offers)) if version or offers else None


class _VersionEnds(NamedTuple):
    """Ends of support and availability of a version; "" if unknown."""

    support_end: str = ""
    availability_end: str = ""


def _collect_versions(lists: Iterable[ArmItem]) -> dict[str, _VersionEnds]:
    """Return the Kubernetes versions of the lists.

    An entry has a minor version, and its bundles in one string: `{ components: {...},
    patchVersion: v1.33.4-4.7.0, supportExpiryDate: 2027-06-30 00:00:00 +0000 UTC }`. Without
    bundles the minor version counts.
    """
    versions: dict[str, _VersionEnds] = {}
    for minor in chain.from_iterable(item.read_objects("values") for item in lists):
        minor_version = minor.read_text("version", "")
        # All parts but the first begin with a name.
        parts = minor.read_text("description", "").split(_BUNDLE_KEY)
        bundles: dict[str, _VersionEnds] = {}
        # The end of availability precedes the name of its bundle, the end of support follows it.
        for before_name, from_name in pairwise(parts):
            if bundle := _BUNDLE_NAME.match(from_name):
                support_end = find_group(_SUPPORT_END, from_name.partition(_NEXT_BUNDLE)[0])
                availability_end = find_group(
                    _AVAILABILITY_END, before_name.rpartition(_NEXT_BUNDLE)[2]
                )
                bundles[bundle[1]] = _VersionEnds(support_end, availability_end)
        if minor_version and not bundles:
            bundles[minor_version] = _VersionEnds()
        versions |= bundles
    return versions


def _read_networks(items: Iterable[ArmItem]) -> Iterator[_Network]:
    """Yield id, name and number of IPv4 host addresses of each network.

    The number is None without a valid prefix.
    """
    for name, item in iterate_named_items(items):
        prefix = item.read_text("ipv4ConnectedPrefix")
        size = _count_addresses(item, "ipv4ConnectedPrefix", prefix) if prefix else None
        # Without the network and broadcast addresses.
        usable = None if size is None else max(size - 2, 1)
        yield normalize_id(item.read_text("id", name)), name, usable


def _read_attachable_networks(items: AzResources) -> AttachableNetworks | None:
    """Read the networks that VMs may be attached to.

    Return None if no kind of network has a complete list. The result has the kinds with a complete
    list. Each network is a pair: id, and the reason against its use or "".
    """
    kinds = tuple(kind for kind in _NETWORK_KINDS if kind in items.listed_kinds)
    if not kinds:
        return None
    # Lower-case id, and reason.
    entries: list[tuple[str, str]] = []
    for network in (item for kind in kinds for item in items.list_resources(kind)):
        network_id = normalize_id(network.read_text("id", ""))
        entries.append((network_id, _explain_unusable_network(network)))
    # The type of l3_networks is l3networks.
    types = tuple(kind.replace("_", "") for kind in kinds)
    return AttachableNetworks(types, tuple(sorted(entries)))


def _explain_unusable_network(network: ArmItem) -> str:
    """Describe why VMs cannot use a network.

    Its failed state and the message, "" if it is usable or unknown.
    """
    for state in map(network.read_text, ("provisioningState", "detailedStatus")):
        if (state or "").lower() in _UNUSABLE_STATES:
            return f"{state}{enclose(': ', network.read_text('detailedStatusMessage'))}"
    return ""


def _read_cluster_networks(
    items: Iterable[ArmItem], names: Mapping[str, str]
) -> Iterator[ClusterNetworks]:
    """Read the networks of clusters; skip clusters without any.

    `names` are the names of networks by lower-case id.
    """
    for item in items:
        name = item.read_text("name")
        network = item.read_object("networkConfiguration")
        if name is None or network is None:
            continue
        cidrs = network.read_texts("podCidrs")
        sizes = (_count_addresses(network, "podCidrs", cidr) for cidr in cidrs)
        # None was reported, or is of IPv6.
        cidr_sizes = list(filter(None, sizes))
        node_network = normalize_id(network.read_text("cniNetworkId", ""))
        yield ClusterNetworks(
            cluster=name,
            network=names.get(node_network, extract_name(node_network)),
            pod_addresses=sum(cidr_sizes) if cidr_sizes else None,
            load_balancer_pools=tuple(_read_address_pools(network)),
            nodes=len(item.read_objects("nodes")),
        )


def _read_address_pools(network: ArmItem) -> Iterator[tuple[str, int]]:
    """Read the address pools of LoadBalancer services by name, with their number of addresses."""
    for field in ("bgpServiceLoadBalancerConfiguration", "l2ServiceLoadBalancerConfiguration"):
        for pool in network.read_object_or_empty(field).read_objects("ipAddressPools"):
            # Addresses are prefixes or ranges.
            texts = pool.read_texts("addresses")
            counts = (_count_addresses(pool, "addresses", text) for text in texts)
            # None was reported, or is of IPv6.
            address_count = sum(filter(None, counts))
            yield pool.read_text("name", ""), address_count


def _read_available_cluster_upgrades(
    items: Iterable[ArmItem],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read the name of each cluster with the versions offered to it.

    Clusters without offers are skipped.
    """
    for item in items:
        name = item.read_text("name")
        offers = item.read_objects("availableUpgrades")
        versions = tuple(filter(None, (offer.read_text("version") for offer in offers)))
        if name is not None and versions:
            yield name, versions


def _count_addresses(item: ArmItem, field: str, text: str) -> int | None:
    """Count the IPv4 addresses of a prefix, range or address; else add a finding and return None.

    IPv6 is skipped.
    """
    if _IPV6 in text:
        return None
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        if dash:
            size = int(IPv4Address(last)) - int(IPv4Address(first)) + 1
            if size > 0:
                # An empty range is reported below.
                return size
        else:
            return IPv4Network(text.strip(), strict=False).num_addresses
    except (AddressValueError, NetmaskValueError, ValueError):
        pass  # reported below
    detail = f'"{text[:60]}" is not a prefix such as 10.0.0.0/24: its addresses are not counted.'
    item.report(field, _INVALID, detail, Severity.WARNING)
    return None
