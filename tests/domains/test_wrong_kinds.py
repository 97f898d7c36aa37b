"""Tests that no value of a wrong kind in a foreign document is taken for an absent one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from nexusform.diagnostics.diagnostic import Problem
from nexusform.documents.json_positions import find_json_lines
from nexusform.domains.azure.importers.arm_what_if import read_arm_what_if, read_stack_what_if
from nexusform.domains.azure.importers.az_inventory import read_changed_sites, read_sites
from nexusform.domains.azure.importers.azure_fields import ENVELOPE, FIELDS
from nexusform.domains.azure.importers.terraform_plan import read_terraform_plan
from nexusform.domains.fleet.importers.hub_dump_fields import list_unread_facts
from nexusform.domains.openstack.importers.openstack_fields import LISTS
from nexusform.domains.openstack.importers.openstack_files import parse_openstack_files
from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.vnf.importers.vnf_reading import read_vnf
from nexusform.domains.vnf.importers.vnf_records import VnfSourceDocuments
from nexusform.doubts.doubt import Doubt
from tests.broken_values import break_values
from tests.domains.azure.workflow.test_listed_sites import GROUP, build_bodies
from tests.domains.fleet.types.test_fleet_hub_export import build_binding, build_member
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.test_new_fields import EXPORT, LIST, PLACEMENT, VM, read_rows
from tests.domains.vnf.test_broken_values import HOT
from tests.domains.vnf.test_unread_tosca_fields import VNFD

EXAMPLES = Path(__file__).parents[2] / "examples"
Read: TypeAlias = Callable[[str], Iterator[str]]


def describe(problems: Iterable[Problem], facts: Iterable[Doubt]) -> Iterator[str]:
    """Yield each finding and unread fact with its position."""
    for problem in problems:
        yield f"{problem.file}:{problem.line} {problem.path} {problem.detail}"
    for fact in facts:
        yield f"{fact.position} {fact.cause}"


def read_source(source: str) -> Read:
    def read(text: str) -> Iterator[str]:
        vnf = read_vnf(VnfSourceDocuments(**{source: text}))
        return describe(vnf.findings, vnf.unread)

    return read


def read_hub(text: str) -> Iterator[str]:
    reading = parse_manifests("file", text.encode())
    return describe(reading.findings, list_unread_facts(reading.manifests))


def read_kubectl(text: str) -> Iterator[str]:
    reading = parse_kubectl_files([("file", text.encode())])
    return describe(reading.findings, reading.unread)


def read_table(name: str) -> Read:
    def read(text: str) -> Iterator[str]:
        contents = {path.stem: path.read_bytes() for path in EXPORT.glob("*.json")}
        reading = parse_openstack_files({**contents, name: text.encode()})
        return describe(reading.problems, reading.unread)

    return read


def read_azure(kind: str) -> Read:
    def read(text: str) -> Iterator[str]:
        documents = {**build_small_export(), kind.partition(".")[0]: [("file", text.encode())]}
        sites, problems = read_sites(documents)
        return describe(problems, (fact for site in sites for fact in site.inventory.unread))

    return read


def read_plan(read_changes: Callable[[str, bytes], Any]) -> Read:
    def read(text: str) -> Iterator[str]:
        changes, problems = read_changes("file", text.encode())
        sites, _, findings = read_changed_sites(build_small_export(), changes, {})
        facts = (fact for site in sites for fact in site.inventory.unread)
        return describe([*problems, *findings], facts)

    return read


@cache
def build_small_export() -> Mapping[str, Any]:
    """Build an export of two machines, without VMs."""
    bodies = build_bodies()
    documents = {"kubernetes_clusters": bodies["kubernetes_clusters"]}
    for kind in ("racks", "bare_metal_machines", "clusters"):
        documents[kind] = bodies[kind][:2]
    documents["kubernetes_clusters"][0]["properties"]["nodes"] = []
    return {
        kind: [(f"{kind}.json", json.dumps(items).encode())] for kind, items in documents.items()
    }


POOL = {
    "location": "east",
    "properties": {
        "mode": "User",
        "count": 1,
        "vmSkuName": "NC_P10_56_v1",
        "availabilityZones": ["1"],
        "labels": [{"key": "a", "value": "b"}],
        "upgradeSettings": {"maxSurge": "1"},
    },
}
DIAGNOSTICS = [{"code": "Nested", "message": "m", "target": "t"}]
WHAT_IF = {
    "status": "Succeeded",
    "changes": [
        {"resourceId": VM["id"], "changeType": "Create", "after": VM},
        {
            "resourceId": f"{GROUP}/kubernetesClusters/c/agentPools/np2",
            "changeType": "Create",
            "after": POOL,
        },
    ],
    "potentialChanges": [],
    "diagnostics": DIAGNOSTICS,
}
STACK = {
    "properties": {
        "provisioningState": "succeeded",
        "changes": {
            "resourceChanges": [
                {
                    "id": VM["id"],
                    "changeType": "create",
                    "changeCertainty": "definite",
                    "resourceConfigurationChanges": {"after": VM},
                }
            ]
        },
    }
}
# Document, its reader, and the names of fields without influence.
AZURE_LABELS = {
    *ENVELOPE.without_influence,
    *(name for fields in FIELDS.values() for name in fields.without_influence),
}
TERRAFORM_LABELS = {
    *AZURE_LABELS,
    "format_version",
    "terraform_version",
    "provider_name",
    # The changes have the same values.
    "root_module",
}
VNF_LABELS = {
    "name",
    "id",
    "image",
    "network",
    "networks",
    "flavour_description",
    "order",
    "tosca_definitions_version",
    # Such a flavor is known only in the cloud.
    "get_resource",
}
OBJECTS = [PLACEMENT, build_binding("a"), build_member("b", "east")]
CASES: dict[str, tuple[Any, Read, set[str]]] = {
    "HOT": (yaml.safe_load(HOT), read_source("base_hot"), VNF_LABELS),
    "TOSCA": (yaml.safe_load(VNFD), read_source("vnfd"), VNF_LABELS),
    "hub": ({**LIST, "items": OBJECTS}, read_hub, set()),
    "kubectl": (
        {**LIST, "items": [build_pod("a", "n", "1"), build_node("n1")]},
        read_kubectl,
        set(),
    ),
    **{
        f"OpenStack {name}": (
            read_rows(name),
            read_table(name),
            {*fields.without_influence, "rules", "parent_provider_uuid"},
        )
        for name, (_, fields) in LISTS.items()
        if read_rows(name)
    },
    **{
        f"Azure {kind}": (bodies[:2], read_azure(kind), AZURE_LABELS)
        for kind, bodies in build_bodies().items()
        if bodies
    },
    "ARM what-if": (WHAT_IF, read_plan(read_arm_what_if), AZURE_LABELS),
    "stack": (STACK, read_plan(read_stack_what_if), AZURE_LABELS),
    "Terraform": (
        json.loads((EXAMPLES / "terraform-plan" / "plan.json").read_text()),
        read_plan(read_terraform_plan),
        TERRAFORM_LABELS,
    ),
}


def is_valid(path: tuple[str | int, ...], value: Any) -> bool:
    """Return whether a field may have the other kind."""
    # The kind and version of a list say nothing about its items, and a change has an id itself.
    if path in (("apiVersion",), ("kind",)) or path[-2:] in (("after", "id"), ("after", "name")):
        return True
    if path[-1] == "stats" and isinstance(value, dict):
        # Nova has many statistics, in no list.
        return True
    if value == 7 and value is not True:
        # An id of OpenStack, and a quantity of Kubernetes.
        return path[-1] in ("ID", "id") or bool({"requests", "capacity", "allocatable"} & {*path})
    # The mark of an unknown value.
    return value is True and "after_unknown" in path


def names_field(words: Iterable[str], path: tuple[str | int, ...], text: str) -> bool:
    """Return whether a word names the field at a path or around it, or has its line or index."""
    names = [str(step) for step in path if isinstance(step, str)][-2:]
    lines = find_json_lines(text, {path, path[:-1]}).values()
    positions = [*(f":{line} " for line in lines), f"[{path[-1]}]", str(path).rstrip(",)")]
    marks = [normalize(mark) for mark in (*names, *positions)]
    return any(mark in normalize(word) for word in words for mark in marks)


def normalize(text: str) -> str:
    return text.casefold().replace("_", " ").replace("-", " ")


@pytest.mark.parametrize("name", CASES)
def test_value_of_a_wrong_kind_is_never_silent(name: str) -> None:
    document, read, labels = CASES[name]
    # Dates are texts.
    document = json.loads(json.dumps(document, default=str))
    words = set(read(json.dumps(document, indent=1)))
    silent = set()
    for path, value, changed in break_values(document):
        columns = {str(step).lower().replace(" ", "_") for step in path}
        if is_valid(path, value) or labels & columns.union(map(str, path)):
            continue
        text = json.dumps(changed, indent=1)
        if not names_field(set(read(text)) - words, path, text):
            silent.add((*path, repr(value)))
    assert silent == set()
