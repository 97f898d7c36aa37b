"""data kubernetes_nodes: what it shows, and what it says of files that kubectl did not print."""

from __future__ import annotations

from nexusform.domains.pods.importers.kubectl_snapshot import parse_snapshot
from nexusform.domains.pods.types.kubernetes_nodes import read
from nexusform.interfaces.plugins import DataResult, ReadContext
from nexusform.kubernetes.dump_script import CLUSTER_KINDS, build_dump_script
from tests.domains.pods.importers.cluster_objects import node, pod, printed
from tests.resource_types.memory_files import NOW, MemoryFiles


def answer(**files: bytes) -> DataResult:
    arguments = {"files": list(files), "cluster_id": "s/a"}
    return read(arguments, ReadContext(MemoryFiles(files), NOW))


def test_nodes_are_shown_with_what_they_registered() -> None:
    values = answer(a=printed(node("n1", "7910m", provider_id="x")), b=printed(pod("p1", "n1"))).attributes
    assert values["nodes"]["n1"]["allocatable"] == {"cpu": "7910m", "memory": "32Gi", "pods": "110"}
    assert values["nodes"]["n1"]["provider_id"] == "x"
    assert (values["id"], values["pod_count"]) == ("s/a", 1)


def test_what_cannot_be_read_names_the_file_and_the_command() -> None:
    (unreadable,) = answer(a=b"NAME STATUS").problems
    assert (unreadable.id, unreadable.path) == ("invalid-kubernetes-manifest", ("files",))
    assert "kubectl get ns,nodes,pods" in unreadable.detail
    assert "a" in unreadable.detail
    (no_node,) = answer(a=printed(pod("p1", "n1"))).problems
    assert no_node.id == "no-nodes-in-files"


def test_what_the_files_lack_is_named_once_with_the_command() -> None:
    (told,) = answer(a=printed(node("n1")), b=printed(pod("p1", "n1"))).problems
    assert (told.id, told.severity.value) == ("incomplete-cluster", "warning")
    assert "No Namespace and no PriorityClass in these files" in told.detail
    assert "kubectl get ns,nodes,pods,pvc,pv,sc,pdb,quota,limits,priorityclasses -A -o json" in told.detail


def test_a_version_is_one_of_kubernetes() -> None:
    files = MemoryFiles({"a": printed(node("n1"))})
    arguments = {"files": ["a"], "cluster_id": "s/a", "kubernetes_version": "new"}
    ids = {problem.id for problem in read(arguments, ReadContext(files, NOW)).problems}
    assert "invalid-kubernetes-version" in ids


def in_directory(**files: bytes) -> DataResult:
    named = {f"d/{name.replace('__', '.')}": content for name, content in files.items()}
    return read({"directory": "d", "cluster_id": "s/a"}, ReadContext(MemoryFiles(named), NOW))


def test_a_directory_has_one_file_per_kind_and_the_messages_of_kubectl() -> None:
    missing = b'error: the server doesn\'t have a resource type "resourceslices"\n'
    result = in_directory(
        nodes__json=printed(node("n1")),
        pods__json=printed(pod("p1", "n1")),
        namespaces__error=b"Error from server (Forbidden): namespaces is forbidden\n",
        resourceslices__error=missing,
    )
    details = [problem.detail for problem in result.problems]
    assert any("kubectl could not list namespaces: Error from server (Forbidden)" in detail for detail in details)
    unread = parse_snapshot(result.attributes["objects"]).unread_kinds
    # A kind of which the server knows nothing has no objects; a forbidden one may have some.
    assert ("Namespace" in unread, "ResourceSlice" in unread, "Pod" in unread) == (True, False, False)


def test_a_truncated_file_is_named_first() -> None:
    whole = printed(node("n1"))
    problem = answer(a=b"NAME", b=whole[:-20]).problems[0]
    assert problem.id == "truncated-file"
    problem = answer(a=b"apiVersion: v1\nitems:\n- kind: Node\n  metadata:\n    name: n1\n").problems[0]
    assert problem.id == "truncated-file"


def test_the_script_lists_every_kind_on_its_own() -> None:
    text = build_dump_script("export", CLUSTER_KINDS.values())
    assert 'kubectl get "$kind" -A -o json --show-managed-fields' in text
    assert all(
        name in text for name in ("horizontalpodautoscalers", "mutatingadmissionpolicybindings", "deviceclasses")
    )
