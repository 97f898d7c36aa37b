"""Tests of the forms of exports, and of the separation of kinds and sites."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.domains.azure.importers.az_capture_commands import read_export_directory
from nexusform.domains.azure.importers.az_documents import read_export_resources
from nexusform.domains.azure.importers.az_inventory import read_inventory, read_sites
from nexusform.language.evaluation_run import FileProblem
from tests.domains.azure.importers.test_az_inventory import (
    build_cluster,
    build_machine,
    build_node,
    build_rack,
)

RACKS = [build_rack("r1"), build_rack("r2")]


def read_names(name: str, content: str, kind: str = "racks") -> tuple[list[str], list[str]]:
    """Return the names in a document of its kind, and the ids of findings."""
    findings: list[Any] = []
    items = read_export_resources({kind: [(name, content.encode())]}, findings)
    return [item.read_text("name") or "" for item in items.list_resources("racks")], [
        finding.id for finding in findings
    ]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"value": RACKS, "nextLink": None}),
        json.dumps([{"value": RACKS[:1], "nextLink": "https://x.test/2"}, {"value": RACKS[1:]}]),
        json.dumps({"value": RACKS[:1]}) + "\n" + json.dumps({"value": RACKS[1:]}),
        json.dumps({"count": 2, "data": RACKS, "skip_token": None, "total_records": 2}),
        "\n".join(map(json.dumps, RACKS)),
        json.dumps({"$schema": "x", "resources": RACKS}),
    ],
)
def test_every_form_of_a_list_has_the_same_result(content: str) -> None:
    assert read_names("racks.json", content) == (["r1", "r2"], [])


def test_last_of_joined_pages_must_have_no_next_link() -> None:
    content = json.dumps(
        [{"value": RACKS[:1], "nextLink": "x"}, {"value": RACKS[1:], "nextLink": "y"}]
    )
    assert read_names("racks.json", content) == (["r1", "r2"], ["incomplete-list"])


def test_yaml_is_detected_by_file_name() -> None:
    content = "- id: /x/racks/r1\n  name: r1\n- id: /x/racks/r2\n  name: r2\n"
    assert read_names("racks.yaml", content) == (["r1", "r2"], [])
    assert read_names("racks.json", content)[1] == ["invalid-json"]


def test_mixed_list_is_split_by_type() -> None:
    mixed = [
        {**build_rack("r1"), "id": "/x/r1", "type": "Microsoft.NetworkCloud/racks"},
        build_machine("m1"),
        {"id": "/x/storage", "type": "Microsoft.Storage/storageAccounts", "name": "s"},
    ]
    mixed[1] = {**mixed[1], "rackId": "/x/r1"}
    inventory, findings = read_inventory(
        {"any": [("all.json", json.dumps({"data": mixed}).encode())]}
    )
    assert [one.name for one in inventory.machines] == ["m1"]
    assert [one.detail for one in findings if one.id == "resources-not-read"] == [
        'resources of the type "Microsoft.Storage/storageAccounts": not read.'
    ]


def test_template_parameters_have_their_default_values() -> None:
    template = {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        "parameters": {"rack": {"type": "string", "defaultValue": "r9"}},
        "resources": {"one": {**build_rack(), "name": "[parameters('rack')]"}},
    }
    assert read_names("racks.json", json.dumps(template)) == (["r9"], [])


def _build_nested_template(racks: dict[str, Any], passed: Any, scope: str) -> bytes:
    """Build a template with a nested deployment of a Nexus cluster, and a parameter `racks`."""
    cluster = {
        "type": "Microsoft.NetworkCloud/clusters",
        "name": "lon",
        "properties": {"computeRackDefinitions": "[parameters('racks')]"},
    }
    deployment = {
        "type": "Microsoft.Resources/deployments",
        "name": "x",
        "properties": {
            "expressionEvaluationOptions": {"scope": scope},
            "template": {"parameters": {"racks": {}}, "resources": [cluster]},
            "parameters": {"racks": {"value": passed}},
        },
    }
    return json.dumps({"$schema": "x", "parameters": racks, "resources": [deployment]}).encode()


RACK_DEFINITION = {
    "networkRackId": "/x/networkRacks/r7",
    "rackSerialNumber": "s",
    "rackSkuId": "/x/rackSkus/VNearEdge1_Compute_DellR750_8C2M",
    "bareMetalMachineConfigurationData": [{"machineName": "m1", "rackSlot": 1}],
}


@pytest.mark.parametrize(
    ("default", "passed", "scope"),
    [
        ([], [RACK_DEFINITION], "inner"),
        ([RACK_DEFINITION], "[parameters('racks')]", "inner"),
        ([RACK_DEFINITION], [], "outer"),
    ],
)
def test_nested_deployment_has_the_values_of_its_scope(
    default: list[Any], passed: Any, scope: str
) -> None:
    content = _build_nested_template({"racks": {"defaultValue": default}}, passed, scope)
    inventory, _ = read_inventory({"any": [("cluster.json", content)]})
    assert [(one.rack, one.name) for one in inventory.machines] == [("r7", "m1")]


def test_missing_parameter_value_is_named_with_its_remedy() -> None:
    content = _build_nested_template({"racks": {}}, "[parameters('racks')]", "inner")
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#"
    values = json.dumps({"$schema": schema, "parameters": {"racks": {"value": []}}}).encode()
    _, findings = read_inventory(
        {"any": [("cluster.json", content), ("cluster.parameters.json", values)]}
    )
    details = [one.detail for one in findings]
    assert (
        "a parameter file of an ARM template: not read. Set its values as defaultValue of the "
        "parameters in the template."
    ) in details
    assert (
        "racks and machines were not captured, and the template has no value of its parameter "
        "racks. Set its defaultValue in the template."
    ) in details


def test_unreadable_list_of_machines_is_one_error() -> None:
    documents = {
        "racks": [("racks.json", json.dumps([build_rack()]).encode())],
        "bare_metal_machines": [("bare_metal_machines.json", b'[{"id":')],
        "kubernetes_clusters": [
            ("k.json", json.dumps([build_cluster(build_node("n", "m1"))]).encode())
        ],
    }
    _, findings = read_inventory(documents)
    assert [
        finding.id for finding in findings if "machine" in finding.id or finding.severity == "error"
    ] == ["invalid-json"]


def add_location(body: dict[str, Any], site: str) -> dict[str, Any]:
    return {
        **body,
        "extendedLocation": {"name": f"/x/customLocations/{site}-cl", "type": "CustomLocation"},
    }


def test_sites_are_separated_by_their_location() -> None:
    racks = [add_location(build_rack(f"{site}-r"), site) for site in ("lon", "par")]
    machines = [
        {
            **add_location(build_machine(f"{site}-m", rack_name=f"{site}-r"), site),
            "clusterId": f"/x/clusters/{site}1",
        }
        for site in ("lon", "par")
    ]
    clusters = [
        add_location(build_cluster(build_node("n", f"{site}-m"), name="core"), site)
        for site in ("lon", "par")
    ]
    documents = {
        "racks": [("racks.json", json.dumps(racks).encode())],
        "bare_metal_machines": [("m.json", json.dumps(machines).encode())],
        "kubernetes_clusters": [("k.json", json.dumps(clusters).encode())],
        "virtual_machines": [("v.json", b"[]")],
    }
    sites, findings = read_sites(documents)
    # The pools of each site come from its nodes, since the export has none.
    assert [finding.id for finding in findings] == [*["derived-value"] * 2, "not-captured"]
    assert [(site.name, [m.name for m in site.inventory.machines]) for site in sites] == [
        ("lon1", ["lon-m"]),
        ("par1", ["par-m"]),
    ]
    (at,) = sites[1].inventory.clusters[0].nodes
    assert at.placement is not None
    assert at.placement.machine == "par-m"


def test_directory_is_sorted_by_names_without_configuration() -> None:
    files = {
        "racks.json",
        "agent_pools.core.json",
        "nodes.core.json",
        "mine.json",
        "site.nf.json",
        "README.md",
    }

    def read_file(path: str) -> bytes:
        if path.endswith("mine.json"):
            raise FileProblem("gone")
        return b"[]"

    export = read_export_directory("export", files, read_file)
    assert set(export.documents) == {"racks", "agent_pools", "nodes"}
    assert [problem.id for problem in export.problems] == ["unreadable-file"]


def test_nexus_cluster_alone_is_a_planned_site() -> None:
    servers = [{"rackSlot": slot, "machineName": f"c{slot}"} for slot in (1, 2)]
    definition = {
        "networkRackId": "/x/networkRacks/r1",
        "rackSkuId": "/x/rackSkus/VNearEdge1_Compute_DellR750_4C2M",
        "availabilityZone": "1",
        "bareMetalMachineConfigurationData": servers,
    }
    body = {
        "type": "Microsoft.NetworkCloud/clusters",
        "name": "lon1",
        "properties": {"computeRackDefinitions": [definition]},
    }
    rack_sku = {
        "id": "/x/rackSkus/VNearEdge1_Compute_DellR750_4C2M",
        "name": "VNearEdge1_Compute_DellR750_4C2M",
        "type": "Microsoft.NetworkCloud/rackSkus",
        "computeMachines": [{"rackSlot": 1, "model": "PowerEdge R750"}],
        "controllerMachines": [{"rackSlot": 2, "model": "PowerEdge R650"}],
    }
    template = {"$schema": "x", "resources": [body]}
    documents = {
        "any": [
            ("template.json", json.dumps(template).encode()),
            ("skus.json", json.dumps([rack_sku]).encode()),
        ]
    }
    (site,), findings = read_sites(documents)
    assert [finding.id for finding in findings] == ["derived-value"]
    assert site.name == "lon1"
    assert [(one.name, one.availability_zone) for one in site.inventory.racks] == [("r1", "1")]
    assert [
        (one.name, one.machine_sku, tuple(one.facts["roles"])) for one in site.inventory.machines
    ] == [("c1", "bom-1.7.3", ("compute-plane",)), ("c2", "bom-1.7.3", ("management-plane",))]


def test_resource_in_two_equal_files_is_read_once() -> None:
    both = {"racks": [("racks.json", json.dumps(RACKS).encode())], "any": [("all.json", b"")]}
    typed = [
        {**one, "id": one["id"].upper(), "type": "microsoft.networkcloud/racks"} for one in RACKS
    ]
    findings: list[Any] = []
    both["racks"].append(("copy.json", json.dumps(RACKS).encode()))
    both["any"] = [("all.json", json.dumps(typed).encode())]
    items = read_export_resources(both, findings)
    assert [finding.id for finding in findings] == ["duplicate-inventory-resources"]
    # differing copies are kept: the caller reports them.
    assert len(items.list_resources("racks")) == 4


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_yaml_is_read_in_encodings_of_shells(encoding: str) -> None:
    content = "- id: /x/racks/r1\r\n  name: r1\r\n".encode(encoding)
    findings: list[Any] = []
    items = read_export_resources({"racks": [("racks.yaml", content)]}, findings)
    assert (findings, [item.read_text("name") for item in items.list_resources("racks")]) == (
        [],
        ["r1"],
    )
