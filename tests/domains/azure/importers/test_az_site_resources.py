"""Tests of networks and storage of an export.

Lists of REST and of `az`, complete, partial and invalid.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.azure.importers.az_documents import read_export_resources
from nexusform.domains.azure.importers.az_site_resources import read_site_resources
from nexusform.plans.site_capacity.site_resource_capacity import (
    ApplianceUsage,
    NetworkAddresses,
    SiteResources,
    build_site_resources_note,
    read_recorded_site_resources,
)

IDS = "/subscriptions/0/resourceGroups/RG/providers/Microsoft.NetworkCloud"


def build_body(kind: str, name: str, group: str = "rg", **properties: Any) -> dict[str, Any]:
    return {
        "id": f"{IDS.replace('RG', group)}/{kind}/{name}",
        "name": name,
        "properties": properties,
    }


def read_supplies(**kinds: Any) -> tuple[SiteResources, list[str]]:
    findings: list[Problem] = []
    documents = {
        kind: [(f"{kind}.json", json.dumps(bodies).encode())] for kind, bodies in kinds.items()
    }
    supplies = read_site_resources(read_export_resources(documents, findings))
    return supplies, [finding.id for finding in findings]


@pytest.mark.parametrize(
    ("prefix", "hosts"),
    [
        ("10.1.0.0/24", 254),
        ("10.1.0.0/30", 2),
        ("10.1.0.0/31", 1),
        ("10.1.0.4/32", 1),
        ("2001:db8::/64", None),
    ],
)
def test_number_of_hosts_of_a_prefix(prefix: str, hosts: int | None) -> None:
    supplies, findings = read_supplies(
        l3_networks=[build_body("l3Networks", "n", ipv4ConnectedPrefix=prefix)]
    )
    assert supplies.networks == (NetworkAddresses("n", hosts, 0),)
    assert not findings


@pytest.mark.parametrize("prefix", ["10.1.0.0/33", "ten", "10.1.0.9-10.1.0.2", "300.1.1.1/24"])
def test_invalid_prefix_is_reported_and_not_counted(prefix: str) -> None:
    supplies, findings = read_supplies(
        l3_networks=[build_body("l3Networks", "n", ipv4ConnectedPrefix=prefix)]
    )
    assert supplies.networks == (NetworkAddresses("n", None, 0),)
    assert findings == ["invalid-addresses"]


def test_output_of_az_equals_response_of_rest() -> None:
    rest = [build_body("l3Networks", "n", ipv4ConnectedPrefix="10.1.0.0/24")]
    flat = [{"id": rest[0]["id"], "name": "n", "ipv4ConnectedPrefix": "10.1.0.0/24"}]
    assert read_supplies(l3_networks={"value": rest}) == read_supplies(l3_networks=flat)


def test_empty_list_is_zero_and_missing_file_is_unknown() -> None:
    nothing, _ = read_supplies()
    assert (nothing.networks, nothing.storage, nothing.volumes) == (None, None, None)
    none, _ = read_supplies(l3_networks=[], storage_appliances=[], volumes=[])
    assert (none.networks, none.storage, none.volumes) == ((), (), (0, 0))


def test_incomplete_list_is_unknown() -> None:
    cut = {"value": [build_body("volumes", "v", sizeMiB=10)], "nextLink": "https://more"}
    supplies, _ = read_supplies(volumes=cut)
    assert supplies.volumes is None


def test_catalog_of_versions_is_read() -> None:
    catalog = build_body(
        "kubernetesVersions", "default", values=[{"version": "v1.31.4-4.5.0"}, {"version": "1.32"}]
    )
    supplies, findings = read_supplies(kubernetes_versions=[catalog])
    assert supplies.versions == ("v1.31.4-4.5.0", "1.32")
    assert read_supplies(kubernetes_versions=[])[0].versions == ()
    assert read_supplies()[0].versions is None
    assert not findings


def test_networks_of_one_name_are_qualified() -> None:
    two = [
        build_body("l3Networks", "n", group, ipv4ConnectedPrefix="10.1.0.0/24")
        for group in ("a", "b")
    ]
    cluster = build_body(
        "kubernetesClusters", "c", networkConfiguration={"cniNetworkId": two[1]["id"].upper()}
    )
    supplies, _ = read_supplies(l3_networks=two, kubernetes_clusters=[cluster])
    assert [network.name for network in supplies.networks or ()] == ["a/n", "b/n"]
    assert supplies.clusters[0].network == "b/n"


def test_clusters_have_pod_addresses_and_load_balancer_pools() -> None:
    network = {
        "cniNetworkId": f"{IDS}/l3Networks/n",
        "podCidrs": ["10.244.0.0/16", "fd00::/64"],
        "bgpServiceLoadBalancerConfiguration": {
            "ipAddressPools": [{"name": "one", "addresses": ["10.9.0.0/27", "10.8.0.5-10.8.0.9"]}]
        },
        "l2ServiceLoadBalancerConfiguration": {
            "ipAddressPools": [{"name": "two", "addresses": ["10.7.0.1/32"]}]
        },
    }
    nodes = [{"name": "c-1"}, {"name": "c-2"}]
    cluster = build_body("kubernetesClusters", "c", networkConfiguration=network, nodes=nodes)
    supplies, findings = read_supplies(kubernetes_clusters=[cluster])
    [read_cluster] = supplies.clusters
    assert read_cluster.pod_addresses == 65_536
    assert read_cluster.load_balancer_pools == (("one", 37), ("two", 1))
    assert (read_cluster.network, read_cluster.nodes) == ("n", 2)
    assert not findings


def test_vms_use_addresses_and_appliances_report_usage() -> None:
    network = build_body("l3Networks", "n", ipv4ConnectedPrefix="10.1.0.0/24")
    attachment = {"attachedNetworkId": network["id"].lower()}
    supplies, _ = read_supplies(
        l3_networks=[network],
        virtual_machines=[
            build_body("virtualMachines", f"v{n}", networkAttachments=[attachment])
            for n in range(3)
        ],
        storage_appliances=[build_body("storageAppliances", "s", capacity=100, capacityUsed=40)],
        volumes=[
            build_body("volumes", "v", sizeMiB=1500),
            build_body("volumes", "w", sizeMiB=None),
        ],
    )
    assert supplies.networks == (NetworkAddresses("n", 254, 3),)
    assert supplies.storage == (ApplianceUsage("s", 100, 40),)
    assert supplies.volumes == (2, 1500)


BUNDLES = (
    "[{ components: {Name: calico, Type: Feature, Version: v1.9.1},{Name: AzureLinux3, Type: "
    "OSImage, Version: 1.33.2-1}, endOfExtendedAvailabilityDate: 2028-06-30 00:00:00 +0000 UTC, "
    "generalAvailabilityDate: 2026-01-01 00:00:00 +0000 UTC, patchVersion: v1.33.4-4.7.0, "
    "supportExpiryDate: 2027-06-30 00:00:00 +0000 UTC }, { components: {Name: calico, Type: "
    "Feature, Version: v1.9.0}, endOfExtendedAvailabilityDate: 2027-01-31 00:00:00 +0000 UTC, "
    "generalAvailabilityDate: 0001-01-01 00:00:00 +0000 UTC, patchVersion: v1.33.1-4.5.0, "
    "supportExpiryDate: 0001-01-01 00:00:00 +0000 UTC }]"
)


def test_bundles_are_read_from_description_of_version() -> None:
    values = [
        {"version": "1.33", "description": BUNDLES},
        {"version": "1.32", "description": "no bundle"},
    ]
    supplies, findings = read_supplies(
        kubernetes_versions=[build_body("kubernetesVersions", "default", values=values)]
    )
    assert supplies.versions == ("v1.33.4-4.7.0", "v1.33.1-4.5.0", "1.32")
    assert supplies.supported_until == (("v1.33.4-4.7.0", "2027-06-30"),)
    assert read_recorded_site_resources(build_site_resources_note(supplies)) == supplies
    assert not findings
