"""Tests of dumps with parts that nexusform does not know: one warning, uncertain, and a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.fleet.importers.fleet_export import UNREAD_OBJECTS
from tests.domains.fleet.planning.observed_fleet import build_binding, build_fleet, plan_fleet
from tests.planning.harness import PlanResult, list_errors, list_warnings

POLICY = {"placementType": "PickN", "numberOfClusters": 2}


def build_objects() -> dict[str, Any]:
    """Return the objects of a hub by kind and name, with a cluster of PickN to be picked."""
    objects = build_fleet([build_binding("m3")], policy=dict(POLICY))
    return {f"{item['kind']} {item['metadata']['name']}": item for item in objects}


def plan_objects(objects: dict[str, Any]) -> PlanResult:
    result = plan_fleet(list(objects.values()))
    assert not list_errors(result)
    return result


def find_unread(result: PlanResult) -> str:
    (warning,) = (item for item in list_warnings(result) if item.id == UNREAD_OBJECTS)
    changed = [row for row in result.plan.placements if row.action != "keep"]
    assert changed
    assert all(row.scores["certain"] is False for row in changed)
    return warning.detail


def test_unknown_field_of_a_policy() -> None:
    objects = build_objects()
    objects["ClusterResourcePlacement web"]["spec"]["policy"]["rebalance"] = True
    text = find_unread(plan_objects(objects))
    assert "spec.policy.rebalance of ClusterResourcePlacement web" in text


def test_unknown_effect_of_a_taint() -> None:
    objects = build_objects()
    taints = [
        {"key": "a", "value": "b", "effect": "NoExecute"},
        {"key": "c", "value": "d", "effect": "NoSchedule"},
    ]
    objects["MemberCluster m2"]["spec"]["taints"] = taints
    result = plan_objects(objects)
    assert "spec.taints[0].effect of MemberCluster m2" in find_unread(result)
    # The known taint counts.
    assert {row.object for row in result.plan.placements} == {"m1", "m3"}


def test_unknown_state_of_a_binding() -> None:
    objects = build_objects()
    objects["ClusterResourceBinding web-m3-1"]["spec"]["state"] = "Draining"
    result = plan_objects(objects)
    assert 'spec.state "Draining" is unknown; it is read as Bound' in find_unread(result)
    assert [row.object for row in result.plan.placements if row.action == "keep"] == ["m3"]


def test_increased_number_is_no_deleted_binding() -> None:
    objects = build_objects()
    snapshot = objects["ClusterSchedulingPolicySnapshot web-0"]
    snapshot["metadata"]["annotations"] = {"kubernetes-fleet.io/number-of-clusters": "1"}
    objects["ClusterResourceBinding web-m3-1"]["spec"]["resourceSnapshotName"] = "web-7-snapshot"
    result = plan_objects(objects)
    rows = {row.object: (row.trigger, row.scores.get("certain")) for row in result.plan.placements}
    assert rows["m3"] == ("resources_changed", False)


@pytest.mark.parametrize(
    ("api_version", "kind", "project"),
    [
        ("cluster.open-cluster-management.io/v1", "ManagedCluster", "Open Cluster Management"),
        ("policy.karmada.io/v1alpha1", "PropagationPolicy", "Karmada"),
        ("work.karmada.io/v1alpha1", "Work", "Karmada"),
        ("fleet.cattle.io/v1alpha1", "Bundle", "Rancher Fleet"),
        ("core.kubefed.io/v1beta1", "KubeFedCluster", "KubeFed"),
        ("apps.clusternet.io/v1alpha1", "Subscription", "Clusternet"),
    ],
)
def test_dump_of_another_hub_is_named(
    api_version: str,
    kind: str,
    project: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": {}}
    Path("hub.json").write_text(json.dumps(body))
    Path("main.nf.hcl").write_text(
        'data "fleet_hub_export" "hub" { files = ["hub.json"] }\n'
        'output "complete" { value = data.fleet_hub_export.hub.is_complete }\n'
    )
    assert run_command_line(["plan", "-details"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"objects of {project}, another kind of hub" in printed
    assert "complete = false" in printed


def test_waiting_changes_are_changes_for_a_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    members = "".join(f'resource "fleet_member_cluster" "{name}" {{}}\n' for name in "ab")
    text = members + (
        'resource "fleet_hub_manifest" "h" {\n'
        '  yaml_body = "{apiVersion: v1, kind: Namespace, metadata: {name: web, labels: {v: X}}}"\n'
        "}\n"
        'resource "fleet_cluster_resource_placement" "p" {\n'
        '  resource_selector {\n    version = "v1"\n    kind = "Namespace"\n    name = "web"\n  }\n'
        "  strategy {\n    rolling_update {\n      max_unavailable = 0\n    }\n  }\n}\n"
    )
    for label in "12":
        Path("main.nf.hcl").write_text(text.replace("X", f"v{label}"))
        assert run_command_line(["apply", "-auto-approve"]) == 0
    assert run_command_line(["plan"]) == 0
    assert run_command_line(["plan", "-detailed-exitcode"]) == 2
