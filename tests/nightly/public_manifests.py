"""Public charts and manifests in namespaces with each Pod Security level on a running API server.

Run: python -m tests.nightly.public_manifests PROGRAMS DIRECTORY. The directory has a file NAME.yaml
for each rendered chart, and sources.tsv with NAME, repository, commit and path. A pod of each
workload is created in a dry run of the server, and predicted by a plan of its file. Prints each
difference, and the table of docs/fidelity-pods.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from tests.domains.hub.api_programs import ApiPrograms
from tests.domains.pods.importers.cluster_objects import PLATFORM_LABELS
from tests.nightly.live_cluster import PATHS
from tests.nightly.pod_stories import SERVICE_ACCOUNT, plan_story
from tests.nightly.pod_worlds import NODE_INFO
from tests.planning.harness import UnreadableConfigurationError

Body = dict[str, Any]
LEVELS = ("privileged", "baseline", "restricted")
_LEVEL_LABEL = "pod-security.kubernetes.io/enforce"
CREATED = "created"
INVALID = "invalid"
# Parts of the server's messages about a rejected pod, and the admission plugin of each.
_PLUGINS = {
    "violates PodSecurity": "PodSecurity",
    "error looking up service account": "ServiceAccount",
    "no PriorityClass": "PriorityClass",
    'pod rejected: RuntimeClass "': "RuntimeClass",
}
_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "Pod")
# Objects that admission reads.
_ADMISSION_KINDS = ("ServiceAccount", "PriorityClass", "RuntimeClass", "LimitRange")
_CLUSTER_SCOPED = ("PriorityClass", "RuntimeClass", "PersistentVolume", "StorageClass")


class Source(Struct):
    """Rendered chart or manifest, and its decisions: pods by level and decision."""

    name: str
    repository: str
    commit: str
    path: str
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)


def read_objects(file: Path, namespace: str) -> list[Body]:
    """Return the objects of Kubernetes' own kinds in a file, moved to a namespace."""
    objects = []
    for document in yaml.safe_load_all(file.read_text()):
        items = document.get("items", [document]) if isinstance(document, dict) else []
        for body in items:
            if body.get("kind") not in PATHS or body["kind"] in ("Namespace", "Node"):
                continue
            own = {} if body["kind"] in _CLUSTER_SCOPED else {"namespace": namespace}
            objects.append({**body, "metadata": {**body["metadata"], **own}})
    return objects


def build_pod(workload: Body, namespace: str) -> Body:
    """Return a pod of a workload as its controller creates it."""
    template = workload if workload["kind"] == "Pod" else workload["spec"]["template"]
    spec = dict(template["spec"])
    claims = workload["spec"].get("volumeClaimTemplates") or []
    names = [claim["metadata"]["name"] for claim in claims]
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    if added:
        spec["volumes"] = [*(spec.get("volumes") or []), *added]
    known = template.get("metadata") or {}
    metadata = {key: known[key] for key in ("labels", "annotations") if known.get(key)}
    metadata |= {"name": "pod", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def create_pod(programs: ApiPrograms, namespace: str, pod: Body) -> tuple[str, str]:
    """Create a pod in a dry run; return the decision of the server and its message."""
    message = programs.try_creation(f"/api/v1/namespaces/{namespace}/pods", pod)
    if not message:
        return CREATED, ""
    names = [plugin for part, plugin in _PLUGINS.items() if part in message]
    return (names or [INVALID])[0], message


def build_node(system: str, version: str) -> Body:
    """Return a large node with an operating system."""
    labels = {**PLATFORM_LABELS, "kubernetes.io/os": system, "kubernetes.io/hostname": system}
    amounts = {"cpu": "512", "memory": "4Ti", "pods": "1000", "ephemeral-storage": "9Ti"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": system, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "nodeInfo": {**NODE_INFO, "kubeletVersion": f"v{version}"},
        },
    }


def predict(namespace: Body, objects: Sequence[Body], version: str) -> dict[str, tuple[str, str]]:
    """Return the predicted decision on the pods of each workload by its key, and the reason."""
    # A DaemonSet without an eligible node creates no pods.
    nodes = [build_node(system, version) for system in ("linux", "windows")]
    name = namespace["metadata"]["name"]
    account = {**SERVICE_ACCOUNT, "metadata": {"name": "default", "namespace": name}}
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-node-critical"},
        "value": 2000001000,
    }
    fleet = plan_story([*nodes, namespace, account, priority], objects)
    decisions = {}
    for object_pods in fleet.pods._object_pods.values():
        decisions |= {workload.key: (CREATED, "") for workload in object_pods.workloads}
        for rejected in object_pods.rejections:
            workload = rejected.workload
            decisions[workload.key] = (workload.rejected_by, rejected.reason)
    return decisions


def compare_source(
    programs: ApiPrograms, source: Source, directory: Path, version: str, number: int
) -> list[str]:
    """Compare the pods of a file at each level; return the differences."""
    differences = []
    for level in LEVELS:
        name = f"s{number}-{level}"
        labels = {"kubernetes.io/metadata.name": name, _LEVEL_LABEL: level}
        namespace: Body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }
        objects = read_objects(directory / f"{source.name}.yaml", name)
        programs.apply(f"/api/v1/namespaces/{name}", namespace)
        account = {**SERVICE_ACCOUNT, "metadata": {"name": "default", "namespace": name}}
        needed = [body for body in objects if body["kind"] in _ADMISSION_KINDS]
        for body in (account, *needed):
            path = PATHS[body["kind"]].format(name)
            programs.apply(f"{path}/{body['metadata']['name']}", body)
        try:
            predicted = predict(namespace, objects, version)
        except (AssertionError, UnreadableConfigurationError) as problem:
            predicted = {}
            differences.append(f"{source.name} {level}: the plan fails: {str(problem)[:300]}")
        for workload in objects:
            if workload["kind"] not in _WORKLOADS or workload["spec"].get("replicas") == 0:
                continue
            found, message = create_pod(programs, name, build_pod(workload, name))
            source.decisions[level, found] += 1
            key = f"{name}/{workload['kind']}/{workload['metadata']['name']}"
            expected, reason = predicted.get(key, (INVALID, ""))
            # An annotation of AppArmor is copied to its field first, and the message names both.
            is_same_text = reason in message or "AppArmor" in message
            if found != expected or not is_same_text:
                differences.append(
                    f"{source.name} {level} {key}: {expected} ({reason}), is {found} ({message})"
                )
    return differences


def build_table(sources: Sequence[Source]) -> str:
    """Return the Markdown table: a row per repository, with the created pods of all by level."""
    rows: dict[str, list[Source]] = {}
    for source in sources:
        rows.setdefault(f"{source.repository} {source.commit[:12]}", []).append(source)
    lines = [f"| {' | '.join(('source', 'commit', 'charts', 'pods', *LEVELS))} |"]
    lines.append("|---" * 7 + "|")
    for title, items in rows.items():
        total: Counter[tuple[str, str]] = Counter()
        for item in items:
            total.update(item.decisions)
        pods = sum(count for (level, _), count in total.items() if level == LEVELS[0])
        created = [str(total[level, CREATED]) for level in LEVELS]
        repository, commit = title.split(" ")
        cells = (f"github.com/{repository}", f"`{commit}`", str(len(items)), str(pods), *created)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def read_sources(directory: Path) -> list[Source]:
    """Return the sources listed in sources.tsv."""
    lines = (directory / "sources.tsv").read_text().splitlines()
    return [Source(*line.split("\t")) for line in lines]


def main(programs: str, directory: Path) -> int:
    """Compare all sources; return the number of differences."""
    sources = read_sources(directory)
    differences: list[str] = []
    with tempfile.TemporaryDirectory() as where:
        flags = ("--disable-admission-plugins=TaintNodesByCondition", "--allow-privileged=true")
        running = ApiPrograms(Path(programs), Path(where, "no-kinds"), Path(where), *flags)
        try:
            version: Mapping[str, Any] = running.call("GET", "/version")
            for number, source in enumerate(sources):
                found = compare_source(
                    running, source, directory, version["gitVersion"][1:], number
                )
                print(source.name, dict(source.decisions), flush=True)
                for text in found:
                    print(f"  DIFFERENT {text}", flush=True)
                differences += found
        finally:
            running.close()
    print(build_table(sources))
    total = sum(sum(source.decisions.values()) for source in sources)
    print(f"{len(sources)} sources, {total} pods, {len(differences)} differences")
    return len(differences)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1], Path(sys.argv[2]))))
