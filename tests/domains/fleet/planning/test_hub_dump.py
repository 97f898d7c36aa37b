"""Tests of a complete dump of a running hub without pending changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.fleet.planning.hub_dumps import (
    build_configuration,
    needs_recordings,
    read_recording,
    write_dump,
)
from tests.domains.fleet.planning.test_hub_stories import Dump
from tests.planning.harness import list_errors, plan

pytestmark = needs_recordings


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_dump(read_recording("dump")["items"], tmp_path)


def test_plan_of_dump_has_no_changes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_command(capsys, "plan", "-out", "saved.nfplan")
    assert code == 0, out
    assert "0 to place, 0 to move, 0 to remove, 11 kept" in out
    # The recorded hub has a budget that outlived its placement.
    assert out.count("! ") == 1
    assert "! record-without-effect  budget ext:" in out
    assert "Rollout (earliest start" not in out
    for never in ("Event", "kube-", "fleet-member-", "fleet-system", "Namespace default", "Work "):
        assert never not in out, never
    code, out = run_command(capsys, "apply", "saved.nfplan")
    assert (code, "Apply complete!" in out) == (0, True), out
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out, "11 kept" in out) == (0, True, True), out


def test_snapshots_keep_indexes_and_contents(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(capsys, "apply", "-auto-approve")
    code, out = run_command(capsys, "state", "pull")
    assert code == 0
    state = json.loads(out)
    placement = _find_instance(state, "core")
    snapshots = {one["index"]: one for one in placement["private"]["snapshots"]}
    assert sorted(snapshots) == [0, 1]
    bodies = placement["private"]["bodies"]
    data = {i: [bodies[h].get("data") for h in one["objects"]] for i, one in snapshots.items()}
    assert data == {0: [None, {"a": "v0"}], 1: [None, {"a": "v1"}]}


def _find_instance(state: Any, key: str) -> dict[str, Any]:
    """Return the placement of this name from anywhere in the state."""
    found: list[dict[str, Any]] = []

    def search(part: Any) -> None:
        if isinstance(part, dict):
            private = part.get("private")
            attributes = part.get("attributes")
            noted = isinstance(private, dict) and "snapshots" in private
            if noted and isinstance(attributes, dict) and attributes.get("id") == key:
                found.append(part)
            for inner in part.values():
                search(inner)
        elif isinstance(part, list):
            for inner in part:
                search(inner)

    search(state)
    return found[0]


TAINT = "taint &{Key:k Value:v Effect:NoSchedule} cannot be tolerated"
AFFINITY = "cluster does not match with any of the required cluster affinity terms"
APART = (
    "cluster is not connected to the fleet: no recent heartbeat signals (last received 7 minutes "
    "ago)"
)


def remove_binding(binding_of: str, cluster: str, objects: list[Any]) -> list[Any]:
    """Return the objects of a hub without the binding of a placement on one cluster."""
    kept = []
    for each in objects:
        if each["kind"] == "ClusterResourceBinding" and each["metadata"]["name"].startswith(
            f"{binding_of}-{cluster}-"
        ):
            continue
        if (each["kind"], each["metadata"]["name"]) == ("ClusterResourcePlacement", binding_of):
            statuses = each["status"]["placementStatuses"]
            each["status"]["placementStatuses"] = [
                s for s in statuses if s.get("clusterName") != cluster
            ]
        kept.append(each)
    return kept


def reject_cluster(placement: str, cluster: str, reason: str, objects: list[Any]) -> None:
    """Record a rejected cluster in the latest policy snapshot of a placement."""
    for each in objects:
        if (each["kind"], each["metadata"]["name"]) == (
            "ClusterSchedulingPolicySnapshot",
            f"{placement}-0",
        ):
            decisions = [d for d in each["status"]["targetClusters"] if d["clusterName"] != cluster]
            refused = {"clusterName": cluster, "selected": False, "reason": reason}
            each["status"]["targetClusters"] = [*decisions, refused]


@pytest.mark.parametrize("reason", [TAINT, AFFINITY, APART])
def test_cluster_with_removed_rejection_is_placed(
    reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = remove_binding("core", "fra1", read_recording("dump")["items"])
    reject_cluster("core", "fra1", f"ClusterUnschedulable, {reason}", objects)
    write_dump(objects, tmp_path)
    code, out = run_command(capsys, "plan", "-out", "saved.nfplan")
    assert code == 0, out
    assert "1 to place, 0 to move, 0 to remove, 10 kept" in out
    code, out = run_command(capsys, "apply", "saved.nfplan")
    assert (code, "Apply complete!" in out) == (0, True), out


def test_new_member_unseen_by_scheduler_is_placed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = remove_binding("core", "fra1", read_recording("dump")["items"])
    for each in objects:
        if (each["kind"], each["metadata"]["name"]) == (
            "ClusterSchedulingPolicySnapshot",
            "core-0",
        ):
            decisions = each["status"]["targetClusters"]
            each["status"]["targetClusters"] = [d for d in decisions if d["clusterName"] != "fra1"]
    write_dump(objects, tmp_path)
    code, out = run_command(capsys, "plan")
    assert (code, "1 to place, 0 to move, 0 to remove, 10 kept" in out) == (0, True), out


def test_tainted_member_stays_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = remove_binding("core", "fra1", read_recording("dump")["items"])
    reject_cluster("core", "fra1", f"ClusterUnschedulable, {TAINT}", objects)
    for each in objects:
        if (each["kind"], each["metadata"]["name"]) == ("MemberCluster", "fra1"):
            each["spec"]["taints"] = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    write_dump(objects, tmp_path)
    code, out = run_command(capsys, "plan")
    assert (code, "0 to place, 0 to move, 0 to remove, 10 kept" in out) == (0, True), out


def test_newly_joined_named_member_is_placed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = remove_binding("fixed", "ams1", read_recording("dump")["items"])
    reject_cluster("fixed", "ams1", 'Specified cluster "ams1" is not found', objects)
    write_dump(objects, tmp_path)
    code, out = run_command(capsys, "plan")
    assert (code, "1 to place, 0 to move, 0 to remove, 10 kept" in out) == (0, True), out


def test_rejection_of_fulfilled_placement_is_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = read_recording("dump")["items"]
    reject_cluster("shop", "fra1", f"ClusterUnschedulable, {TAINT}", objects)
    write_dump(objects, tmp_path)
    code, out = run_command(capsys, "plan")
    assert (code, "0 to place, 0 to move, 0 to remove, 11 kept" in out) == (0, True), out


def apply_override(cluster: str, label: str, objects: list[Any]) -> None:
    """Record an override of core on a cluster, for members with this region."""
    version = "placement.kubernetes-fleet.io/v1beta1"
    selector = {"labelSelector": {"matchLabels": {"region": label}}}
    patch = {"op": "add", "path": "/metadata/annotations", "value": {"from": "override"}}
    rule = {"clusterSelector": {"clusterSelectorTerms": [selector]}, "jsonPatchOverrides": [patch]}
    spec = {
        "placement": {"name": "core"},
        "clusterResourceSelectors": [
            {"group": "", "version": "v1", "kind": "Namespace", "name": "core"}
        ],
        "policy": {"overrideRules": [{**rule, "overrideType": "JSONPatch"}]},
    }
    override = {"apiVersion": version, "kind": "ClusterResourceOverride", "metadata": {"name": "o"}}
    labels = {
        "kubernetes-fleet.io/parent-resource-override": "o",
        "kubernetes-fleet.io/override-index": "0",
    }
    labels["kubernetes-fleet.io/is-latest-snapshot"] = "true"
    snapshot = {
        "kind": "ClusterResourceOverrideSnapshot",
        "metadata": {"name": "o-0", "labels": labels},
    }
    objects += [
        {**override, "spec": spec},
        {"apiVersion": version, **snapshot, "spec": {"overrideSpec": spec, "overrideHash": "eA=="}},
    ]
    for each in objects:
        name = each["metadata"]["name"]
        if each["kind"] == "ClusterResourceBinding" and name.startswith(f"core-{cluster}-"):
            each["spec"]["clusterResourceOverrideSnapshots"] = ["o-0"]


def predict_overridden_reason(objects: list[Any]) -> str:
    """Return the predicted Overridden reason of core on lon1, with success reported by the hub."""
    for each in objects:
        if (each["kind"], each["metadata"]["name"]) == ("ClusterResourcePlacement", "core"):
            for status in each["status"]["placementStatuses"]:
                of_overriding = [one for one in status["conditions"] if one["type"] == "Overridden"]
                of_overriding[0]["reason"] = "OverriddenSucceeded"
    result = plan(build_configuration(), files_there=Dump(objects))
    assert not list_errors(result)
    (after,) = [
        each.after for each in result.plan.changes if each.after and each.after.get("id") == "core"
    ]
    (status,) = [each for each in after["placement_statuses"] if each["cluster_name"] == "lon1"]
    return next(
        str(each["reason"]) for each in status["conditions"] if each["type"] == "Overridden"
    )


@pytest.mark.parametrize("label", ["uk", "elsewhere"])
def test_member_with_another_label_gets_no_override(label: str) -> None:
    objects = read_recording("dump")["items"]
    apply_override("lon1", label, objects)
    assert predict_overridden_reason(objects) == "OverriddenSucceeded"


def test_deleted_override_of_placement_starts_rollout() -> None:
    objects = read_recording("dump")["items"]
    apply_override("lon1", "uk", objects)
    objects = [each for each in objects if each["kind"] != "ClusterResourceOverride"]
    assert predict_overridden_reason(objects) == "NoOverrideSpecified"
