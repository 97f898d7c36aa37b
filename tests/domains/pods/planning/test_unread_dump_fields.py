"""Tests of fields of dumps that are not read: pods that they may move are not certain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from nexusform.cli.main import run_command_line
from nexusform.domains.pods.importers.dump_fields import LISTS
from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.domains.pods.importers.kubernetes_schemas import get_type_fields
from tests.broken_values import break_values
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.pods.planning.test_cluster_observation import add_standard_objects, plan_observed
from tests.domains.pods.planning.test_dump_doubts import (
    BIG,
    ONE,
    list_certainties,
    list_warning_ids,
)
from tests.planning.harness import require_success

pytestmark = pytest.mark.of_domains("fleet")


def set_field(body: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Return an object with a new field at a path."""
    name, *rest = path
    part = body.get(name) or {}
    return {**body, name: set_field(part, *rest) if rest else {"a": "b"}}


def list_facts(*objects: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Return subject, field and line of the unread facts of a dump."""
    text = json.dumps({"kind": "List", "items": objects}, indent=1)
    reading = parse_kubectl_files([("dump.json", text.encode())])
    return [(fact.subject, fact.field, fact.line) for fact in reading.unread]


def test_fields_of_pods_and_nodes_are_classified() -> None:
    unread = {
        f"{type_name}.{field}"
        for type_name, fields in LISTS.items()
        for field, _ in fields.list_unread(get_type_fields(type_name))
    }
    assert unread == {
        "core_v1.LimitRangeItem.maxLimitRequestRatio",
        "core_v1.PodSpec.evictionResponders",
        "core_v1.PodSpec.schedulingGroup",
        "core_v1.NodeSpec.podPreemptionPolicy",
    }
    for type_name, fields in LISTS.items():
        known = fields.read.union(fields.without_influence, fields.influences)
        assert known <= get_type_fields(type_name).keys()


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "hostOfTheFuture"),
        ("spec", "affinity", "rackAffinity"),
        ("spec", "affinity", "podAffinity", "optional"),
        ("spec", "schedulingGroup"),
        ("future",),
    ],
)
def test_unread_field_of_a_pod_has_its_position(path: tuple[str, ...]) -> None:
    pod = build_pod("a", "n", "1")
    assert list_facts(pod) == []
    changed = set_field(pod, *path)
    ((subject, field, line),) = list_facts(changed)
    assert (subject, field) == ("Pod default/a", ".".join(path))
    text = json.dumps({"kind": "List", "items": [changed]}, indent=1)
    assert f'"{path[-1]}"' in text.splitlines()[line - 1]


def test_unread_fields_of_other_kinds() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "x"},
        "spec": {"newLimit": 3},
    }
    facts = list_facts(
        set_field(build_node("n"), "spec", "dream"), budget, {**budget, "apiVersion": "policy/v9"}
    )
    assert [(subject, field) for subject, field, _ in facts] == [
        ("Node n", "spec.dream"),
        ("PodDisruptionBudget x/b", "spec.newLimit"),
        ("PodDisruptionBudget x/b", "apiVersion policy/v9"),
    ]


def test_field_without_influence_is_silent() -> None:
    pod = build_pod("a", "n", "1")
    pod = {**pod, "spec": {**pod["spec"], "dnsPolicy": "Default", "hostname": "h"}}
    assert list_facts(pod) == []


def test_pods_beside_an_unread_field_are_not_certain() -> None:
    changed = set_field(BIG[1], "spec", "dream")
    result = require_success(plan_observed(ONE, *add_standard_objects(BIG[0], changed)))
    assert list_certainties(result) == {"web-0": (False, "fields that were not read")}
    assert "fields-not-read" in list_warning_ids(result)


def build_versioned_node(name: str, version: str, **more: Any) -> dict[str, Any]:
    """Return a node with a kubelet of a version."""
    node = build_node(name, **more)
    return {**node, "status": {**node["status"], "nodeInfo": {"kubeletVersion": f"v{version}.1"}}}


_FIELDS_BY_VERSION = {
    ("Pod", "spec", "workloadRef"): ("1.35",),
    ("Pod", "spec", "schedulingGroup"): ("1.36", "1.37"),
    ("Pod", "spec", "evictionResponders"): ("1.37",),
    ("Node", "spec", "podPreemptionPolicy"): ("1.37",),
    ("CSIDriver", "spec", "preventPodSchedulingIfMissing"): ("1.36", "1.37"),
    ("CSIDriver", "spec", "serviceAccountTokenInSecrets"): ("1.35", "1.36", "1.37"),
    ("CSIDriver", "spec", "storageCapacity"): ("1.34", "1.35", "1.36", "1.37"),
}


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36", "1.37"])
def test_field_that_the_version_of_the_cluster_lacks_is_unread(version: str) -> None:
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"}}
    for (kind, *path), versions in _FIELDS_BY_VERSION.items():
        bodies = {
            "Pod": build_pod("a", "n", "1"),
            "Node": build_versioned_node("n", version),
            "CSIDriver": driver,
        }
        bodies[kind] = set_field(bodies[kind], *path)
        text = json.dumps({"kind": "List", "items": list(bodies.values())}, indent=1)
        facts = parse_kubectl_files([("dump.json", text.encode())]).unread
        causes = [fact.cause for fact in facts if "does not have it" in fact.cause]
        is_absent = (version if version != "1.33" else "1.34") not in versions
        assert len(causes) == is_absent, (path, facts)
        if is_absent:
            assert f"Kubernetes {version} does not have it" in causes[0]
            assert path[-1] in text.splitlines()[facts[0].line - 1]


def test_kind_that_the_version_of_the_cluster_lacks_is_unread() -> None:
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {"failurePolicy": "Fail"},
    }
    assert list_facts(build_versioned_node("n", "1.36"), policy) == []
    ((subject, field, _),) = list_facts(build_versioned_node("n", "1.35"), policy)
    assert (subject, field) == (
        "MutatingAdmissionPolicy p",
        "apiVersion admissionregistration.k8s.io/v1",
    )


def test_unread_field_of_storage_concerns_pods_with_claims() -> None:
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"}}
    changed = set_field(driver, "spec", "dream")
    result = require_success(plan_observed(ONE, *add_standard_objects(*BIG, changed)))
    assert list_certainties(result) == {"web-0": (True, None)}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"volumeName": "v"},
        "status": {"phase": "Bound"},
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"claimRef": {"namespace": "default", "name": "c"}},
        "status": {"phase": "Bound"},
    }
    claimed = ONE.replace(
        '"containers"',
        '"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], "containers"',
    )
    result = require_success(
        plan_observed(claimed, *add_standard_objects(*BIG, changed, claim, volume))
    )
    assert list_certainties(result) == {"web-0": (False, "fields that were not read")}


def test_plan_lists_the_unread_fields_of_a_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(
        """
data "kubernetes_nodes" "n" {
  files      = ["dump.json"]
  cluster_id = "paris"
}
resource "nexus_site" "s" {}
output "count" { value = data.kubernetes_nodes.n.pod_count }
"""
    )
    items = [set_field(build_node("n"), "spec", "dream")]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": items}))
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    assert "dream of Node n (dump.json:1)" in " ".join(capfd.readouterr().out.split())
    # A refresh reads the block for the output.
    assert run_command_line(["plan", "-refresh-only"]) == 0
    assert "dream of Node n (dump.json:1)" in " ".join(capfd.readouterr().out.split())
    assert run_command_line(["show", "-json", "p.nfplan"]) == 0
    (fact,) = json.loads(capfd.readouterr().out)["unread"]
    assert (fact["subject"], fact["field"], fact["address"]) == (
        "Node n",
        "spec.dream",
        "data.kubernetes_nodes.n",
    )


def read_dump(document: dict[str, Any]) -> list[str]:
    """Return the findings and unread facts of a dump."""
    output = parse_kubectl_files([("dump.json", json.dumps(document).encode())])
    findings = [finding.detail for finding in output.findings]
    return [*findings, *(fact.cause for fact in output.unread)]


def test_value_of_a_wrong_kind_is_never_silent() -> None:
    items = json.loads(json.dumps([build_pod("a", "n", "1"), build_node("n")]))
    document = {"kind": "List", "items": items}
    assert read_dump(document) == []
    silent = {
        (*path, repr(value))
        for path, value, changed in break_values(document)
        # A number is a quantity, too, and a list has its items without its kind.
        if not read_dump(changed) and value != 7 and path != ("kind",)
    }
    assert silent == set()


@pytest.mark.parametrize("separator", ["", "---\n"])
def test_unread_field_in_yaml_has_its_line(separator: str) -> None:
    node = yaml.safe_dump(build_node("node1"))
    changed = yaml.safe_dump(set_field(build_node("node2"), "spec", "dream"))
    text = f"{node}{separator}{changed}" if separator else changed
    (fact,) = parse_kubectl_files([("dump.yaml", text.encode())]).unread
    assert "dream" in text.splitlines()[fact.line - 1]


@pytest.mark.parametrize(("version", "is_there"), [("1.36", False), ("1.37", True)])
def test_field_of_a_manifest_that_the_version_lacks_is_named(version: str, is_there: bool) -> None:
    nodes = [
        {**node, "status": {**node["status"], "nodeInfo": {"kubeletVersion": f"v{version}.0"}}}
        for node in BIG
    ]
    text = ONE.replace(
        '"containers"', '"volumes": [{"name": "v", "emptyDir": {"mode": 448}}], "containers"'
    )
    result = require_success(plan_observed(text, *add_standard_objects(*nodes)))
    expected = (True, None) if is_there else (False, "rules of others")
    assert list_certainties(result) == {"web-0": expected}
    details = [item.detail for item in result.plan.diagnostics if item.id == "field-not-in-version"]
    assert len(details) == (not is_there)
    for detail in details:
        assert "volumes.emptyDir.mode, but Kubernetes 1.36 does not have it" in detail
