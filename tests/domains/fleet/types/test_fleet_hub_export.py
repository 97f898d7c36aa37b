"""Tests of a live hub in the output of kubectl: a plan starts from its current bindings."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from nexusform.cli.main import run_command_line
from tests.domains.pods.importers.cluster_objects import (
    DEFAULT_NAMESPACE,
    build_node,
    print_objects,
)

GROUP = "placement.kubernetes-fleet.io/v1"
FLEET = "kubernetes-fleet.io"
CONFIGURATION = """
data "fleet_hub_export" "hub" {
  files = ["hub.json"]
}
resource "fleet_member_cluster" "m" {
  for_each = data.fleet_hub_export.hub.member_clusters
  name     = each.key
  labels   = each.value.labels
  health   = each.value.health
}
resource "fleet_hub_manifest" "o" {
  for_each  = data.fleet_hub_export.hub.hub_objects
  yaml_body = each.value
}
resource "fleet_cluster_resource_placement" "p" {
  for_each = data.fleet_hub_export.hub.cluster_resource_placements
  manifest = each.value
}
"""
POLICY = {
    "placementType": "PickN",
    "affinity": {
        "clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": "east"}}}]
            }
        }
    },
}


def compute_hash(policy: Mapping[str, Any] | None) -> str:
    """Return the hash of a policy without a number, as the field of bytes of a snapshot."""
    text = json.dumps(policy, separators=(",", ":"))
    return b64encode(sha256(text.encode()).hexdigest().encode()).decode()


def build_object(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    server = {"uid": name, "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": GROUP,
        "kind": kind,
        "metadata": {"name": name, **server, **metadata},
        "spec": spec,
    }


def build_member(name: str, region: str) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"region": region}},
        "spec": {"identity": {"kind": "ServiceAccount", "name": "x", "namespace": "fleet-system"}},
    }


def build_binding(cluster: str, snapshot: int = 3) -> dict[str, Any]:
    spec = {
        "state": "Bound",
        "targetCluster": cluster,
        "resourceSnapshotName": f"web-{snapshot}-snapshot",
        "schedulingPolicySnapshotName": "web-1",
        "clusterDecision": {"clusterScore": {"affinityScore": 0, "priorityScore": 0}},
    }
    name = f"web-{cluster}-1234"
    return build_object("ClusterResourceBinding", name, spec, labels={f"{FLEET}/parent-CRP": "web"})


def build_hub(*clusters: str) -> list[dict[str, Any]]:
    """Return four members with a placement on these clusters.

    By current labels, a fresh schedule picks others.
    """
    placement = build_object(
        "ClusterResourcePlacement",
        "web",
        {
            "resourceSelectors": [
                {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
            ],
            "policy": {**POLICY, "numberOfClusters": 2},
        },
        labels={
            "kustomize.toolkit.fluxcd.io/name": "apps",
            "kustomize.toolkit.fluxcd.io/namespace": "flux",
        },
        finalizers=[f"{FLEET}/crp-cleanup"],
    )
    scheduled = {
        "type": "ClusterResourcePlacementScheduled",
        "status": "True",
        "reason": "r",
        "message": "m",
    }
    placement["metadata"]["generation"] = 2
    placement["status"] = {
        "conditions": [scheduled],
        "placementStatuses": [
            {"clusterName": cluster, "conditions": [{"type": "Scheduled", "status": "True"}]}
            for cluster in clusters
        ],
    }
    parent = {f"{FLEET}/parent-CRP": "web", f"{FLEET}/is-latest-snapshot": "true"}
    policy = build_object(
        "ClusterSchedulingPolicySnapshot",
        "web-1",
        {"policy": POLICY, "policyHash": compute_hash(POLICY)},
        labels={**parent, f"{FLEET}/policy-index": "1"},
        annotations={f"{FLEET}/number-of-clusters": "2", f"{FLEET}/CRP-generation": "2"},
    )
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
    resources = build_object(
        "ClusterResourceSnapshot",
        "web-3-snapshot",
        {"selectedResources": [namespace]},
        labels={**parent, f"{FLEET}/resource-index": "3"},
    )
    members = [build_member(name, name[:4]) for name in ("east1", "east2", "west1", "west2")]
    return [*members, placement, policy, resources, *map(build_binding, clusters)]


def write_hub(items: list[dict[str, Any]]) -> None:
    Path("hub.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a directory with a configuration that reads everything from the hub."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    write_hub(build_hub("west1", "east1"))


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


def write_edited_configuration(old: str, new: str) -> None:
    Path("main.nf.hcl").write_text(CONFIGURATION.replace(old, new))


def test_live_placement_keeps_its_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_command(capsys, "plan")
    assert (code, "0 to place, 0 to move, 0 to remove, 2 kept" in out) == (0, True), out
    assert (
        "1 object of the hub is applied by other managers (Flux Kustomization flux/apps: 1)" in out
    )
    assert run_command(capsys, "apply", "-auto-approve")[0] == 0
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out, "2 kept" in out) == (0, True, True), out


def test_plan_starts_from_current_hub(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(capsys, "apply", "-auto-approve")
    write_hub(build_hub("east2", "east1"))
    code, out = run_command(capsys, "plan")
    assert (code, "0 to place, 0 to move, 0 to remove, 2 kept" in out) == (0, True), out
    run_command(capsys, "apply", "-auto-approve")
    assert "No changes." in run_command(capsys, "plan")[1]


def test_binding_moved_on_hub_is_an_observed_row(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(capsys, "apply", "-auto-approve")
    write_hub(build_hub("east2", "east1"))
    out = run_command(capsys, "plan", "-details")[1]
    assert "moved on the hub: west1 -> east2" in out
    assert "0 to place, 0 to move, 0 to remove, 2 kept" in out
    run_command(capsys, "apply", "-auto-approve")
    out = run_command(capsys, "plan", "-details")[1]
    assert "moved" not in out


def test_missing_binding_on_hub_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(capsys, "apply", "-auto-approve")
    items = build_hub("west1", "east1")
    write_hub([one for one in items if one["metadata"]["name"] != "web-west1-1234"])
    out = run_command(capsys, "plan", "-details")[1]
    assert "web was predicted on west1, but the hub does not have it there" in out


@pytest.mark.parametrize(
    ("kind", "comes"), [("PickAll", "3 to place"), ("PickN", "east2 -> Bound")]
)
def test_deleted_binding_is_reported_for_every_state(
    kind: str, comes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [
        one for one in build_hub("west1", "east1") if one["metadata"]["name"] != "web-west1-1234"
    ]
    for one in items:
        if kind == "PickAll" and one["kind"] in (
            "ClusterResourcePlacement",
            "ClusterSchedulingPolicySnapshot",
        ):
            one["spec"]["policy"] = {"placementType": "PickAll"}
    write_hub(items)
    said = (
        "The hub's status lists web on west1, but the binding there was deleted",
        "but the hub does not have it there",
    )
    for warning in said:
        code, out = run_command(capsys, "plan", "-details", "-detailed-exitcode")
        assert warning in out
        assert comes in out
        assert "(binding_deleted; uncertain)" in out
        assert (code, "No changes" in out) == (2, False)
        run_command(capsys, "apply", "-auto-approve")


def test_unscheduled_binding_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    items = build_hub("west1", "gone")
    for one in items:
        if one["kind"] in ("ClusterResourcePlacement", "ClusterSchedulingPolicySnapshot"):
            one["spec"]["policy"] = {
                "placementType": "PickFixed",
                "clusterNames": ["west1", "gone"],
            }
    items[-1]["spec"]["state"] = "Unscheduled"
    items[-1]["metadata"]["annotations"] = {f"{FLEET}/previous-binding-state": "Bound"}
    write_hub(items)
    out = run_command(capsys, "plan", "-details")[1]
    assert "0 to remove, 2 kept. Of these, 1 stays Unscheduled." in out
    out = run_command(capsys, "explain", 'fleet_cluster_resource_placement.p["web"]')[1]
    assert "Unscheduled, but not removed yet: gone." in out
    assert "west1 Bound already bound" in out


def test_increased_number_keeps_existing_bindings(capsys: pytest.CaptureFixture[str]) -> None:
    write_edited_configuration(
        "manifest = each.value",
        r'manifest = replace(each.value, "\"numberOfClusters\": 2", "\"numberOfClusters\": 3")',
    )
    code, out = run_command(capsys, "plan")
    assert (code, "1 to place, 0 to move, 0 to remove, 2 kept" in out) == (0, True), out
    assert "east2 -> Bound (number_of_clusters_increased; uncertain)" in out


def test_json_and_yaml_of_a_hub_are_equivalent(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(capsys, "apply", "-auto-approve")
    text = "---\n".join(yaml.safe_dump(item) for item in build_hub("west1", "east1"))
    Path("hub.yaml").write_text(text)
    write_edited_configuration("hub.json", "hub.yaml")
    assert "No changes." in run_command(capsys, "plan")[1]


@pytest.mark.parametrize("kind", ["ClusterResourceBinding", "MemberCluster"])
def test_uncaptured_kinds_are_reported(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_hub([item for item in build_hub("west1", "east1") if item["kind"] != kind])
    code, out = run_command(capsys, "plan", "-details")
    expected = (
        "no binding of it was captured"
        if kind != "MemberCluster"
        else "No MemberCluster was captured"
    )
    assert expected in out
    assert "kubectl get clusterresourceplacements" in out
    assert code == (1 if kind != "MemberCluster" else 0)


def test_first_page_of_a_hub_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    """Members of other pages have not left the fleet."""
    run_command(capsys, "apply", "-auto-approve")
    items = [item for item in build_hub("west1", "east1") if item["metadata"]["name"] != "west2"]
    body = {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"continue": "abc"}}
    Path("hub.json").write_text(json.dumps(body))
    code, out = run_command(capsys, "plan")
    assert code == 1
    assert "this list is not complete: more objects remain" in out
    assert "1 to remove" not in out


def test_unknown_binding_state_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    items = build_hub("west1")
    items[-1]["spec"]["state"] = "Boundd"
    Path("hub.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
    )
    line = 1 + Path("hub.json").read_text().split('"Boundd"')[0].count("\n")
    code, out = run_command(capsys, "plan")
    assert code == 0
    assert f'hub.json:{line}: ClusterResourceBinding web-west1-1234: spec.state "Boundd"' in out
    assert 'Did you mean "Bound"?' in out
    assert "no binding of it was captured" not in out
    del items[-1]["spec"]["targetCluster"]
    write_hub(items)
    assert "spec.targetCluster is missing" in run_command(capsys, "plan")[1]


def test_uncaptured_snapshot_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    items = build_hub("west1", "east1")
    for item in items[-2:]:
        item["spec"]["resourceSnapshotName"] = "web-9-snapshot"
    write_hub(items)
    code, out = run_command(capsys, "plan", "-details")
    assert code == 0
    assert "resourceSnapshotName web-9-snapshot was not captured, so its content is unknown." in out
    assert "and 1 more use it." in out
    assert "schedulingPolicySnapshotName" not in out


def build_healthy_hub() -> list[dict[str, Any]]:
    """Return a hub of which everything that decides on placements is known."""
    items = build_hub("west1", "east1")
    conditions = [{"type": kind, "status": "True"} for kind in ("Joined", "Healthy")]
    heartbeat = {"type": "MemberAgent", "lastReceivedHeartbeat": "2026-01-01T10:00:00Z"}
    for item in items[:4]:
        item["status"] = {"agentStatus": [{**heartbeat, "conditions": conditions}]}
    rolled_out = ("RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available")
    for item in items[4:]:
        if item["kind"] == "ClusterResourceBinding":
            done = [{"type": kind, "status": "True"} for kind in rolled_out]
            item["status"] = {"conditions": done}
        elif item["kind"] == "ClusterSchedulingPolicySnapshot":
            item["status"] = {"conditions": [{"type": "Scheduled", "status": "True"}]}
        elif item["kind"] == "ClusterResourceSnapshot":
            item["metadata"]["annotations"] = {f"{FLEET}/number-of-resource-snapshots": "1"}
    return items


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("ClusterResourcePlacement", "status"),
        ("ClusterResourceBinding", "status"),
        ("ClusterSchedulingPolicySnapshot", "status"),
        ("ClusterSchedulingPolicySnapshot", "metadata.annotations"),
        ("ClusterResourceSnapshot", "metadata.annotations"),
        ("MemberCluster", "metadata.labels"),
    ],
)
def test_part_that_every_hub_writes_was_not_read_if_absent(
    kind: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    items = build_healthy_hub()
    for item in items:
        if item["kind"] == kind:
            *parents, name = part.split(".")
            body = item[parents[0]] if parents else item
            del body[name]
    write_hub(items)
    _, out = run_command(capsys, "plan")
    assert f"{kind}" in out.partition("Not read:")[2].partition("Guard rails")[0]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("ClusterResourcePlacement", ("spec", "policy")),
        ("ClusterResourcePlacement", ("spec", "policy", "affinity")),
        ("ClusterSchedulingPolicySnapshot", ("spec", "policy")),
        ("ClusterSchedulingPolicySnapshot", ("spec", "policy", "affinity", "clusterAffinity")),
        ("ClusterSchedulingPolicySnapshot", ("spec", "policyHash")),
        (
            "ClusterSchedulingPolicySnapshot",
            ("metadata", "annotations", f"{FLEET}/number-of-clusters"),
        ),
        ("", ("",)),
    ],
)
def test_policy_without_its_hash_was_not_read(
    kind: str, path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A dump without a part of a policy differs from a valid one by the hash of the hub alone."""
    items = deepcopy(build_healthy_hub())
    for body in items:
        if body["kind"] == kind:
            for name in path[:-1]:
                body = body[name]  # noqa: PLW2901
            del body[path[-1]]
    write_hub(items)
    _, out = run_command(capsys, "plan")
    assert ("Not read: spec.policy" in out) is bool(kind), out


def build_recorded_hub() -> list[dict[str, Any]]:
    """Return the hub of the example: a dump of a running one."""
    path = Path(__file__).parents[4] / "examples" / "fleet-dump" / "hub" / "hub.json"
    items: list[dict[str, Any]] = json.loads(path.read_text())["items"]
    return items


@pytest.mark.parametrize(
    ("kind", "path", "finding"),
    [
        ("", (), ""),
        ("ClusterResourceBinding", (), "reports lon1, but no binding of it there was captured"),
        (
            "ClusterResourceBinding",
            ("spec", "resourceSnapshotName"),
            "Not read: spec.resourceSnapshotName of ClusterResourceBinding amf-",
        ),
        ("ClusterResourceSnapshot", (), "amf-0-snapshot was not captured"),
        (
            "ClusterResourceSnapshot",
            ("spec", "selectedResources", 1),
            "Not read: spec.selectedResources of ClusterResourceSnapshot amf-0-snapshot",
        ),
        (
            "ClusterResourceSnapshot",
            ("spec", "selectedResources", 1, "data"),
            "Not read: spec.selectedResources of ClusterResourceSnapshot amf-0-snapshot",
        ),
    ],
)
def test_part_that_a_recorded_hub_lacks_makes_it_incomplete(
    kind: str, path: tuple[str | int, ...], finding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    items = build_recorded_hub()
    item = next((item for item in items if item["kind"] == kind), None)
    if item is not None and not path:
        items.remove(item)
    elif item is not None:
        part: Any = item
        for name in path[:-1]:
            part = part[name]
        del part[path[-1]]
    write_hub(items)
    edit = 'output "complete" { value = data.fleet_hub_export.hub.is_complete }\n'
    Path("output.nf.hcl").write_text(edit)
    _, out = run_command(capsys, "plan", "-details")
    assert f"complete = {'false' if kind else 'true'}" in out
    assert finding in out


def test_policy_that_the_hub_has_not_read_yet_has_no_hash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hub has a policy snapshot of the generation before."""
    items = build_healthy_hub()
    placement = next(item for item in items if item["kind"] == "ClusterResourcePlacement")
    placement["metadata"]["generation"] = 3
    placement["spec"]["policy"]["numberOfClusters"] = 3
    write_hub(items)
    _, out = run_command(capsys, "plan")
    assert "Not read:" not in out


@pytest.mark.parametrize(
    "missing",
    ["", "status", "field", "members", "snapshots", "parts", "content", "version", "bindings"],
)
def test_change_is_certain_only_if_everything_was_read(
    missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With missing data of the hub, no binding is exact and no configuration matches."""
    items = build_healthy_hub()
    snapshot = next(item for item in items if item["kind"] == "ClusterResourceSnapshot")
    if missing == "status":
        del items[0]["status"]
    elif missing == "field":
        items[-1]["spec"]["priority"] = 1
    elif missing == "members":
        items = items[4:]
    elif missing == "snapshots":
        items.remove(snapshot)
    elif missing == "parts":
        snapshot["metadata"]["annotations"] = {f"{FLEET}/number-of-resource-snapshots": "2"}
    elif missing == "content":
        snapshot["spec"]["selectedResources"].append({"kind": "Namespace", "metadata": {}})
    elif missing == "bindings":
        items[-1]["apiVersion"] = "placement.kubernetes-fleet.io/v2"
    elif missing == "version":
        for item in items[:4]:
            item["apiVersion"] = "cluster.kubernetes-fleet.io/v2"
    assert_certainty(items, missing, capsys)


def test_change_is_uncertain_with_two_bindings_on_a_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    items = build_healthy_hub()
    metadata = {**items[-1]["metadata"], "name": "web-east1-2"}
    assert_certainty([*items, {**items[-1], "metadata": metadata}], "bindings", capsys)
    assert "web-east1-2: ClusterResourceBinding web-east1" in run_command(capsys, "plan")[1]


def assert_certainty(
    items: list[dict[str, Any]], missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that a change of this hub is certain only if nothing is `missing`."""
    write_hub(items)
    run_command(capsys, "apply", "-auto-approve")
    _, out = run_command(capsys, "plan")
    assert "No changes." in out
    assert ("What was read matches" in out) is bool(missing) or "old: later changes" in out
    assert ("The data read is incomplete" in out or "Not read:" in out) is bool(missing), out
    write_edited_configuration(
        "manifest = each.value",
        r'manifest = replace(each.value, "\"numberOfClusters\": 2", "\"numberOfClusters\": 3")',
    )
    _, out = run_command(capsys, "plan")
    assert "cluster_left" not in out
    assert ("exact unless members change" in out) is (not missing)
    if missing not in ("members", "version"):
        assert ("data of the hub that were not read" in out) is bool(missing)


def test_deleted_snapshot_of_a_cluster_leaves_changes_certain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A hub deletes old content that a cluster still has. No placement is decided by it."""
    items = build_healthy_hub()
    items[-1]["spec"]["resourceSnapshotName"] = "web-9-snapshot"
    write_hub(items)
    run_command(capsys, "apply", "-auto-approve")
    write_edited_configuration(
        "manifest = each.value",
        r'manifest = replace(each.value, "\"numberOfClusters\": 2", "\"numberOfClusters\": 3")',
    )
    _, out = run_command(capsys, "plan")
    assert "exact unless members change" in out


def test_dumps_of_several_hubs_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    """Members of one hub would be predicted for placements of the other."""
    items = build_healthy_hub()
    write_hub(items)
    other = json.loads(json.dumps(items).replace("east1", "north1").replace('"web', '"shop'))
    body = {"apiVersion": "v1", "kind": "List", "items": other}
    Path("other.json").write_text(json.dumps(body))
    text = Path("main.nf.hcl").read_text()
    block = 'data "fleet_hub_export" "{}" {{\n  files = ["{}"]\n}}\n'
    # The same dump twice is one hub.
    Path("main.nf.hcl").write_text(text + block.format("again", "hub.json"))
    assert run_command(capsys, "plan")[0] == 0
    Path("main.nf.hcl").write_text(text + block.format("other", "other.json"))
    code, out = run_command(capsys, "plan")
    assert (code, "A plan predicts the placements of one hub." in out) == (1, True), out
    assert 'data "fleet_hub_export" "other" (dump 2) reads the members east2, north1' in out


def test_lists_of_two_hubs_in_one_block_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    """They have no object in common, so nothing else contradicts."""
    items = build_healthy_hub()
    write_hub(items)
    names = {"east1": "north1", "east2": "north2", '"web': '"shop'}
    text = json.dumps(items)
    for name, other_name in names.items():
        text = text.replace(name, other_name)
    text = text.replace('"uid": "', '"uid": "of-another-')
    body = {"apiVersion": "v1", "kind": "List", "items": json.loads(text)}
    Path("other.json").write_text(json.dumps(body))
    blocks = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(blocks.replace('"hub.json"', '"hub.json", "other.json"'))
    code, out = run_command(capsys, "plan")
    assert (code, "so the files are dumps of several hubs" in " ".join(out.split())) == (1, True), (
        out
    )
    assert "hub.json lists other objects of the kind" in " ".join(out.split()), " ".join(
        out.split()
    )
    # Kinds in different files are one dump.
    write_objects_in_files(items, blocks, is_list=True)
    code, out = run_command(capsys, "plan")
    assert (code, "is not an item of a list" in " ".join(out.split())) == (0, False), out
    # One file per object may be of several hubs: nothing shows that these are all objects of one.
    two = r"\"numberOfClusters\": 2"
    edited = f'replace(each.value, "{two}", "{two.replace("2", "3")}")'
    blocks = blocks.replace("manifest = each.value", f"manifest = {edited}")
    write_objects_in_files([*items, *json.loads(text)], blocks, is_list=False)
    code, out = run_command(capsys, "plan")
    assert (code, "the files may be of several hubs" in " ".join(out.split())) == (0, True), out
    assert "data of the hub that were not read" in " ".join(out.split()), out


def write_objects_in_files(
    items: Sequence[Mapping[str, Any]], configuration: str, *, is_list: bool
) -> None:
    """Write a file per kind (`is_list`) or object, and the configuration to read them."""
    contents: dict[str, Any] = {}
    for position, item in enumerate(items):
        if is_list:
            body = {"apiVersion": "v1", "kind": "List", "items": []}
            contents.setdefault(f"{item['kind']}.json", body)["items"].append(item)
        else:
            contents[f"{position}.json"] = item
    for name, content in contents.items():
        Path(name).write_text(json.dumps(content))
    files = json.dumps(list(contents))
    Path("main.nf.hcl").write_text(configuration.replace('["hub.json"]', files))


@pytest.mark.parametrize("name", ["uid", "resourceVersion"])
def test_files_of_several_dumps_are_rejected(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    items = build_healthy_hub()
    write_hub([*items, items[4]])
    assert run_command(capsys, "plan")[0] == 0
    other = {**items[4], "metadata": {**items[4]["metadata"], name: "8"}}
    write_hub([*items, other])
    code, out = run_command(capsys, "plan")
    assert code == 1
    assert f"ClusterResourcePlacement web: its {name} is another one than at hub.json:1." in out


def test_contradicting_objects_without_uid_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    items = build_healthy_hub()
    for item in items:
        item["metadata"].pop("uid", None)
        item["metadata"].pop("resourceVersion", None)
    write_hub([*items, items[0]])
    assert run_command(capsys, "plan")[0] == 0
    other = {**items[0], "metadata": {**items[0]["metadata"], "labels": {"region": "mars"}}}
    write_hub([*items, other])
    code, out = run_command(capsys, "plan")
    assert (code, "its content is another one than at hub.json:1." in out) == (1, True), out


def test_binding_without_its_placement_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """The placement would count as new, and pick clusters again."""
    items = build_healthy_hub()
    (placement,) = (item for item in items if item["kind"] == "ClusterResourcePlacement")
    write_hub([item for item in items if item is not placement])
    _, out = run_command(capsys, "plan")
    assert "is of placement web, which was not captured" in out
    placement["metadata"]["deletionTimestamp"] = "2026-01-01T10:00:00Z"
    write_hub(items)
    assert "which was not captured" not in run_command(capsys, "plan")[1]


@pytest.mark.parametrize(("time", "is_newer"), [("10:40:00", False), ("23:00:00", True)])
def test_members_of_an_earlier_time_are_named(
    time: str, is_newer: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the present members, no change of a binding is certain."""
    items = build_healthy_hub()
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": "2026-01-01T10:00:00Z"}
    for item in items:
        if item["kind"] == "MemberCluster":
            item["status"] = {"agentStatus": [agent]}
    items[-1]["metadata"]["creationTimestamp"] = f"2026-01-01T{time}Z"
    write_hub(items)
    out = run_command(capsys, "plan", "-details")[1]
    text = " ".join(out.replace("│", " ").split())
    assert ("Either the members were captured earlier" in text) is is_newer, text


def test_snapshot_of_another_group_is_not_captured(capsys: pytest.CaptureFixture[str]) -> None:
    items = build_healthy_hub()
    for item in items:
        if item["kind"] == "ClusterSchedulingPolicySnapshot":
            item["apiVersion"] = "example.org/v1"
    write_hub(items)
    assert "No ClusterSchedulingPolicySnapshot was captured" in " ".join(
        run_command(capsys, "plan")[1].split()
    )


def test_binding_without_its_member_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Either the member has left the fleet, or the files lack it."""
    items = build_healthy_hub()
    write_hub(items)
    run_command(capsys, "apply", "-auto-approve")
    write_hub([item for item in items if item["metadata"]["name"] != "east1"])
    _, out = run_command(capsys, "plan")
    text = " ".join(out.split())
    assert "is on east1, but no MemberCluster of this name was captured" in text, text
    assert "data of the hub that were not read" in text
    assert "exact unless members change" not in text


def test_member_that_left_without_a_record_leaves_its_objects_in_doubt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No object of the state has the health of a member that only a data block shows."""
    start = CONFIGURATION.index('resource "fleet_member_cluster"')
    end = CONFIGURATION.index('resource "fleet_hub_manifest"')
    own = """
resource "fleet_cluster_resource_placement" "own" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
}
"""
    Path("main.nf.hcl").write_text(CONFIGURATION[:start] + CONFIGURATION[end:] + own)
    items = build_healthy_hub()
    write_hub(items)
    run_command(capsys, "apply", "-auto-approve")
    write_hub([item for item in items if item["metadata"]["name"] != "west2"])
    _, out = run_command(capsys, "plan")
    assert "west2 left; its objects stay, unmanaged (cluster_left; uncertain)" in " ".join(
        out.split()
    ), out
    assert "1 changed binding depends on members that were not read" in " ".join(out.split())
    # Without a member in state, nothing records what is left on it.
    reachable = json.loads(json.dumps(items))
    for item in items:
        if item["metadata"]["name"] == "west2":
            item["status"] = {"agentStatus": []}
    write_hub(items)
    configuration = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(configuration.replace(own, ""))
    _, out = run_command(capsys, "plan", "-details")
    assert "do not repeat this for west2: the state keeps no" in " ".join(
        out.replace("│", " ").split()
    ), out
    Path("main.nf.hcl").write_text(configuration)
    write_hub(reachable)
    target = "-target=fleet_cluster_resource_placement.own"
    _, out = run_command(capsys, "plan", "-destroy", target)
    assert "changed bindings depend on members that were not read" in " ".join(out.split()), out


@pytest.mark.parametrize("name", ["lastReceivedHeartbeat", "lastTransitionTime"])
def test_invalid_time_is_reported(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    times = {
        "lastReceivedHeartbeat": "2026-01-01T10:00:00Z",
        "lastTransitionTime": "2026-01-01T10:00:00Z",
    }
    times[name] = "yesterday"
    healthy = {
        "type": "Healthy",
        "status": "False",
        "lastTransitionTime": times["lastTransitionTime"],
    }
    agent = {
        "type": "MemberAgent",
        "lastReceivedHeartbeat": times["lastReceivedHeartbeat"],
        "conditions": [{"type": "Joined", "status": "True"}, healthy],
    }
    items = build_hub("west1", "east1")
    items[0]["status"] = {"agentStatus": [agent]}
    write_hub(items)
    code, out = run_command(capsys, "plan")
    assert code == 1
    assert f'hub.json:1: {name} "yesterday" is not a time' in out
    assert out.count("is not a time") == 1


def test_empty_file_is_not_an_empty_hub(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(capsys, "apply", "-auto-approve")
    Path("hub.json").write_text("")
    code, out = run_command(capsys, "plan")
    assert (code, "No object found in hub.json" in out) == (1, True)


@pytest.mark.parametrize(
    ("labels", "annotations", "who"),
    [
        (
            {"helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": "n"},
            {},
            "Flux HelmRelease n/web",
        ),
        (
            {},
            {"argocd.argoproj.io/tracking-id": "shop:v1/Namespace:/web"},
            "Argo CD application shop",
        ),
        ({"argocd.argoproj.io/instance": "shop"}, {}, "Argo CD application shop"),
        ({}, {"argocd.argoproj.io/sync-wave": "1"}, "Argo CD"),
    ],
)
def test_managers_of_applied_objects_are_named(
    labels: dict[str, str],
    annotations: dict[str, str],
    who: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    items = build_hub("west1", "east1")
    placement = next(item for item in items if item["kind"] == "ClusterResourcePlacement")
    placement["metadata"] |= {"labels": labels, "annotations": annotations}
    write_hub(items)
    assert f"({who}: 1)" in run_command(capsys, "plan")[1]


@pytest.mark.parametrize("from_state", [False, True])
def test_saved_plan_from_hub_state_is_applied(
    *, from_state: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if from_state:
        run_command(capsys, "apply", "-auto-approve")
        write_hub(build_hub("east2", "east1"))
    run_command(capsys, "plan", "-out", "saved.nfplan")
    code, out = run_command(capsys, "apply", "saved.nfplan")
    assert (code, "Apply complete!" in out) == (0, True), out
    assert "No changes." in run_command(capsys, "plan")[1]


def test_missing_kind_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    write_hub(
        [item for item in build_hub("west1", "east1") if not item["kind"].endswith("Snapshot")]
    )
    out = run_command(capsys, "plan", "-details")[1]
    assert out.count("No ClusterSchedulingPolicySnapshot was captured, so the content of") == 1
    # The resource snapshots.
    assert "(and one more similar warning elsewhere)" in out


def add_heartbeats(age: timedelta | None) -> None:
    """Write the hub with the newest heartbeat this long ago, and an older one; None: without."""
    items = build_healthy_hub()
    for number, item in enumerate(items[:4]):
        agent = {"type": "MemberAgent"}
        if age is not None:
            moment = datetime.now(UTC) - age - timedelta(hours=number)
            agent["lastReceivedHeartbeat"] = moment.isoformat()
        item["status"] = {"agentStatus": [agent]}
    write_hub(items)


@pytest.mark.parametrize(
    ("age", "shown"),
    [
        (timedelta(hours=3), "Your infrastructure matches the configuration."),
        (timedelta(days=3), "The inventory is 3 days old"),
        (None, "The inventory is of unknown age"),
    ],
)
def test_plan_without_changes_names_the_age_of_an_old_dump(
    age: timedelta | None, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    add_heartbeats(age)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    assert run_command_line(["plan"]) == 0
    assert shown in capsys.readouterr().out


def test_dump_older_than_that_of_the_last_apply_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_heartbeats(timedelta(hours=1))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    add_heartbeats(timedelta(hours=5))
    assert run_command_line(["plan"]) == 1
    text = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "data.fleet_hub_export.hub: the export is from" in text
    assert "older than that of the last apply" in text
    assert run_command_line(["plan", "-allow-older-export"]) == 0


def test_argument_is_the_time_of_a_dump(capsys: pytest.CaptureFixture[str]) -> None:
    add_heartbeats(timedelta(days=9))
    moment = (datetime.now(UTC) - timedelta(days=5)).isoformat()
    files = 'files = ["hub.json"]'
    Path("main.nf.hcl").write_text(
        CONFIGURATION.replace(files, f'{files}\n  observed_at = "{moment}"')
    )
    assert run_command_line(["plan"]) == 0
    assert "Inventory: 5 days old." in capsys.readouterr().out


CLUSTER = """
data "kubernetes_nodes" "east1" {
  files      = ["cluster.json"]
  cluster_id = "east1"
}

resource "fleet_hub_manifest" "pod" {
  cluster_id = "east1"
  yaml_body  = <<-EOT
    apiVersion: v1
    kind: Pod
    metadata: {name: new, namespace: default}
    spec:
      containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
  EOT
}
"""


@pytest.mark.parametrize(("hours", "is_doubtful"), [(0, False), (3, True), (-3, True)])
def test_member_read_at_another_time_than_its_hub_is_uncertain(
    hours: int, is_doubtful: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Placements and pods may have changed in between."""
    now = datetime.now(UTC)
    # Negative hours: the files of the member are older.
    hub_time = (now - timedelta(hours=max(hours, 0))).isoformat()
    cluster_time = now + timedelta(hours=min(hours, 0))
    items = build_healthy_hub()
    for item in items[:4]:
        item["status"]["agentStatus"][0]["lastReceivedHeartbeat"] = hub_time
    write_hub(items)
    node = build_node("n")
    node["status"]["conditions"][0]["lastHeartbeatTime"] = cluster_time.strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    Path("cluster.json").write_bytes(print_objects(DEFAULT_NAMESPACE, node))
    Path("cluster.nf.hcl").write_text(CLUSTER, "utf-8")
    code, out = run_command(capsys, "plan")
    assert code == 0, out
    assert ("several-times" in out, "dumps of several times" in out) == (is_doubtful, is_doubtful)
