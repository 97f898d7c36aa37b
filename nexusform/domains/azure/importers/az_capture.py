"""Capturing a site: the commands for it, the files of an exported directory sorted into kinds by their
standard names, and what an export was not asked for. A file that is not there says nothing; an empty list
says that there is none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.azure.importers.az_documents import ANY, AzItems
from nexusform.domains.azure.importers.az_model import STANDARD_FILES, AzCluster, AzInventory, StandardFile
from nexusform.domains.azure.importers.az_sites import GROUND
from nexusform.language.evaluation import FileProblem
from nexusform.words import counted, first_of, form

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+=-]+")

_SCRIPT: Final = """\
#!/usr/bin/env bash
# Captures an Operator Nexus site for nexusform. Reads only; needs `az login` and the extension networkcloud.
set -euo pipefail
DIRECTORY={directory}
LOCATION={location}
mkdir -p "$DIRECTORY"
cd "$DIRECTORY"

# Of several sites in a subscription those at one extended location are kept.
kept() {{ if [ -n "$LOCATION" ]; then echo "[?extendedLocation.name=='$LOCATION']"; else echo "[]"; fi; }}

date -u +%Y-%m-%dT%H:%M:%SZ > exported_at
az networkcloud cluster list --output json > clusters.json
az networkcloud rack list --query "$(kept)" --output json > racks.json
az networkcloud baremetalmachine list --query "$(kept)" --output json > bare_metal_machines.json
az networkcloud virtualmachine list --query "$(kept)" --output json > virtual_machines.json
az networkcloud kubernetescluster list --query "$(kept)" --output json > kubernetes_clusters.json
az networkcloud racksku list --output json > rack_skus.json

# Addresses, storage and versions, beside machines.
az networkcloud l3network list --query "$(kept)" --output json > l3_networks.json
az networkcloud storageappliance list --query "$(kept)" --output json > storage_appliances.json
az networkcloud volume list --query "$(kept)" --output json > volumes.json
az networkcloud kubernetesversion list --query "$(kept)" --output json > kubernetes_versions.json

# Agent pools are listed cluster by cluster.
az networkcloud kubernetescluster list --query "$(kept).[name, resourceGroup]" --output tsv |
  while read -r CLUSTER GROUP; do
    az networkcloud kubernetescluster agentpool list \\
      --kubernetes-cluster-name "$CLUSTER" --resource-group "$GROUP" \\
      --output json > "agent_pools.$CLUSTER.json" < /dev/null
    # When each node was made. Leave it out where the cluster cannot be reached:
    # kubectl --context "$CLUSTER" get nodes --output json > "nodes.$CLUSTER.json"
  done
"""


def capture_script(directory: str, location: str) -> str:
    """A shell script; `location` "" captures everything that the subscription shows."""
    return _SCRIPT.format(directory=_quoted(directory), location=_quoted(location))


def _quoted(text: str) -> str:
    """A word of a shell."""
    return text if _PLAIN.fullmatch(text) else "'" + text.replace("'", "'\\''") + "'"


# --- the files of a directory -------------------------------------------------------------------


# Files under other names are read, too: their resources say what they are.
_ENDINGS: Final = (".json", ".jsonl", ".yaml", ".yml")
# Configuration that may stand beside an export.
_OF_TOOLS: Final = (".nf.json", ".nfvars.json", ".tf.json", ".tfvars.json")


class Export(Struct, frozen=True):
    """The documents of an export by kind, and what could not be read."""

    documents: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def take(
        self, read: Callable[[str], bytes], name: str, kind: str, argument: tuple[str, ...] = ()
    ) -> None:
        """Read one file; `argument` is what names it."""
        try:
            content = read(name)
        except FileProblem as problem:
            self.problems.append(Problem(argument, "unreadable-file", str(problem)))
            return
        self.documents.setdefault(kind, []).append((name, content))


def read_directory(directory: str, names: Iterable[str], read: Callable[[str], bytes]) -> Export:
    """Every file of an export. `names` are the files in the directory; `read` may raise FileProblem.

    Racks and machines must be told by some file: by one of their own, by one that holds resources of several
    kinds, or, both, by a Nexus cluster that is planned.
    """
    export = Export()
    base = directory.rstrip("/") or "/"
    for name in sorted(names):
        kind = _kind_of(name)
        if kind is not None:
            export.take(read, f"{base}/{name}", kind, ("directory",))
    documents = set(export.documents)
    planned = "clusters" in documents and documents.isdisjoint({"racks", "bare_metal_machines"})
    if ANY not in documents and not planned and not export.problems:
        missing = [one for one in STANDARD_FILES if one.required and one.kind not in documents]
        export.problems.extend(_missing(directory, one) for one in missing)
    return export


def is_expected(name: str) -> bool:
    """Whether an export has a file of this name, so that nothing else may stand there."""
    return _kind_of(name) not in (None, ANY)


def irregular(directory: str, names: Sequence[str], exists: Callable[[str], bool]) -> Iterator[str]:
    """The names of an export that stand for no file but a directory, a pipe or the like. `names` are the
    files there; `exists` raises FileProblem for what is none.
    """
    base = directory.rstrip("/") or "/"
    for standard in STANDARD_FILES:
        if standard.name not in names:
            try:
                exists(f"{base}/{standard.name}")
            except FileProblem:
                yield standard.name


def _kind_of(name: str) -> str | None:
    """The kind of a standard file, `agent_pools.core.json` among them; that of others is told by what they
    hold. None: not read.
    """
    if name.endswith(_OF_TOOLS) or not (name.endswith(_ENDINGS) or name == "exported_at"):
        return None
    stem = name.rpartition(".")[0] or name
    for standard in STANDARD_FILES:
        kind = standard.name.partition(".")[0]
        if stem == kind or (standard.several and stem.startswith(f"{kind}.")):
            return standard.kind
    return ANY


def _missing(directory: str, standard: StandardFile) -> Problem:
    return Problem(
        ("directory",),
        "missing-file",
        f'There is no file "{standard.name}" in "{directory}" (a path is relative to where the '
        'command runs; in a module write "${path.module}/..."). Capture it with: '
        f"{standard.command} > {standard.name}",
    )


# --- what was not captured ----------------------------------------------------------------------


NOT_CAPTURED: Final = "not-captured"
_TIMES_NOT_CAPTURED: Final = "creation-times-not-captured"
_MOST_NAMED: Final = 4
_FILES: Final = {standard.kind: standard for standard in STANDARD_FILES}

# What stands on machines, in words, and what follows where it was not captured.
TENANTS: Final = {
    "kubernetes_clusters": ("Kubernetes clusters", "the room of their nodes counts as free"),
    "virtual_machines": ("virtual machines", "their room counts as free"),
}


def capture_command(kind: str) -> str:
    """The command that captures a kind, with the file that it goes to."""
    standard = _FILES[kind]
    return f"{standard.command} > {standard.name}"


CAPTURE_NODES: Final = (
    f"Capture them with: {capture_command('kubernetes_clusters')} (where there are none, nodes is an empty "
    "list)."
)


def missing_ground(items: AzItems) -> list[Problem]:
    """Errors for racks and machines that no file tells of; a Nexus cluster that is planned tells both."""
    missing = [kind for kind in GROUND if not items.of(kind) and kind not in items.listed | items.unreadable]
    if len(missing) == len(GROUND) and items.of("clusters"):
        return []
    return [
        Problem(
            (),
            "missing-file",
            f"No file of the export holds {kind.replace('bare_metal', 'bare-metal').replace('_', ' ')}, and "
            f"nothing can be said of a site without. Capture them with: {capture_command(kind)}",
        )
        for kind in missing
    ]


def not_captured(
    items: AzItems, inventories: Sequence[AzInventory], *, numbers_nodes: bool = True
) -> Iterator[Problem]:
    """Warnings of what else is missing, where machines stand. `numbers_nodes`: the reader numbers
    nodes, so that it matters when they were made.
    """
    if not any(inventory.machines for inventory in inventories) or not items.of("bare_metal_machines"):
        return
    for kind, (words, consequence) in TENANTS.items():
        is_contradicted = kind == "kubernetes_clusters" and items.clusters_lacking
        if kind not in items.listed and not is_contradicted:
            yield from _missing_tenants(kind, words, consequence, items)
    clusters = list(chain.from_iterable(inventory.clusters for inventory in inventories))
    if items.clusters_lacking:
        yield _warning(clusters_missing(items.clusters_lacking))
    without_pools = [cluster for cluster in clusters if not cluster.pools_listed]
    if without_pools:
        yield _warning(_missing_pools(without_pools))
    without_nodes = [cluster for cluster in clusters if not cluster.nodes_listed]
    if without_nodes:
        yield _warning(
            f"{nodes_missing(without_nodes)} on which machines they are is not known, and their room "
            f"counts as free. {CAPTURE_NODES}"
        )
    without_times = [cluster for cluster in clusters if numbers_nodes and _numbers_are_guessed(cluster)]
    if without_times:
        yield _warning(_missing_times(without_times, len(clusters)), _TIMES_NOT_CAPTURED)


def clusters_missing(names: Sequence[str]) -> str:
    """What is said of clusters that only their agent pools show."""
    themselves = form(len(names), "that cluster itself", "those clusters themselves")
    return (
        f"The agent pools of {first_of(names, _MOST_NAMED)} were captured, and not {themselves}: the list of "
        "clusters is not whole, and the room of nodes that neither it nor the state tells counts as free. "
        f"Capture all clusters with: {capture_command('kubernetes_clusters')} (of a cluster that is gone, "
        "delete the file of agent pools)."
    )


def _missing_tenants(kind: str, words: str, consequence: str, items: AzItems) -> Iterator[Problem]:
    """What is said of a kind of tenants that was captured in part or not at all."""
    command = capture_command(kind)
    if not items.of(kind):
        name = _FILES[kind].name
        yield _warning(
            f"No file of the export lists {words} ({name}): none is read, and {consequence}. Capture them "
            f"with: {command} (where there are none, that is an empty list).",
            brief=f"{words}: not captured, and {consequence}: {command}",
        )
    elif kind not in items.incomplete:  # that a list is cut off is said already
        yield _warning(
            f"The export holds single {words}, and no list of them: the room of others counts as free. "
            f"Capture them with: {command}",
            brief=f"{words}: some are not captured, and their room counts as free: {command}",
        )


def _missing_pools(clusters: Sequence[AzCluster]) -> str:
    names = first_of([cluster.name for cluster in clusters], _MOST_NAMED)
    of = form(len(clusters), "it was", "they were")
    return (
        f"The agent pools of {counted(len(clusters), 'cluster')} were not captured ({names}). Their mode, "
        f"zones, labels and taints are those that {of} made with, and where only nodes tell of a pool those "
        "of its nodes: an import would write them so, and a later plan would re-place the VMs of pools that "
        "have others. Capture them, cluster by cluster: "
        f"{pool_command(clusters[0])}"
    )


def nodes_missing(clusters: Sequence[AzCluster]) -> str:
    """What is said of clusters whose nodes were not captured, up to what follows from that."""
    names = first_of([cluster.name for cluster in clusters], _MOST_NAMED)
    return f"The nodes of {counted(len(clusters), 'cluster')} were not captured ({names}):"


def pool_command(cluster: AzCluster) -> str:
    """The command that captures the agent pools of a cluster."""
    parts = cluster.id.split("/")
    lowered = [part.lower() for part in parts]
    at = lowered.index("resourcegroups") + 1 if "resourcegroups" in lowered[:-1] else 0
    group = shlex.quote(parts[at]) if at else "RESOURCE_GROUP"
    standard = _FILES["agent_pools"]
    command = standard.command.replace("RESOURCE_GROUP", group).replace("CLUSTER", shlex.quote(cluster.name))
    return f"{command} > {shlex.quote(f'agent_pools.{cluster.name}.json')}"


def _numbers_are_guessed(cluster: AzCluster) -> bool:
    """Whether nodes of one pool are numbered by their names alone."""
    untimed = [node.pool for node in cluster.nodes if node.created_at is None]
    return len(untimed) > len(set(untimed))


def _missing_times(clusters: Sequence[AzCluster], of: int) -> str:
    names = first_of([cluster.name for cluster in clusters], _MOST_NAMED)
    return (
        f"When nodes were made is not known for {len(clusters):,} of {counted(of, 'cluster')} ({names}): "
        "numbers follow their names, and which node came first is unknown. Where the clusters can be "
        f"reached: kubectl --context {shlex.quote(clusters[0].name)} get nodes --output json > "
        f"{shlex.quote(f'nodes.{clusters[0].name}.json')}"
    )


def _warning(detail: str, kind: str = NOT_CAPTURED, *, brief: str = "") -> Problem:
    return Problem((), kind, detail, Severity.WARNING, brief=brief)
