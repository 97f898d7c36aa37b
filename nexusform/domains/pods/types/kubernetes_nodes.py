"""data kubernetes_nodes: the nodes of a cluster as they registered, and the pods that run there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.ports import DataAnswer, FileProblem, Kind, ReadContext, ResourceType
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import NUMBER, STRING, ListType, MapType, ObjectType

# The attribute that planning reads.
OBJECTS: Final = "objects"
_COMMAND: Final = "kubectl get ns,nodes,pods,pvc,pv,sc,pdb,quota,limits,priorityclasses -A -o json"

_SCHEMA: Final = BlockSchema(
    {
        "files": Attribute(
            ListType(STRING),
            f"Files with the output of `{_COMMAND}` (or -o yaml), relative to the working directory.",
            required=True,
        ),
        "cluster_id": Attribute(
            STRING,
            "Id of the nexus_kubernetes_cluster or tacker_vnf, or name of a fleet_member_cluster without "
            "one.",
            required=True,
        ),
        "kubernetes_version": Attribute(
            STRING,
            'Kubernetes version of the scheduler ("1.34"), if the nodes do not show it.',
            optional=True,
        ),
        "id": Attribute(STRING, "The cluster's id.", computed=True),
        "nodes": Attribute(
            MapType(
                ObjectType.of(
                    {
                        "labels": MapType(STRING),
                        "allocatable": MapType(STRING),
                        "provider_id": STRING,
                    }
                )
            ),
            "The nodes by name.",
            computed=True,
        ),
        "pod_count": Attribute(NUMBER, "Number of pods on them.", computed=True),
        OBJECTS: Attribute(
            STRING,
            "Contents of the files used for planning, as JSON without environments and images.",
            computed=True,
        ),
    },
    description="Nodes and pods of a cluster from kubectl output. They replace predicted labels and "
    "resources.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The cluster's id."""
    return str(attributes.get("cluster_id") or "")


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataAnswer:
    """Read the files."""
    from nexusform.domains.pods.importers.kubernetes_nodes import observation_of, read_cluster
    from nexusform.domains.pods.scheduling.versions import version_of

    contents: list[tuple[str, bytes]] = []
    problems: list[Problem] = []
    for at, name in enumerate(attributes.get("files") or ()):
        try:
            contents.append((name, context.files.read(name)))
        except FileProblem as problem:
            problems.append(Problem(("files", at), "unreadable-file", str(problem)))
    reading = read_cluster(contents)
    problems += [Problem(("files",), each.id, str(each), each.severity) for each in reading.findings]
    if not problems and not reading.nodes:
        detail = f"There is no Node in these files. Make one with: {_COMMAND} > cluster.json"
        problems.append(Problem(("files",), "no-nodes-in-the-files", detail))
    if any(problem.severity is Severity.ERROR for problem in problems):
        return DataAnswer({}, problems)
    reading.version = str(attributes.get("kubernetes_version") or "")
    if reading.version and not version_of(reading.version):
        detail = f'"{reading.version}" is no version of Kubernetes; write major and minor number: "1.34".'
        return DataAnswer(
            {}, [*problems, Problem(("kubernetes_version",), "invalid-kubernetes-version", detail)]
        )
    problems += _what_is_missing(reading.lacks())
    text = reading.text()
    shown = {
        name: {
            "labels": dict(body["labels"]),
            "allocatable": {key: str(value) for key, value in (body.get("allocatable") or {}).items()},
            "provider_id": body.get("providerID"),
        }
        for name, body in sorted(reading.nodes.items())
    }
    values = {
        "id": identify(attributes),
        "nodes": shown,
        "pod_count": len(observation_of(text).pods),
        OBJECTS: text,
    }
    return DataAnswer(values, problems)


def _what_is_missing(kinds: Sequence[str]) -> list[Problem]:
    """One warning about everything that the files do not show though every cluster has it."""
    if not kinds:
        return []
    named = " and no ".join(kinds)
    detail = (
        f"There is no {named} in these files, and every cluster has some: they were printed by a shorter "
        "command. Which claims, volumes, quotas, limits, budgets and priority classes the cluster has is not "
        f"known. Print them with: {_COMMAND} > cluster.json"
    )
    brief = f"the files hold no {named}"
    return [Problem(("files",), "cluster-is-shown-in-part", detail, Severity.WARNING, brief=brief)]


KUBERNETES_NODES: Final = ResourceType(
    "kubernetes_nodes", 0, _SCHEMA, identify, mode="data", read=read, kind=Kind.NODES
)
