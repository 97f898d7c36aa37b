"""Networks and storage of an export, as lists of REST and of `az`, whole, in part and with mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.azure.importers.az_documents import read_export_resources
from nexusform.domains.azure.importers.az_supplies import build_site_supplies, read_site_supplies
from nexusform.plans.site_capacity.other_capacity import (
    ApplianceUsage,
    NetworkSupply,
    SiteSupplies,
    build_supplies_note,
    read_recorded_supplies,
)

IDS = "/subscriptions/0/resourceGroups/RG/providers/Microsoft.NetworkCloud"


def body(kind: str, name: str, group: str = "rg", **properties: Any) -> dict[str, Any]:
    return {"id": f"{IDS.replace('RG', group)}/{kind}/{name}", "name": name, "properties": properties}


def read(**kinds: Any) -> tuple[SiteSupplies, list[str]]:
    findings: list[Problem] = []
    documents = {kind: [(f"{kind}.json", json.dumps(bodies).encode())] for kind, bodies in kinds.items()}
    supplies = build_site_supplies(read_site_supplies(read_export_resources(documents, findings)))
    return supplies, [finding.id for finding in findings]


@pytest.mark.parametrize(
    ("prefix", "hosts"),
    [("10.1.0.0/24", 254), ("10.1.0.0/30", 2), ("10.1.0.0/31", 1), ("10.1.0.4/32", 1), ("2001:db8::/64", None)],
)
def test_a_prefix_has_so_many_hosts(prefix: str, hosts: int | None) -> None:
    supplies, findings = read(l3_networks=[body("l3Networks", "n", ipv4ConnectedPrefix=prefix)])
    assert supplies.networks == (NetworkSupply("n", hosts, 0),)
    assert not findings


@pytest.mark.parametrize("prefix", ["10.1.0.0/33", "ten", "10.1.0.9-10.1.0.2", "300.1.1.1/24"])
def test_what_is_no_prefix_is_said_and_not_counted(prefix: str) -> None:
    supplies, findings = read(l3_networks=[body("l3Networks", "n", ipv4ConnectedPrefix=prefix)])
    assert supplies.networks == (NetworkSupply("n", None, 0),)
    assert findings == ["invalid-addresses"]


def test_what_az_prints_reads_like_what_rest_answers() -> None:
    rest = [body("l3Networks", "n", ipv4ConnectedPrefix="10.1.0.0/24")]
    flat = [{"id": rest[0]["id"], "name": "n", "ipv4ConnectedPrefix": "10.1.0.0/24"}]
    assert read(l3_networks={"value": rest}) == read(l3_networks=flat)


def test_an_empty_list_says_that_there_is_none_and_no_file_says_nothing() -> None:
    nothing, _ = read()
    assert (nothing.networks, nothing.storage, nothing.volumes) == (None, None, None)
    none, _ = read(l3_networks=[], storage_appliances=[], volumes=[])
    assert (none.networks, none.storage, none.volumes) == ((), (), (0, 0))


def test_a_page_of_a_list_is_not_the_list() -> None:
    cut = {"value": [body("volumes", "v", sizeMiB=10)], "nextLink": "https://more"}
    supplies, _ = read(volumes=cut)
    assert supplies.volumes is None


def test_the_catalog_of_versions_is_read() -> None:
    catalog = body("kubernetesVersions", "default", values=[{"version": "v1.31.4-4.5.0"}, {"version": "1.32"}])
    supplies, findings = read(kubernetes_versions=[catalog])
    assert supplies.versions == ("v1.31.4-4.5.0", "1.32")
    assert read(kubernetes_versions=[])[0].versions == ()
    assert read()[0].versions is None
    assert not findings


def test_networks_of_one_name_are_told_apart() -> None:
    two = [body("l3Networks", "n", group, ipv4ConnectedPrefix="10.1.0.0/24") for group in ("a", "b")]
    cluster = body("kubernetesClusters", "c", networkConfiguration={"cniNetworkId": two[1]["id"].upper()})
    supplies, _ = read(l3_networks=two, kubernetes_clusters=[cluster])
    assert [network.name for network in supplies.networks or ()] == ["a/n", "b/n"]
    assert supplies.clusters[0].network == "b/n"


def test_clusters_say_their_pods_addresses_and_their_balancers() -> None:
    network = {
        "cniNetworkId": f"{IDS}/l3Networks/n",
        "podCidrs": ["10.244.0.0/16", "fd00::/64"],
        "bgpServiceLoadBalancerConfiguration": {
            "ipAddressPools": [{"name": "one", "addresses": ["10.9.0.0/27", "10.8.0.5-10.8.0.9"]}]
        },
        "l2ServiceLoadBalancerConfiguration": {"ipAddressPools": [{"name": "two", "addresses": ["10.7.0.1/32"]}]},
    }
    nodes = [{"name": "c-1"}, {"name": "c-2"}]
    cluster = body("kubernetesClusters", "c", networkConfiguration=network, nodes=nodes)
    supplies, findings = read(kubernetes_clusters=[cluster])
    [read_cluster] = supplies.clusters
    assert read_cluster.pod_addresses == 65_536
    assert read_cluster.load_balancer_pools == (("one", 37), ("two", 1))
    assert (read_cluster.network, read_cluster.nodes) == ("n", 2)
    assert not findings


def test_vms_take_addresses_and_appliances_say_what_is_used() -> None:
    network = body("l3Networks", "n", ipv4ConnectedPrefix="10.1.0.0/24")
    attachment = {"attachedNetworkId": network["id"].lower()}
    supplies, _ = read(
        l3_networks=[network],
        virtual_machines=[body("virtualMachines", f"v{n}", networkAttachments=[attachment]) for n in range(3)],
        storage_appliances=[body("storageAppliances", "s", capacity=100, capacityUsed=40)],
        volumes=[body("volumes", "v", sizeMiB=1500), body("volumes", "w", sizeMiB=None)],
    )
    assert supplies.networks == (NetworkSupply("n", 254, 3),)
    assert supplies.storage == (ApplianceUsage("s", 100, 40),)
    assert supplies.volumes == (2, 1500)


BUNDLES = (
    "[{ components: {Name: calico, Type: Feature, Version: v1.9.1},{Name: AzureLinux3, Type: OSImage, "
    "Version: 1.33.2-1}, endOfExtendedAvailabilityDate: 2028-06-30 00:00:00 +0000 UTC, "
    "generalAvailabilityDate: 2026-01-01 00:00:00 +0000 UTC, patchVersion: v1.33.4-4.7.0, "
    "supportExpiryDate: 2027-06-30 00:00:00 +0000 UTC }, { components: {Name: calico, Type: Feature, "
    "Version: v1.9.0}, endOfExtendedAvailabilityDate: 2027-01-31 00:00:00 +0000 UTC, "
    "generalAvailabilityDate: 0001-01-01 00:00:00 +0000 UTC, patchVersion: v1.33.1-4.5.0, "
    "supportExpiryDate: 0001-01-01 00:00:00 +0000 UTC }]"
)


def test_the_bundles_of_a_minor_version_are_told_in_a_text() -> None:
    values = [{"version": "1.33", "description": BUNDLES}, {"version": "1.32", "description": "no bundle"}]
    supplies, findings = read(kubernetes_versions=[body("kubernetesVersions", "default", values=values)])
    assert supplies.versions == ("v1.33.4-4.7.0", "v1.33.1-4.5.0", "1.32")
    assert supplies.supported_until == (("v1.33.4-4.7.0", "2027-06-30"),)
    assert read_recorded_supplies(build_supplies_note(supplies)) == supplies
    assert not findings
