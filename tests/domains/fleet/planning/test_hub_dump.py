"""A whole dump of a running hub on which nothing is to be done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.fleet.planning.hub_dumps import configuration, needs_recordings, recorded, write_dump
from tests.domains.fleet.planning.test_hub_stories import Dump
from tests.planning.harness import errors, plan

pytestmark = needs_recordings


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_dump(recorded("dump")["items"], tmp_path)


def test_nothing_is_to_be_done(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = told(capsys, "plan", "-out", "saved.nfplan")
    assert code == 0, out
    assert "0 to place, 0 to move, 0 to remove, 11 kept" in out
    assert "! " not in out
    assert "Rollout (earliest start" not in out
    for never in ("Event", "kube-", "fleet-member-", "fleet-system", "Namespace default", "Work "):
        assert never not in out, never
    code, out = told(capsys, "apply", "saved.nfplan")
    assert (code, "Apply complete!" in out) == (0, True), out
    code, out = told(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out, "11 kept" in out) == (0, True, True), out


def test_snapshots_keep_their_numbers_and_contents(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "apply", "-auto-approve")
    code, out = told(capsys, "state", "pull")
    assert code == 0
    state = json.loads(out)
    placement = _instance(state, "core")
    snapshots = {one["index"]: one for one in placement["private"]["snapshots"]}
    assert sorted(snapshots) == [0, 1]
    bodies = placement["private"]["bodies"]
    data = {i: [bodies[h].get("data") for h in one["objects"]] for i, one in snapshots.items()}
    assert data == {0: [None, {"a": "v0"}], 1: [None, {"a": "v1"}]}


def _instance(state: Any, key: str) -> dict[str, Any]:
    """The placement of this name, wherever the state keeps it."""
    found: list[dict[str, Any]] = []

    def look(part: Any) -> None:
        if isinstance(part, dict):
            private, attributes = part.get("private"), part.get("attributes")
            noted = isinstance(private, dict) and "snapshots" in private
            if noted and isinstance(attributes, dict) and attributes.get("id") == key:
                found.append(part)
            for inner in part.values():
                look(inner)
        elif isinstance(part, list):
            for inner in part:
                look(inner)

    look(state)
    return found[0]


TAINT = "taint &{Key:k Value:v Effect:NoSchedule} cannot be tolerated"
AFFINITY = "cluster does not match with any of the required cluster affinity terms"
APART = "cluster is not connected to the fleet: no recent heartbeat signals (last received 7 minutes ago)"


def without(binding_of: str, cluster: str, objects: list[Any]) -> list[Any]:
    """The objects of a hub where a placement of all clusters has none of one."""
    kept = []
    for each in objects:
        if each["kind"] == "ClusterResourceBinding" and each["metadata"]["name"].startswith(f"{binding_of}-{cluster}-"):
            continue
        if (each["kind"], each["metadata"]["name"]) == ("ClusterResourcePlacement", binding_of):
            statuses = each["status"]["placementStatuses"]
            each["status"]["placementStatuses"] = [s for s in statuses if s.get("clusterName") != cluster]
        kept.append(each)
    return kept


def refuse(placement: str, cluster: str, reason: str, objects: list[Any]) -> None:
    """Let the latest policy snapshot of a placement tell of a cluster that was refused."""
    for each in objects:
        if (each["kind"], each["metadata"]["name"]) == ("ClusterSchedulingPolicySnapshot", f"{placement}-0"):
            decisions = [d for d in each["status"]["targetClusters"] if d["clusterName"] != cluster]
            refused = {"clusterName": cluster, "selected": False, "reason": reason}
            each["status"]["targetClusters"] = [*decisions, refused]


@pytest.mark.parametrize("reason", [TAINT, AFFINITY, APART])
def test_the_scheduler_has_not_looked_since_a_refusal_was_lifted(
    reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = without("core", "fra1", recorded("dump")["items"])
    refuse("core", "fra1", f"ClusterUnschedulable, {reason}", objects)
    write_dump(objects, tmp_path)
    code, out = told(capsys, "plan", "-out", "saved.nfplan")
    assert code == 0, out
    assert "1 to place, 0 to move, 0 to remove, 10 kept" in out
    code, out = told(capsys, "apply", "saved.nfplan")
    assert (code, "Apply complete!" in out) == (0, True), out


def test_a_member_has_joined_that_the_scheduler_has_not_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = without("core", "fra1", recorded("dump")["items"])
    for each in objects:
        if (each["kind"], each["metadata"]["name"]) == ("ClusterSchedulingPolicySnapshot", "core-0"):
            decisions = each["status"]["targetClusters"]
            each["status"]["targetClusters"] = [d for d in decisions if d["clusterName"] != "fra1"]
    write_dump(objects, tmp_path)
    code, out = told(capsys, "plan")
    assert (code, "1 to place, 0 to move, 0 to remove, 10 kept" in out) == (0, True), out


def test_a_member_that_is_still_tainted_stays_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = without("core", "fra1", recorded("dump")["items"])
    refuse("core", "fra1", f"ClusterUnschedulable, {TAINT}", objects)
    for each in objects:
        if (each["kind"], each["metadata"]["name"]) == ("MemberCluster", "fra1"):
            each["spec"]["taints"] = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    write_dump(objects, tmp_path)
    code, out = told(capsys, "plan")
    assert (code, "0 to place, 0 to move, 0 to remove, 10 kept" in out) == (0, True), out


def test_a_named_member_has_joined_and_the_scheduler_has_not_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = without("fixed", "ams1", recorded("dump")["items"])
    refuse("fixed", "ams1", 'Specified cluster "ams1" is not found', objects)
    write_dump(objects, tmp_path)
    code, out = told(capsys, "plan")
    assert (code, "1 to place, 0 to move, 0 to remove, 10 kept" in out) == (0, True), out


def test_what_a_fulfilled_placement_refused_before_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = recorded("dump")["items"]
    refuse("shop", "fra1", f"ClusterUnschedulable, {TAINT}", objects)
    write_dump(objects, tmp_path)
    code, out = told(capsys, "plan")
    assert (code, "0 to place, 0 to move, 0 to remove, 11 kept" in out) == (0, True), out


def overridden(cluster: str, label: str, objects: list[Any]) -> None:
    """Let an override that names core be on a cluster, for those with this region."""
    version = "placement.kubernetes-fleet.io/v1beta1"
    selector = {"labelSelector": {"matchLabels": {"region": label}}}
    patch = {"op": "add", "path": "/metadata/annotations", "value": {"from": "override"}}
    rule = {"clusterSelector": {"clusterSelectorTerms": [selector]}, "jsonPatchOverrides": [patch]}
    spec = {
        "placement": {"name": "core"},
        "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "core"}],
        "policy": {"overrideRules": [{**rule, "overrideType": "JSONPatch"}]},
    }
    override = {"apiVersion": version, "kind": "ClusterResourceOverride", "metadata": {"name": "o"}}
    labels = {"kubernetes-fleet.io/parent-resource-override": "o", "kubernetes-fleet.io/override-index": "0"}
    labels["kubernetes-fleet.io/is-latest-snapshot"] = "true"
    snapshot = {"kind": "ClusterResourceOverrideSnapshot", "metadata": {"name": "o-0", "labels": labels}}
    objects += [
        {**override, "spec": spec},
        {"apiVersion": version, **snapshot, "spec": {"overrideSpec": spec, "overrideHash": "eA=="}},
    ]
    for each in objects:
        name = each["metadata"]["name"]
        if each["kind"] == "ClusterResourceBinding" and name.startswith(f"core-{cluster}-"):
            each["spec"]["clusterResourceOverrideSnapshots"] = ["o-0"]


def said_of_lon1(objects: list[Any]) -> str:
    """What a plan of a hub foretells of overriding core on lon1, which the hub says went well."""
    for each in objects:
        if (each["kind"], each["metadata"]["name"]) == ("ClusterResourcePlacement", "core"):
            for status in each["status"]["placementStatuses"]:
                of_overriding = [one for one in status["conditions"] if one["type"] == "Overridden"]
                of_overriding[0]["reason"] = "OverriddenSucceeded"
    result = plan(configuration(), files_there=Dump(objects))
    assert not errors(result)
    (after,) = [each.after for each in result.plan.changes if each.after and each.after.get("id") == "core"]
    (status,) = [each for each in after["placement_statuses"] if each["cluster_name"] == "lon1"]
    return next(str(each["reason"]) for each in status["conditions"] if each["type"] == "Overridden")


@pytest.mark.parametrize("label", ["uk", "elsewhere"])
def test_a_member_with_another_label_gets_no_other_overrides(label: str) -> None:
    objects = recorded("dump")["items"]
    overridden("lon1", label, objects)
    assert said_of_lon1(objects) == "OverriddenSucceeded"


def test_an_override_that_names_the_placement_and_is_gone_begins_a_rollout() -> None:
    objects = recorded("dump")["items"]
    overridden("lon1", "uk", objects)
    objects = [each for each in objects if each["kind"] != "ClusterResourceOverride"]
    assert said_of_lon1(objects) == "NoOverrideSpecified"
