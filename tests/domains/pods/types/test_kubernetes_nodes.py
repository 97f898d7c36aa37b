"""Tests of data kubernetes_nodes: its attributes and messages.

Some messages are about files not printed by kubectl.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.pods.importers.kubectl_kind_files import build_export_script
from nexusform.domains.pods.importers.kubectl_snapshot import KEPT_FIELDS, parse_snapshot
from nexusform.domains.pods.importers.live_workloads import LIVE_KINDS
from nexusform.domains.pods.types.kubernetes_nodes import read
from nexusform.interfaces.plugins import DataResult, ReadContext
from nexusform.kubernetes.dump_script import CLUSTER_KINDS, build_dump_script
from tests.domains.pods.importers.cluster_objects import build_node, build_pod, print_objects
from tests.domains.pods.planning.test_cluster_observation import add_standard_objects
from tests.resource_types.memory_files import NOW, MemoryFiles


def read_files(**files: bytes) -> DataResult:
    arguments = {"files": list(files), "cluster_id": "s/a"}
    return read(arguments, ReadContext(MemoryFiles(files), NOW))


def test_nodes_have_registered_capacity_and_provider_id() -> None:
    values = read_files(
        a=print_objects(build_node("n1", "7910m", provider_id="x")),
        b=print_objects(build_pod("p1", "n1")),
    ).attributes
    assert values["nodes"]["n1"]["allocatable"] == {"cpu": "7910m", "memory": "32Gi", "pods": "110"}
    assert values["nodes"]["n1"]["provider_id"] == "x"
    assert (values["id"], values["pod_count"]) == ("s/a", 1)


def test_newest_heartbeat_of_a_node_is_the_time_of_the_export() -> None:
    older, newer = build_node("n1", "8"), build_node("n2", "8")
    for node, hour in ((older, 9), (newer, 11)):
        time = f"2026-09-02T{hour:02}:30:00Z"
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": time}
        node["status"]["conditions"] = [ready]
    contents = print_objects(older, newer, build_pod("p1", "n1"))
    assert read_files(a=contents).attributes["exported_at"] == "2026-09-02T11:30:00Z"
    silent = build_node("n1", "8")
    del silent["status"]["conditions"]
    without = print_objects(silent, build_pod("p1", "n1"))
    assert read_files(a=without).attributes["exported_at"] is None


def test_unreadable_file_is_named_with_kubectl_command() -> None:
    (unreadable,) = read_files(a=b"NAME STATUS").problems
    assert (unreadable.id, unreadable.path) == ("invalid-kubernetes-manifest", ("files",))
    assert "kubectl get ns,nodes,pods" in unreadable.detail
    assert "a" in unreadable.detail
    (no_node,) = read_files(a=print_objects(build_pod("p1", "n1"))).problems
    assert no_node.id == "no-nodes-in-files"


def test_missing_kinds_are_named_once_with_kubectl_command() -> None:
    (told,) = read_files(
        a=print_objects(build_node("n1")), b=print_objects(build_pod("p1", "n1"))
    ).problems
    assert (told.id, told.severity.value) == ("incomplete-cluster", "warning")
    assert "No Namespace and no PriorityClass in these files" in told.detail
    assert (
        "kubectl get ns,nodes,pods,pvc,pv,sc,pdb,quota,limits,priorityclasses -A -o json"
        in told.detail
    )


def test_invalid_kubernetes_version_is_rejected() -> None:
    files = MemoryFiles({"a": print_objects(build_node("n1"))})
    arguments = {"files": ["a"], "cluster_id": "s/a", "kubernetes_version": "new"}
    ids = {problem.id for problem in read(arguments, ReadContext(files, NOW)).problems}
    assert "invalid-kubernetes-version" in ids


def read_directory(**files: bytes) -> DataResult:
    named = {f"d/{name.replace('__', '.')}": content for name, content in files.items()}
    return read({"directory": "d", "cluster_id": "s/a"}, ReadContext(MemoryFiles(named), NOW))


def test_directory_has_one_file_per_kind_and_kubectl_errors() -> None:
    missing = b'error: the server doesn\'t have a resource type "scaledobjects"\n'
    result = read_directory(
        nodes__json=print_objects(build_node("n1")),
        pods__json=print_objects(build_pod("p1", "n1")),
        namespaces__error=b"Error from server (Forbidden): namespaces is forbidden\n",
        scaledobjects__keda__sh__error=missing,
    )
    details = [problem.detail for problem in result.problems]
    assert not any("scaledobjects" in detail for detail in details)
    assert any(
        "kubectl could not list namespaces: Error from server (Forbidden)" in detail
        for detail in details
    )
    unread = parse_snapshot(result.attributes["objects"]).unread_kinds
    # A kind unknown to the server has no objects; a forbidden one may have some.
    assert ("Namespace" in unread, "ScaledObject" in unread, "Pod" in unread) == (
        True,
        False,
        False,
    )


def test_right_to_list_secrets_is_optional() -> None:
    result = read_directory(
        nodes__json=print_objects(build_node("n1")),
        pods__json=print_objects(build_pod("p1", "n1")),
        configmaps__json=print_objects(),
        secrets__error=b"Error from server (Forbidden): secrets is forbidden\n",
    )
    assert not any("secrets" in problem.detail for problem in result.problems)
    kinds = parse_snapshot(result.attributes["objects"]).listed_kinds
    assert ("ConfigMap" in kinds, "Secret" in kinds) == (True, False)


def test_kinds_outside_of_the_command_are_unread_without_objects() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {},
    }
    webhooks = {**deployment, "kind": "MutatingWebhookConfiguration"}

    def list_unread_kinds(*objects: dict[str, Any]) -> set[str]:
        text = read_files(a=print_objects(build_node("n1"), *objects)).attributes["objects"]
        return set(parse_snapshot(text).unread_kinds)

    # Files without the objects of every cluster come from a shorter command.
    assert {"Namespace", "StorageClass", "ResourceQuota"} <= list_unread_kinds()
    standard = add_standard_objects()
    unread = list_unread_kinds(*standard)
    assert {
        "Deployment",
        "Job",
        "HorizontalPodAutoscaler",
        "MutatingWebhookConfiguration",
        "CSINode",
    } <= unread
    assert not {"Namespace", "Node", "Pod", "StorageClass", "ResourceQuota"} & unread
    assert list_unread_kinds(*standard, deployment, webhooks) == unread - {
        "Deployment",
        "MutatingWebhookConfiguration",
    }


def test_truncated_file_is_named_first() -> None:
    whole = print_objects(build_node("n1"))
    problem = read_files(a=b"NAME", b=whole[:-20]).problems[0]
    assert problem.id == "truncated-file"
    problem = read_files(
        a=b"apiVersion: v1\nitems:\n- kind: Node\n  metadata:\n    name: n1\n"
    ).problems[0]
    assert problem.id == "truncated-file"


@pytest.mark.parametrize("part", [{"continue": "abc"}, {"remainingItemCount": 500}])
def test_first_part_of_a_list_is_not_complete(part: dict[str, Any]) -> None:
    body = {"apiVersion": "v1", "kind": "List", "items": [build_node("n1")], "metadata": part}
    (problem,) = read_files(a=json.dumps(body).encode()).problems
    assert (problem.id, problem.severity.value) == ("truncated-file", "error")
    assert problem.detail.startswith("a: this list is not complete")
    assert "--chunk-size=0" in problem.detail


@pytest.mark.parametrize("kind", [[], {}, None])
def test_object_needs_a_kind(kind: Any) -> None:
    (problem,) = read_files(
        a=print_objects(build_node("n1"), {"kind": kind, "metadata": {"name": "b"}})
    ).problems
    assert problem.id == "invalid-kubernetes-manifest"
    assert problem.detail.startswith("a:")


def test_script_lists_each_kind_separately() -> None:
    text = build_dump_script("export", CLUSTER_KINDS.values())
    assert 'kubectl get "$kind" -A -o "$format" --show-managed-fields' in text
    assert all(
        name in text
        for name in ("horizontalpodautoscalers", "mutatingadmissionpolicybindings", "deviceclasses")
    )


def test_script_lists_every_kind_read_by_an_importer() -> None:
    assert {"Node", "Pod", *LIVE_KINDS, *KEPT_FIELDS} <= CLUSTER_KINDS.keys()


@pytest.mark.parametrize(
    ("kind", "message", "code"),
    [
        ("pods", "Unable to connect to the server", 1),
        ("pods", "(Forbidden): cannot list", 1),
        ("secrets", "(Forbidden): cannot list", 0),
        ("pods", "error: the server doesn't have a resource type", 0),
    ],
)
def test_script_removes_an_earlier_capture_and_reports_failures(
    kind: str, message: str, code: int, tmp_path: Path
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\nls "{tmp_path}/export"/*.json >>"{tmp_path}/seen"\n'
        f'case $2 in {kind}) echo "{message}" >&2; exit 1;; esac\necho "{{}}"\n'
    )
    kubectl.chmod(0o755)
    export = tmp_path / "export"
    export.mkdir()
    for name in (*CLUSTER_KINDS.values(), "notes"):
        (export / f"{name}.json").write_text("old")
    text = build_export_script(str(export))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", "-c", text], env=environment, capture_output=True, check=False
    )
    assert done.returncode == code
    # When the first kind is listed, no file of an earlier capture is left.
    assert (tmp_path / "seen").read_text().startswith(f"{export}/notes.json\n{export}/")
    contents = {file.name: file.read_text() for file in export.glob("*.json")}
    assert contents.pop("notes.json") == "old"
    assert set(contents.values()) == {"{}\n"}
    assert contents.keys() == {f"{name}.json" for name in CLUSTER_KINDS.values() if name != kind}


def test_script_continues_after_a_kind_of_a_missing_crd(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    message = "error: the server doesn't have a resource type"
    kubectl.write_text(
        f'#!/bin/sh\ncase $2 in *.*) echo "{message}" >&2; exit 1;; esac\necho "{{}}"\n'
    )
    kubectl.chmod(0o755)
    text = build_dump_script(str(tmp_path / "export"), CLUSTER_KINDS.values())
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["/bin/sh", "-c", text], env=environment, check=True, capture_output=True)
    files = {file.name for file in (tmp_path / "export").iterdir()}
    assert files == {
        f"{name}.error" if "." in name else f"{name}.json" for name in CLUSTER_KINDS.values()
    }
