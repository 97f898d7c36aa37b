"""data kubernetes_nodes: what it shows, and what it says of files that kubectl did not print."""

from __future__ import annotations

from nexusform.domains.pods.types.kubernetes_nodes import read
from nexusform.interfaces.plugins import DataResult, ReadContext
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
