"""Tests of data kubernetes_manifests.

It has the objects of files by kind, and members as on a hub. It ignores no input.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.diagnostic import Severity
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.types.fleet_hub_manifest import FLEET_HUB_MANIFEST
from nexusform.domains.fleet.types.kubernetes_manifests import (
    ATTRIBUTES,
    MEMBER,
    read_manifests_data,
)
from nexusform.interfaces.plugins import DataResult, ReadContext
from tests.domains.fleet.importers.test_fleet_documents import SPECS, build_manifest_text
from tests.resource_types.memory_files import NOW, MemoryFiles

MEMBERS = """apiVersion: cluster.kubernetes-fleet.io/v1
kind: MemberCluster
metadata:
  name: NAME
  labels: {region: east, kubernetes-fleet.io/member-name: NAME}
spec:
  identity: {kind: ServiceAccount, name: agent, namespace: fleet-system, apiGroup: ""}
  taints:
  - {key: old, value: "yes", effect: NoSchedule}
status:
  agentStatus:
  - type: MemberAgent
    lastReceivedHeartbeat: "2026-01-01T10:0MINUTE:00Z"
    conditions:
    - {type: Joined, status: "True"}
    - {type: Healthy, status: "HEALTHY", lastTransitionTime: "2026-01-01T09:00:00Z"}
  conditions:
  - {type: NamespaceCollectionSucceeded, status: "True"}
  namespaces: {web: work-1}
  properties:
    kubernetes-fleet.io/node-count: {value: "3", observationTime: "2026-01-01T10:00:00Z"}
  resourceUsage:
    capacity: {cpu: "12", memory: 48Gi}
    allocatable: {cpu: "11"}
    available: {cpu: "5"}
"""


def build_member_text(name: str, minute: str = "9", healthy: str = "True") -> str:
    return MEMBERS.replace("NAME", name).replace("MINUTE", minute).replace("HEALTHY", healthy)


def read_files(lenient: bool = False, **files: str) -> DataResult:
    arguments = {"directory": "hub", "lenient": lenient}
    contents = {f"hub/{name}.yaml": text.encode() for name, text in files.items()}
    return read_manifests_data(arguments, ReadContext(MemoryFiles(contents), NOW))


def test_every_api_kind_has_an_attribute() -> None:
    assert sorted([*ATTRIBUTES, MEMBER]) == sorted(API_KINDS)


def test_objects_in_many_documents_are_sorted_by_kind() -> None:
    everything = "---\n".join(build_manifest_text(kind) for kind in SPECS)
    others = (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: "
        "web}}\n"
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: web}, data: {a: b}}\n"
    )
    got = read_files(a=everything, b=others)
    assert got.problems == []
    for kind in SPECS:
        (name,) = got.attributes[ATTRIBUTES[kind]]
        assert name in ("it", "web/it")
        assert json.loads(got.attributes[ATTRIBUTES[kind]][name])["kind"] == kind
    assert list(got.attributes["hub_objects"]) == ["Namespace web", "ConfigMap web/c"]


@pytest.mark.parametrize(
    ("minute", "healthy", "health"),
    [("9", "True", "Healthy"), ("1", "True", "NoHeartbeat"), ("9", "False", "Unhealthy")],
)
def test_member_attributes_come_from_its_status(minute: str, healthy: str, health: str) -> None:
    got = read_files(a=build_member_text("one", minute, healthy), b=build_member_text("newest"))
    assert got.problems == []
    assert got.attributes["member_clusters"]["one"] == {
        "labels": {"region": "east"},
        "taints": [{"key": "old", "value": "yes", "effect": "NoSchedule"}],
        "health": health,
        "properties": {"kubernetes-fleet.io/node-count": "3"},
        "resources": {
            "total": {"cpu": "12", "memory": "48Gi"},
            "allocatable": {"cpu": "11"},
            "available": {"cpu": "5"},
        },
        "namespaces": ["web"],
    }


@pytest.mark.parametrize(
    ("old", "new", "health"),
    [
        ('type: Joined, status: "True"', 'type: Joined, status: "False"', "NotJoined"),
        ("type: Healthy", "type: Other", "NoHealth"),
        ("type: MemberAgent", "type: ServiceExport", "NoAgent"),
        ("  name: one\n", '  name: one\n  deletionTimestamp: "2026-01-01T10:00:00Z"\n', "Leaving"),
    ],
)
def test_reasons_for_ineligible_members(old: str, new: str, health: str) -> None:
    got = read_files(a=build_member_text("one").replace(old, new, 1), b=build_member_text("newest"))
    assert got.attributes["member_clusters"]["one"]["health"] == health


def test_member_without_status_is_healthy_with_a_warning() -> None:
    got = read_files(a=build_member_text("one")[: build_member_text("one").index("status:\n")])
    assert got.attributes["member_clusters"]["one"]["health"] == "Healthy"
    assert [p.id for p in got.problems] == ["unknown-member-health"]


def test_no_input_is_ignored() -> None:
    placement = build_manifest_text("ClusterResourcePlacement")
    wrong = placement.replace("numberOfClusters", "numberOfCluster")
    work = (
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourceBinding\nmetadata: "
        "{name: x}\n"
    )
    got = read_files(a=placement, b=wrong + "---\n" + work + "---\n- 1\n")
    said = [p.detail for p in got.problems if p.severity is Severity.ERROR]
    assert got.attributes == {}
    assert any(
        text.startswith('hub/b.yaml:13: unknown field "spec.policy.numberOfCluster"')
        for text in said
    )
    assert any("ClusterResourceBinding x is created by the hub itself" in text for text in said)
    assert any("a manifest is a mapping" in text for text in said)
    assert any("is already defined in hub/a.yaml:1" in text for text in said)
    assert [p.severity for p in read_files().problems] == [Severity.ERROR]


def test_lenient_mode_accepts_slips() -> None:
    text = build_manifest_text("ClusterResourcePlacement").replace("env: prod", "env: 1")
    assert [p.severity for p in read_files(a=text).problems] == [Severity.ERROR]
    lenient = read_files(lenient=True, a=text)
    assert [p.severity for p in lenient.problems] == [Severity.WARNING]
    assert "[unquoted-text]" in lenient.problems[0].detail


FLEET = """
data "kubernetes_manifests" "hub" {
  directory = "hub"
}

resource "fleet_member_cluster" "all" {
  for_each   = data.kubernetes_manifests.hub.member_clusters
  name       = each.key
  labels     = each.value.labels
  health     = each.value.health
  properties = each.value.properties
  namespaces = each.value.namespaces

  resources {
    total       = each.value.resources.total
    allocatable = each.value.resources.allocatable
    available   = each.value.resources.available
  }

  dynamic "taint" {
    for_each = each.value.taints
    content {
      key    = taint.value.key
      value  = taint.value.value
      effect = taint.value.effect
    }
  }
}

resource "fleet_hub_manifest" "all" {
  for_each  = data.kubernetes_manifests.hub.hub_objects
  yaml_body = each.value
}

resource "fleet_cluster_resource_placement" "all" {
  for_each = data.kubernetes_manifests.hub.cluster_resource_placements
  manifest = each.value
}
"""
EVERYWHERE = """apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: everywhere}
spec:
  resourceSelectors:
  - {group: "", version: v1, kind: Namespace, name: web}
  policy:
    placementType: PickAll
    tolerations:
    - {key: old, operator: Exists}
"""


def test_directory_becomes_a_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "members.yaml").write_text(
        "---\n".join([build_member_text("one"), build_member_text("late", "1")])
    )
    (tmp_path / "hub" / "objects.yaml").write_text(
        f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: web}}\n---\n{EVERYWHERE}"
    )
    (tmp_path / "main.nf.hcl").write_text(FLEET)
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["plan", "-no-color"]) == 0
    printed = capsys.readouterr().out
    assert 'fleet_cluster_resource_placement.all["everywhere"]' in printed
    assert "one  " in printed
    assert "1 to place" in printed


MISSPELT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web}
spec:
  replicsa: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
"""


def test_misspelt_object_key_is_an_error_at_its_line() -> None:
    (problem,) = read_files(a=MISSPELT).problems
    assert problem.detail == (
        'hub/a.yaml:5: Deployment web/web: unknown field "spec.replicsa". Did you mean "replicas"?'
    )
    found = FLEET_HUB_MANIFEST.check and FLEET_HUB_MANIFEST.check({"yaml_body": MISSPELT})
    assert [each.detail for each in found or ()] == [
        problem.detail.replace("hub/a.yaml", "yaml_body")
    ]


def test_invalid_taint_has_a_line() -> None:
    text = build_member_text("one").replace("key: old, value", 'key: "o d", value')
    (problem,) = read_files(a=text).problems
    assert problem.detail.startswith("hub/a.yaml:9: Invalid taint key: name part must")
    twice = '- {key: old, value: "yes", effect: NoSchedule}'
    (problem,) = read_files(
        a=build_member_text("one").replace(twice, f"{twice}\n  {twice}")
    ).problems
    assert "taints must be unique" in problem.detail


def test_invalid_member_name_has_a_line() -> None:
    (problem,) = read_files(
        a=build_member_text("one").replace("  name: one", "  name: One_1")
    ).problems
    assert problem.detail.startswith('hub/a.yaml:4: Name "One_1": a lowercase RFC 1123 subdomain')
