"""Data source kubernetes_nodes: registered nodes of a cluster and its running pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.documents.times import format_time
from nexusform.interfaces.plugins import (
    DataResult,
    FileProblem,
    PlanningKind,
    ReadContext,
    ResourceType,
)
from nexusform.json_data.plain_data import get_list, get_mapping, get_text
from nexusform.kubernetes.dump_script import COMMAND
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import NUMBER, STRING, ListType, MapType, ObjectType

if TYPE_CHECKING:
    from nexusform.domains.pods.importers.kubectl_kind_files import KubectlKindFiles

# The attribute read by planning.
OBJECTS: Final = "objects"

_SCHEMA: Final = BlockSchema(
    {
        "files": AttributeSchema(
            ListType(STRING),
            (
                f"Files with the output of `{COMMAND}` (or -o yaml), relative to the working "
                "directory."
            ),
            optional=True,
        ),
        "directory": AttributeSchema(
            STRING,
            (
                "Directory with one file per kind, instead of files: `nexusform inventory script "
                "-for=kubernetes`."
            ),
            optional=True,
        ),
        "cluster_id": AttributeSchema(
            STRING,
            (
                "Id of the nexus_kubernetes_cluster or tacker_vnf, or name of a "
                "fleet_member_cluster without one."
            ),
            required=True,
        ),
        "kubernetes_version": AttributeSchema(
            STRING,
            'Kubernetes version of the scheduler ("1.34"), if the nodes do not show it.',
            optional=True,
        ),
        "id": AttributeSchema(STRING, "The cluster's id.", computed=True),
        "nodes": AttributeSchema(
            MapType(
                ObjectType.create(
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
        "exported_at": AttributeSchema(
            STRING, "The newest heartbeat of a node: the export is not older.", computed=True
        ),
        "pod_count": AttributeSchema(NUMBER, "Number of pods on them.", computed=True),
        OBJECTS: AttributeSchema(
            STRING,
            "Contents of the files used for planning, as JSON without environments and images.",
            computed=True,
        ),
    },
    description=(
        "Nodes and pods of a cluster from kubectl output. They replace predicted labels and "
        "resources."
    ),
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the cluster's id."""
    return get_text(attributes, "cluster_id")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return a problem unless exactly one of both arguments is set; else an empty list."""
    directory = attributes.get("directory")
    files = attributes.get("files")
    if (directory is None) != (files is None):
        return []
    kind = "missing-required-argument" if files is None else "conflicting-arguments"
    return [Problem((), kind, 'Set either "directory" or "files".')]


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataResult:
    """Read the nodes and pods of the files or the directory.

    Return no attributes if a problem is an error.
    """
    from nexusform.domains.pods.importers.kubectl_snapshot import (
        find_missing_kinds,
        parse_kubectl_files,
        parse_snapshot,
    )
    from nexusform.domains.pods.scheduling.scheduler_versions import parse_version

    argument = ("directory",) if attributes.get("directory") else ("files",)
    source = _read_kubectl_files(attributes, context)
    reading = parse_kubectl_files(source.contents, get_text(attributes, "kubernetes_version"))
    # Files do not name the kinds read, so kinds without an object may be unread.
    reading.unread_kinds = (
        reading.list_unlisted_kinds() if argument == ("files",) else list(source.unread_kinds)
    )
    # A truncated file explains all other problems, so it is first.
    findings = sorted(reading.findings, key=lambda finding: finding.id != "truncated-file")
    problems = [
        *(Problem(argument, item.id, str(item), item.severity) for item in findings),
        *source.problems,
    ]
    if any(problem.severity is Severity.ERROR for problem in problems):
        return DataResult(attributes={}, problems=problems)
    if not reading.nodes:
        detail = f"No Node in these files. Create them with: {COMMAND} > cluster.json"
        return DataResult(
            attributes={}, problems=[*problems, Problem(argument, "no-nodes-in-files", detail)]
        )
    if reading.version and not parse_version(reading.version):
        detail = (
            f'"{reading.version}" is not a Kubernetes version. Write major and minor number: '
            '"1.34".'
        )
        return DataResult(
            {}, [*problems, Problem(("kubernetes_version",), "invalid-kubernetes-version", detail)]
        )
    missing_kinds = find_missing_kinds(reading.objects.values())
    # With unread ones, a kind may be missing because its file is.
    if missing_kinds and not source.unread_kinds:
        kinds_text = " and no ".join(missing_kinds)
        detail = (
            f"No {kinds_text} in these files, although every cluster has some. Its claims, "
            "volumes, quotas, limits, budgets and priority classes are unknown. Create the files "
            f"with: {COMMAND} > cluster.json"
        )
        summary = f"the files hold no {kinds_text}"
        problems.append(
            Problem(("files",), "incomplete-cluster", detail, Severity.WARNING, brief=summary)
        )
    text = reading.encode()
    node_values = {
        name: {
            "labels": dict(body["labels"]),
            "allocatable": {
                key: str(value) for key, value in get_mapping(body, "allocatable").items()
            },
            "provider_id": body.get("providerID"),
        }
        for name, body in sorted(reading.nodes.items())
    }
    # 0 without a heartbeat.
    newest = max(body.get("heartbeat", 0) for body in reading.nodes.values())
    values = {
        "id": build_id(attributes),
        "exported_at": format_time(datetime.fromtimestamp(newest, UTC)) if newest else None,
        "nodes": node_values,
        "pod_count": len(parse_snapshot(text).pods),
        # The reduced objects, read again by the planning of pods.
        OBJECTS: text,
    }
    return DataResult(values, problems, unread_of_pods=tuple(reading.unread))


def _read_kubectl_files(attributes: Mapping[str, Any], context: ReadContext) -> KubectlKindFiles:
    """Read the files named by `files`, or those of `directory`, one per kind."""
    from nexusform.domains.pods.importers.kubectl_kind_files import (
        KubectlKindFiles,
        read_kind_files,
    )

    if attributes.get("directory"):
        return read_kind_files(str(attributes["directory"]), context)
    contents: list[tuple[str, bytes]] = []
    problems: list[Problem] = []
    for index, name in enumerate(get_list(attributes, "files")):
        try:
            contents.append((name, context.files.read(name)))
        except FileProblem as problem:
            problems.append(Problem(("files", index), "unreadable-file", str(problem)))
    return KubectlKindFiles(tuple(contents), unread_kinds=(), problems=tuple(problems))


KUBERNETES_NODES: Final = ResourceType(
    "kubernetes_nodes",
    0,
    _SCHEMA,
    build_id,
    mode="data",
    check=check,
    read=read,
    kind=PlanningKind.NODES,
)
