"""Tests that a field invented in any kind of foreign document is unread, with its position."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nexusform.domains.azure.importers.arm_what_if import read_arm_what_if
from nexusform.domains.azure.importers.az_inventory import read_changed_sites, read_sites
from nexusform.domains.azure.importers.terraform_plan import read_terraform_plan
from nexusform.domains.fleet.importers.hub_dump_fields import list_unread_facts
from nexusform.domains.openstack.importers.openstack_fields import LISTS
from nexusform.domains.openstack.importers.openstack_files import parse_openstack_files
from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.vnf.importers.vnf_reading import read_vnf
from nexusform.domains.vnf.importers.vnf_records import VnfSourceDocuments
from nexusform.doubts.doubt import Doubt
from tests.domains.azure.workflow.test_listed_sites import GROUP, build_bodies, build_body
from tests.domains.fleet.types.test_fleet_hub_export import (
    build_binding,
    build_member,
    build_object,
)
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.vnf.test_broken_values import HOT
from tests.domains.vnf.test_unread_tosca_fields import VNFD

EXPORT = Path(__file__).parents[2] / "examples" / "every-type" / "documents" / "openstack"
FIELD = "fieldOfTheFuture"
Facts = Iterable[Doubt]


def read_vnfd(text: str) -> Facts:
    return read_vnf(VnfSourceDocuments(vnfd=text)).unread


def read_hot(text: str) -> Facts:
    return read_vnf(VnfSourceDocuments(base_hot=text)).unread


def read_kubectl(text: str) -> Facts:
    return parse_kubectl_files([("file", text.encode())]).unread


def read_hub(text: str) -> Facts:
    return list_unread_facts(parse_manifests("file", text.encode()).manifests)


def read_table(name: str) -> Callable[[str], Facts]:
    def read(text: str) -> Facts:
        contents = {path.stem: path.read_bytes() for path in EXPORT.glob("*.json")}
        contents[name] = text.encode()
        return [
            fact for fact in parse_openstack_files(contents).unread if fact.file.startswith(name)
        ]

    return read


# Files that `openstack ... show` prints.
OBJECTS = ("hypervisor", "image", "topology")


def read_rows(name: str) -> Any:
    path = EXPORT / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def build_export() -> dict[str, list[tuple[str, bytes]]]:
    documents: dict[str, list[tuple[str, bytes]]] = {}
    for kind, bodies in build_bodies().items():
        documents.setdefault(kind.partition(".")[0], []).append(
            (f"{kind}.json", json.dumps(bodies).encode())
        )
    return documents


def read_export(kind: str) -> Callable[[str], Facts]:
    def read(text: str) -> Facts:
        documents = build_export()
        documents[kind.partition(".")[0]] = [("file", text.encode())]
        sites, _ = read_sites(documents)
        return [fact for site in sites for fact in site.inventory.unread]

    return read


def read_what_if(text: str) -> Facts:
    changes, _ = read_arm_what_if("file", text.encode())
    sites, _, _ = read_changed_sites(build_export(), changes, {})
    return [fact for site in sites for fact in site.inventory.unread]


def read_terraform(text: str) -> Facts:
    changes, _ = read_terraform_plan("file", text.encode())
    sites, _, _ = read_changed_sites(build_export(), changes, {})
    return [fact for site in sites for fact in site.inventory.unread]


VM = {
    "extendedLocation": {"name": "x", "type": "CustomLocation"},
    "location": "east",
    **build_body(
        "virtualMachines",
        "v",
        {
            "clusterId": f"{GROUP}/clusters/lon1",
            "cpuCores": 4,
            "memorySizeGB": 8,
            "storageProfile": {"osDisk": {"diskSizeGB": 50}},
        },
    ),
}
WHAT_IF = {
    "status": "Succeeded",
    "changes": [{"resourceId": VM["id"], "changeType": "Create", "after": VM}],
}
NEW_POOL = {"mode": "User", "count": 1, "vmSkuName": "NC_P10_56_v1"}
CLUSTER_ID = f"{GROUP}/kubernetesClusters/c"
POOL_WHAT_IF = {
    "status": "Succeeded",
    "changes": [
        {
            "resourceId": f"{CLUSTER_ID}/agentPools/np2",
            "changeType": "Create",
            "after": {"location": "east", "properties": NEW_POOL},
        }
    ],
}
CHANGE_WHAT_IF = {
    "properties": {
        "status": "Succeeded",
        "changes": [
            {
                "resourceId": CLUSTER_ID,
                "changeType": "Modify",
                "after": {"properties": {"kubernetesVersion": "v1.30.1"}},
            }
        ],
    }
}
TEMPLATE = {
    "$schema": "deploymentTemplate.json",
    "resources": {
        name: {**body, "type": "Microsoft.NetworkCloud/bareMetalMachines"}
        for name, body in zip(("m1", "m2"), build_bodies()["bare_metal_machines"], strict=False)
    },
}
TERRAFORM = {
    "format_version": "1.2",
    "planned_values": {},
    "configuration": {},
    "resource_changes": [
        {
            "address": "azapi_resource.v",
            "mode": "managed",
            "type": "azapi_resource",
            "name": "v",
            "provider_name": "registry.terraform.io/azure/azapi",
            "change": {
                "actions": ["create"],
                "before": None,
                "after": {
                    "type": "Microsoft.NetworkCloud/virtualMachines@2025-02-01",
                    "name": "v",
                    "parent_id": "/subscriptions/s/resourceGroups/g",
                    "body": {"properties": VM["properties"]},
                },
                "after_unknown": {},
            },
        }
    ],
}
PLACEMENT = build_object("ClusterResourcePlacement", "web", {"resourceSelectors": []})
LIST = {"apiVersion": "v1", "kind": "List"}
Path_ = tuple[str | int, ...]
# Document as data, its reader, and the path of the object with the new field.
CASES: dict[str, tuple[Any, Callable[[str], Facts], Path_]] = {
    "HOT template": (yaml.safe_load(HOT), read_hot, ()),
    "HOT resource": (yaml.safe_load(HOT), read_hot, ("resources", "a")),
    "HOT server": (yaml.safe_load(HOT), read_hot, ("resources", "a", "properties")),
    "HOT group": (yaml.safe_load(HOT), read_hot, ("resources", "group", "properties")),
    "TOSCA VDU": (
        yaml.safe_load(VNFD),
        read_vnfd,
        ("topology_template", "node_templates", "VDU1", "properties"),
    ),
    "pod": ({**LIST, "items": [build_pod("a", "n", "1")]}, read_kubectl, ("items", 0, "spec")),
    "node": ({**LIST, "items": [build_node("n1")]}, read_kubectl, ("items", 0, "spec")),
    "hub placement": ({**LIST, "items": [PLACEMENT]}, read_hub, ("items", 0, "spec")),
    "hub binding": ({**LIST, "items": [build_binding("a")]}, read_hub, ("items", 0, "spec")),
    "hub member": ({**LIST, "items": [build_member("a", "east")]}, read_hub, ("items", 0, "spec")),
    **{
        f"OpenStack {name}": (read_rows(name) or [{"name": "a"}], read_table(name), (0,))
        for name in LISTS
        if name not in OBJECTS
    },
    **{f"OpenStack {name}": ({"name": "a"}, read_table(f"{name}-0"), ()) for name in OBJECTS},
    **{
        f"Azure {kind}": (bodies, read_export(kind), (0, "properties"))
        for kind, bodies in build_bodies().items()
        if bodies
    },
    # Symbolic names.
    "ARM template": (
        TEMPLATE,
        read_export("bare_metal_machines"),
        ("resources", "m2", "properties"),
    ),
    "ARM what-if of a pool": (POOL_WHAT_IF, read_what_if, ("changes", 0, "after", "properties")),
    "ARM what-if of a change": (
        CHANGE_WHAT_IF,
        read_what_if,
        ("properties", "changes", 0, "after", "properties"),
    ),
    "ARM what-if": (WHAT_IF, read_what_if, ("changes", 0, "after", "properties")),
    "Terraform plan": (
        TERRAFORM,
        read_terraform,
        ("resource_changes", 0, "change", "after", "body", "properties"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_new_field_is_unread_with_its_position(name: str) -> None:
    document, read, path = CASES[name]
    # Dates are texts.
    document = json.loads(json.dumps(document, default=str))
    before = {fact.field for fact in read(json.dumps(document, indent=1))}
    assert not [field for field in before if FIELD.lower() in field.lower()]
    part = document
    for step in path:
        part = part[step]
    part[FIELD] = "x"
    text = json.dumps(document, indent=1)
    facts = [fact for fact in read(text) if FIELD.lower() in fact.field.lower().replace("_", "")]
    assert facts
    assert FIELD in text.splitlines()[facts[0].line - 1]


def test_unread_field_of_a_body_in_a_text_has_the_line_of_the_text() -> None:
    document = json.loads(json.dumps(TERRAFORM))
    after = document["resource_changes"][0]["change"]["after"]
    # azapi 1 prints the body as a text.
    after["body"] = json.dumps({"properties": {**VM["properties"], FIELD: "x"}})
    text = json.dumps(document, indent=1)
    (fact,) = read_terraform(text)
    assert FIELD in text.splitlines()[fact.line - 1]


def test_unread_field_of_a_changed_resource_has_the_line_of_its_export() -> None:
    bodies = build_bodies()
    bodies["kubernetes_clusters"][0]["properties"][FIELD] = "x"
    text = json.dumps(bodies["kubernetes_clusters"], indent=1)
    documents = {**build_export(), "kubernetes_clusters": [("file.json", text.encode())]}
    changes, _ = read_arm_what_if("plan.json", json.dumps(CHANGE_WHAT_IF).encode())
    sites, _, _ = read_changed_sites(documents, changes, {})
    (fact,) = (fact for site in sites for fact in site.inventory.unread)
    assert fact.file == "file.json"
    assert FIELD in text.splitlines()[fact.line - 1]
