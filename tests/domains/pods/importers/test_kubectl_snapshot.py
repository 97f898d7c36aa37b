"""Tests of cluster snapshots in the output of kubectl."""

from __future__ import annotations

import pytest
import yaml

from nexusform.domains.pods.importers.kubectl_snapshot import (
    KubectlSnapshot,
    parse_kubectl_files,
    parse_snapshot,
)
from nexusform.domains.pods.importers.kubernetes_volumes import collect_storage
from nexusform.kubernetes.matching import Taint
from tests.domains.pods.importers.cluster_objects import build_node, build_pod, print_objects

HASH = {"pod-template-hash": "5d"}


def parse_contents(*contents: bytes) -> KubectlSnapshot:
    reading = parse_kubectl_files([(f"f{at}", content) for at, content in enumerate(contents)])
    assert not reading.findings
    return parse_snapshot(reading.encode())


def test_nodes_have_their_registered_properties() -> None:
    taints = [{"key": "t", "value": "v", "effect": "NoSchedule"}]
    more = {"intel.com/sriov": "4", "ephemeral-storage": "10Gi"}
    (found,) = parse_contents(
        print_objects(build_node("n", "7910m", taints=taints, unschedulable=True, resources=more))
    ).nodes
    assert (found.allocatable.cpu, found.allocatable.memory, found.pods) == (7910, 32 << 30, 110)
    assert found.allocatable.extended == {"intel.com/sriov": 4, "ephemeral-storage": 10 << 30}
    assert found.taints == (Taint("t", "v", "NoSchedule"),)
    assert found.unschedulable


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        (("ReplicaSet", "web-5d"), HASH, "default/Deployment/web"),
        (("ReplicaSet", "web"), {}, "default/ReplicaSet/web"),
        (("StatefulSet", "db"), {}, "default/StatefulSet/db"),
        (("DaemonSet", "agent"), {}, "default/DaemonSet/agent"),
        (("Node", "n"), {}, "default/Pod/p"),
        (("", ""), {}, "default/Pod/p"),
    ],
)
def test_pod_belongs_to_its_controller(
    owner: tuple[str, str], labels: dict[str, str], workload: str
) -> None:
    (found,) = parse_contents(
        print_objects(build_node("n"), build_pod("p", "n", owner=owner, labels=labels))
    ).pods
    assert found.workload == workload
    assert found.spec.requests.cpu == 1000


def test_finished_pods_are_omitted_and_terminating_ones_have_no_owner() -> None:
    over = [build_pod(phase, "n", phase=phase) for phase in ("Succeeded", "Failed")]
    found = parse_contents(
        print_objects(
            build_node("n"),
            *over,
            build_pod("waits", "", phase="Pending"),
            build_pod("t", "n", terminating=True),
        )
    )
    assert [(each.name, each.workload, each.spec.is_terminating) for each in found.pods] == [
        ("t", "", True)
    ]


def test_daemonset_node_pin_is_not_part_of_the_template() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pinned = build_pod("p", "n", owner=("DaemonSet", "agent"), affinity={"nodeAffinity": required})
    (found,) = parse_contents(print_objects(build_node("n"), pinned)).pods
    assert found.spec.node_terms is None
    assert found.spec.node_name == ""


def test_yaml_and_several_files_are_equivalent() -> None:
    objects = [build_node("n1"), build_pod("p1", "n1")]
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
    assert (
        parse_contents(text)
        == parse_contents(print_objects(objects[0]), print_objects(objects[1]))
        == parse_contents(print_objects(*objects))
    )


def test_newest_of_several_default_storage_classes_counts() -> None:
    classes = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": name,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                "creationTimestamp": f"{year}-01-01T00:00:00Z",
            },
            "provisioner": "p",
        }
        for name, year in (("a", 2024), ("z", 2026))
    ]
    snapshot = parse_contents(print_objects(build_node("n"), *classes))
    assert collect_storage(snapshot.objects).default_class == "z"


def test_environment_variables_are_omitted() -> None:
    reading = parse_kubectl_files([("f", print_objects(build_node("n"), build_pod("p", "n")))])
    assert "hidden" not in reading.encode()


@pytest.mark.parametrize("content", [b"NAME STATUS\nn Ready", b'{"items": [3]}', b'{"a": ', b"- 1"])
def test_foreign_content_is_reported(content: bytes) -> None:
    reading = parse_kubectl_files([("nodes.json", content)])
    assert reading.findings
    assert reading.findings[0].file == "nodes.json"


def test_outputs_of_two_commands_in_one_file_are_named() -> None:
    content = print_objects(build_node("n"))
    (finding,) = parse_kubectl_files([("two.json", content + content)]).findings
    assert "file of its own" in finding.detail


def test_fields_read_by_quotas_and_admission_are_kept() -> None:
    pod = build_pod("x", "n", priorityClassName="high", priority=7, activeDeadlineSeconds=60)
    kata = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
    }
    overhead = {"podFixed": {"cpu": "1"}}
    ending = {"name": "old", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": ending}
    snapshot = parse_contents(print_objects(pod, {**kata, "overhead": overhead}, namespace))
    spec = snapshot.pods[0].spec
    assert (spec.priority, spec.quota_figures.priority_class, spec.quota_figures.has_deadline) == (
        7,
        "high",
        True,
    )
    by_kind = {item.kind: item.body for item in snapshot.objects}
    assert by_kind["RuntimeClass"]["overhead"] == overhead
    assert by_kind["Namespace"]["metadata"] == ending
