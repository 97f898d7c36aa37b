"""Tests of snapshots and bindings of a hub export.

They cover indexes, parts, owners, and the readiness of clusters.
"""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.fleet.importers.fleet_export import (
    DIFF_REPORTED,
    FAILED,
    OVERRIDE_FAILED,
    READY,
    UNAVAILABLE,
    WAITING,
    read_placements,
)
from nexusform.domains.fleet.importers.hub_objects import remove_server_fields
from nexusform.domains.fleet.importers.hub_records import read_evictions, read_runs
from nexusform.domains.pods.importers.manifest_parser import Manifest, build_manifest

GROUP = "placement.kubernetes-fleet.io/v1"
FLEET = "kubernetes-fleet.io"


def build_object(
    kind: str, name: str, spec: dict[str, Any], labels: dict[str, str], **more: Any
) -> Manifest:
    metadata = {"name": name, "generation": 2, "labels": labels}
    manifest = build_manifest(
        {"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": spec, **more}
    )
    assert manifest is not None
    return manifest


def build_config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "web"}}


def build_hub_objects(owner: str, *, labelled: bool) -> list[Manifest]:
    """Return a placement with its third policy, content in parts, and one binding."""
    parent = {f"{FLEET}/parent-CRP": owner}
    policy = {**parent, f"{FLEET}/policy-index": "2"} if labelled else {}
    resources = {**parent, f"{FLEET}/resource-index": "12"} if labelled else {}
    parts = []
    for part in ("snapshot", "0", "1"):
        spec = {"selectedResources": [build_config_map(part)]}
        parts.append(build_object("ClusterResourceSnapshot", f"{owner}-12-{part}", spec, resources))
    binding = {
        "state": "Bound",
        "targetCluster": "a",
        "schedulingPolicySnapshotName": f"{owner}-2",
        "resourceSnapshotName": f"{owner}-12-snapshot",
    }
    return [
        build_object("ClusterResourcePlacement", owner, {}, {}),
        build_object("ClusterSchedulingPolicySnapshot", f"{owner}-2", {}, policy),
        *parts,
        build_object("ClusterResourceBinding", f"{owner}-a-1f", binding, parent),
    ]


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("owner", ["web", "web-1", "crp-1", "prod-eu-2", "a-1-0"])
def test_indexes_follow_the_owner_name(owner: str, *, labelled: bool) -> None:
    # Names of other listed placements have the same prefix.
    others = build_hub_objects("web", labelled=labelled) if owner != "web" else []
    shown = read_placements([*others, *build_hub_objects(owner, labelled=labelled)])[owner]
    assert shown.policy_index == 2
    (snapshot,) = shown.snapshots
    assert snapshot.index == 12
    assert {one.name for one in snapshot.objects} == {"snapshot", "0", "1"}
    binding = shown.bindings["a"]
    assert (binding.policy_snapshot, binding.resource_snapshot) == (2, 12)


def read_readiness(*conditions: dict[str, Any]) -> str:
    labels = {f"{FLEET}/parent-CRP": "web"}
    spec = {"state": "Bound", "targetCluster": "a"}
    binding = build_object(
        "ClusterResourceBinding", "b", spec, labels, status={"conditions": list(conditions)}
    )
    return (
        read_placements([build_object("ClusterResourcePlacement", "web", {}, {}), binding])["web"]
        .bindings["a"]
        .readiness
    )


NOT_ALL = "NotAllWorkHaveBeenApplied"


@pytest.mark.parametrize(
    ("kind", "status", "reason", "message", "standing"),
    [
        ("Available", "True", "", "", READY),
        ("DiffReported", "True", "", "", DIFF_REPORTED),
        ("Available", "False", "NotAllWorkAreAvailable", "", UNAVAILABLE),
        ("Available", "False", "ResourceNotAvailableYet", "", WAITING),
        ("Available", "Unknown", "", "", WAITING),
        ("RolloutStarted", "True", "", "", WAITING),
        ("Applied", "False", "ApplyInProgress", "", UNAVAILABLE),
        ("Applied", "False", "ApplyPending", "", WAITING),
        ("Applied", "False", NOT_ALL, "Work object w has failed to apply", FAILED),
        (
            "Applied",
            "False",
            NOT_ALL,
            "Work object w has not yet completed the apply operation",
            UNAVAILABLE,
        ),
        ("Overridden", "False", "OverriddenFailed", "", OVERRIDE_FAILED),
        ("WorkSynchronized", "False", "SyncWorkFailed", "", FAILED),
    ],
)
def test_readiness_of_a_cluster(
    kind: str, status: str, reason: str, message: str, standing: str
) -> None:
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    assert read_readiness(condition) == standing


def test_conditions_of_earlier_generation_are_ignored() -> None:
    assert (
        read_readiness({"type": "Available", "status": "True", "observedGeneration": 1}) == WAITING
    )
    assert read_readiness({"type": "Available", "status": "True", "observedGeneration": 2}) == READY


def test_unprocessed_eviction_is_pending() -> None:
    kind = "ClusterResourcePlacementEviction"
    spec = {"placementName": "web", "clusterName": "a"}
    refused = {"conditions": [{"type": "Valid", "status": "False", "message": "no such placement"}]}
    valid = {"conditions": [{"type": "Valid", "status": "True"}]}
    (over,) = read_evictions([build_object(kind, "e", spec, {}, status=refused)])
    assert (over.valid, over.executed, over.reason) == (False, False, "no such placement")
    assert not list(
        read_evictions(
            [build_object(kind, "e", spec, {}), build_object(kind, "f", spec, {}, status=valid)]
        )
    )


def test_run_with_failed_initialization_has_ended() -> None:
    failed = {"type": "Initialized", "status": "False", "message": "not fully scheduled yet"}
    kind = "ClusterStagedUpdateRun"
    spec = {"placementName": "web"}
    (shown,) = read_runs([build_object(kind, "r", spec, {}, status={"conditions": [failed]})])
    assert (shown.ended, shown.succeeded, shown.reason) == (True, False, "not fully scheduled yet")
    assert not list(read_runs([build_object(kind, "r", spec, {})]))


@pytest.mark.parametrize(
    ("stage", "cluster", "reason"),
    [
        ("False", "False", "stuck"),
        ("True", "False", "cluster a in the finished stage s has not succeeded"),
        ("True", "True", ""),
        ("", "False", ""),
    ],
)
@pytest.mark.parametrize("stages", ["stagesStatus", "deletionStageStatus"])
def test_failed_stage_ends_a_run(stage: str, cluster: str, reason: str, stages: str) -> None:
    """KubeFleet then ends the run at its next pass, before its own conditions say so."""

    def list_conditions(status: str) -> list[dict[str, str]]:
        return [{"type": "Succeeded", "status": status, "message": "stuck"}] if status else []

    clusters = [{"clusterName": "a", "conditions": list_conditions(cluster)}]
    body = {"stageName": "s", "conditions": list_conditions(stage), "clusters": clusters}
    status = {
        "conditions": [{"type": "Initialized", "status": "True"}],
        stages: [body] if stages == "stagesStatus" else body,
    }
    run = build_object("ClusterStagedUpdateRun", "r", {"placementName": "w"}, {}, status=status)
    (shown,) = read_runs([run])
    # Clusters of the last stage disappear.
    expected = "" if stages == "deletionStageStatus" and stage == "True" else reason
    assert (shown.ended, shown.reason) == (bool(expected), expected)


@pytest.mark.parametrize(("address", "is_kept"), [("None", True), ("10.0.0.7", False)])
def test_assigned_address_of_a_service_is_no_content(address: str, *, is_kept: bool) -> None:
    spec = {
        "clusterIP": address,
        "clusterIPs": [address],
        "ports": [{"port": 80, "nodePort": 30080}],
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    kept = {"clusterIP": address, "clusterIPs": [address]} if is_kept else {}
    assert remove_server_fields(service)["spec"] == {**kept, "ports": [{"port": 80}]}
