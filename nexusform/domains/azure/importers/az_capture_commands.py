"""Commands to capture a site, and the files of an export directory by kind.

There are also warnings about kinds that were not captured. A missing file means unknown; an empty
list means none.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.documents.times import is_in_future
from nexusform.domains.azure.importers.arm_resources import extract_resource_group
from nexusform.domains.azure.importers.az_documents import ANY, AzResources
from nexusform.domains.azure.importers.az_records import (
    STANDARD_FILES,
    AzCluster,
    AzSite,
    format_names,
)
from nexusform.domains.azure.importers.site_separation import BASE_KINDS
from nexusform.language.evaluation_run import FileProblem

_SAFE_WORD: Final = re.compile(r"[A-Za-z0-9_./:@%+=-]+")

_SCRIPT: Final = """\
#!/usr/bin/env bash
# Captures an Operator Nexus site for nexusform. Reads only.
# Needs `az login` and the extension networkcloud.
set -u
DIRECTORY={directory}
LOCATION={location}
mkdir -p "$DIRECTORY"
cd "$DIRECTORY" || exit 1
FAILED=0

# Keep only the sites at one extended location of the subscription.
kept() {{
  if [ -n "$LOCATION" ]; then echo "[?extendedLocation.name=='$LOCATION']"; else echo "[]"; fi
}}
# Write the output of a command to FILE, none if it fails. The exit code is then 1.
to() {{ # FILE COMMAND...
  local file=$1
  shift
  if "$@" > "$file.part" < /dev/null; then
    mv "$file.part" "$file"
  else
    rm -f "$file.part"
    echo "not listed: $*" >&2
    FAILED=1
  fi
}}

# Files of an earlier capture are older than exported_at.
rm -f clusters.json racks.json bare_metal_machines.json virtual_machines.json \\
  kubernetes_clusters.json rack_skus.json l3_networks.json l2_networks.json trunked_networks.json \\
  storage_appliances.json volumes.json kubernetes_versions.json \\
  agent_pools.*.json
date -u +%Y-%m-%dT%H:%M:%SZ > exported_at
to clusters.json az networkcloud cluster list --output json
to racks.json az networkcloud rack list --query "$(kept)" --output json
to bare_metal_machines.json az networkcloud baremetalmachine list \\
  --query "$(kept)" --output json
to virtual_machines.json az networkcloud virtualmachine list --query "$(kept)" --output json
to kubernetes_clusters.json az networkcloud kubernetescluster list \\
  --query "$(kept)" --output json
to rack_skus.json az networkcloud racksku list --output json

# Addresses, storage and versions.
to l3_networks.json az networkcloud l3network list --query "$(kept)" --output json
to l2_networks.json az networkcloud l2network list --query "$(kept)" --output json
to trunked_networks.json az networkcloud trunkednetwork list --query "$(kept)" --output json
to storage_appliances.json az networkcloud storageappliance list --query "$(kept)" --output json
to volumes.json az networkcloud volume list --query "$(kept)" --output json
to kubernetes_versions.json az networkcloud kubernetesversion list \\
  --query "$(kept)" --output json

# Agent pools are listed cluster by cluster.
POOLS=clusters.part
to "$POOLS" az networkcloud kubernetescluster list \\
  --query "$(kept).[name, resourceGroup]" --output tsv
if [ -f "$POOLS" ]; then
  while read -r CLUSTER GROUP; do
    to "agent_pools.$CLUSTER.json" az networkcloud kubernetescluster agentpool list \\
      --kubernetes-cluster-name "$CLUSTER" --resource-group "$GROUP" --output json
    # Creation times of nodes. Skip clusters that cannot be reached:
    # kubectl --context "$CLUSTER" get nodes --output json > "nodes.$CLUSTER.json"
  done < "$POOLS"
  rm -f "$POOLS"
fi
exit $FAILED
"""


def build_capture_script(directory: str, location: str) -> str:
    """Build a shell script that captures a site; `location` "" captures the whole subscription.

    It removes the files of an earlier capture first, tries all commands, and exits with 1
    if one failed.
    """
    return _SCRIPT.format(directory=_quote(directory), location=_quote(location))


def _quote(text: str) -> str:
    """Quote a word for the shell."""
    return text if _SAFE_WORD.fullmatch(text) else "'" + text.replace("'", "'\\''") + "'"


# Files with other names are read too; the type of each resource gives its kind.
_EXPORT_SUFFIXES: Final = (".json", ".jsonl", ".yaml", ".yml")
# Configuration files in the same directory.
_CONFIGURATION_SUFFIXES: Final = (".nf.json", ".nfvars.json", ".tf.json", ".tfvars.json")


class AzExport(Struct, frozen=True):
    """Documents of an export by kind, and the files that could not be read."""

    documents: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add_file(
        self, read: Callable[[str], bytes], name: str, kind: str, argument: tuple[str, ...] = ()
    ) -> None:
        """Read one file with resources of a kind, or add a problem.

        The problem is at the path `argument`, such as ("directory",).
        """
        try:
            content = read(name)
        except FileProblem as problem:
            self.problems.append(Problem(argument, "unreadable-file", str(problem)))
            return
        self.documents.setdefault(kind, []).append((name, content))


def read_export_directory(
    directory: str, names: Iterable[str], read: Callable[[str], bytes]
) -> AzExport:
    """Read every file of an export directory.

    `names` are the files in the directory; `read` may raise FileProblem. Report missing files of
    racks or machines, unless a file of mixed kinds or a Nexus cluster may have them.
    """
    export = AzExport()
    base = directory.rstrip("/") or "/"
    for name in sorted(names):
        kind = _find_resource_kind_of_file(name)
        # A file of an export.
        if kind is not None:
            export.add_file(read, f"{base}/{name}", kind, ("directory",))
    documents = set(export.documents)
    # A Nexus cluster defines the racks and machines of a planned site.
    is_planned = "clusters" in documents and documents.isdisjoint({"racks", "bare_metal_machines"})
    if ANY not in documents and not is_planned and not export.problems:
        for kind in BASE_KINDS:
            if kind in documents:
                continue  # captured
            detail = (
                f'There is no file "{_FILES[kind].name}" in "{directory}" (a path is relative to '
                'where the command runs; in a module write "${path.module}/..."). Capture it with: '
                f"{build_capture_command(kind)}"
            )
            export.problems.append(Problem(("directory",), "missing-file", detail))
    return export


def is_export_file(name: str) -> bool:
    """Return True for a standard file name of an export.

    Examples are `racks.json` and `agent_pools.core.json`.
    """
    return _find_resource_kind_of_file(name) not in (None, ANY)


def find_irregular_files(
    directory: str, names: Sequence[str], exists: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the standard export files present as directories, pipes or other special files.

    `names` are the regular files of the directory; `exists` raises FileProblem for a special one.
    """
    base = directory.rstrip("/") or "/"
    for standard in STANDARD_FILES:
        if standard.name not in names:
            try:
                exists(f"{base}/{standard.name}")
            except FileProblem:
                yield standard.name


def _find_resource_kind_of_file(name: str) -> str | None:
    """Find the kind of resources in a file of an export by its name.

    Such names are `racks.json`, or `agent_pools.core.json` for one cluster. Return ANY for other
    names; the content decides then. Return None for a file that is not read: a file of the
    configuration, or of another format.
    """
    if name.endswith(_CONFIGURATION_SUFFIXES):
        return None
    if name != "exported_at" and not name.endswith(_EXPORT_SUFFIXES):
        return None
    # The file exported_at has no suffix.
    stem = name.rpartition(".")[0] or name
    for standard in STANDARD_FILES:
        standard_stem = standard.name.partition(".")[0]
        if stem == standard_stem:
            return standard.kind
        # A file for one cluster has the name of the cluster in the middle.
        if standard.has_several_files and stem.startswith(f"{standard_stem}."):
            return standard.kind
    return ANY


NOT_CAPTURED: Final = "not-captured"
# Capacity of unknown VMs counts as free.
VMS_NOT_CAPTURED: Final = "vms-not-captured"
TIMES_NOT_CAPTURED: Final = "creation-times-not-captured"
_MAX_NAMES: Final = 4
_FILES: Final = {standard.kind: standard for standard in STANDARD_FILES}

# Kinds that run on machines: plural, and consequence if not captured.
WORKLOAD_KINDS: Final = {
    "kubernetes_clusters": ("Kubernetes clusters", "the capacity of their nodes counts as free"),
    "virtual_machines": ("virtual machines", "their capacity counts as free"),
}


def build_capture_command(kind: str) -> str:
    """Build the command that captures a kind into its file."""
    standard = _FILES[kind]
    return f"{standard.command} > {standard.name}"


CAPTURE_NODES: Final = (
    f"Capture them with: {build_capture_command('kubernetes_clusters')} (where there are none, "
    "nodes is an empty list)."
)


def build_future_time_warnings(exported_at: str | None, now: str) -> list[Problem]:
    """Return a warning if an export is later than `now` by more than clocks may differ; else [].

    Both times are RFC 3339.
    """
    if not is_in_future(exported_at or "", now):
        return []
    detail = (
        f"The export has the time {exported_at}, in the future (now: {now}): its age is unknown. "
        "Correct the file "
        "exported_at, or the clock of the computer with the export."
    )
    return [Problem((), "invalid-time", detail, Severity.WARNING)]


def find_missing_base_kinds(items: AzResources) -> list[Problem]:
    """Build an error for each missing list of racks or machines.

    There is no error if a Nexus cluster defines them.
    """
    # A kind may be captured without resources: as an empty list, or in a file with errors.
    captured_kinds = items.listed_kinds | items.unreadable_kinds
    missing = [
        kind for kind in BASE_KINDS if not items.list_resources(kind) and kind not in captured_kinds
    ]
    if len(missing) == len(BASE_KINDS) and items.list_resources("clusters"):
        # A planned site.
        return []
    problems: list[Problem] = []
    for kind in missing:
        noun = kind.replace("bare_metal", "bare-metal").replace("_", " ")
        detail = (
            f"No file of the export holds {noun}. A site cannot be read without them. Capture them "
            f"with: {build_capture_command(kind)}"
        )
        problems.append(Problem((), "missing-file", detail))
    return problems


def find_uncaptured_kind_warnings(
    items: AzResources, sites: Sequence[AzSite], *, needs_node_times: bool = True
) -> Iterator[Problem]:
    """Yield warnings about data missing in the capture of a site.

    This data is the lists of workloads, the pools of clusters, and the nodes. With
    `needs_node_times`, the caller numbers nodes by creation time, so missing times
    are reported, too.
    """
    if not any(site.inventory.machines for site in sites) or not items.list_resources(
        "bare_metal_machines"
    ):
        # A planned site without captured machines has no workloads.
        return
    for kind, (plural, consequence) in WORKLOAD_KINDS.items():
        # Clusters with captured pools, missing in the list of clusters, have a warning below.
        has_other_warning = kind == "kubernetes_clusters" and items.unlisted_clusters
        if kind not in items.listed_kinds and not has_other_warning:
            yield from _warn_about_incomplete_list(kind, plural, consequence, items)
    clusters = list(chain.from_iterable(site.inventory.clusters for site in sites))
    if items.unlisted_clusters:
        yield _build_warning(describe_missing_clusters(items.unlisted_clusters), VMS_NOT_CAPTURED)
    without_pools = [cluster for cluster in clusters if not cluster.has_pool_list]
    if without_pools:
        names = format_names(without_pools, _MAX_NAMES)
        clause = select_word_form(len(without_pools), "it was", "they were")
        yield _build_warning(
            f"The agent pools of {format_count(len(without_pools), 'cluster')} were not captured "
            f"({names}). Their mode, zones, labels and taints are taken from when {clause} "
            "created, or else from their nodes. Pools with other values would be re-placed by a "
            "plan after the import. Capture them for each cluster: "
            f"{build_pool_command(without_pools[0])}"
        )
    for site in sites:
        without_nodes = [item for item in site.inventory.clusters if not item.has_node_list]
        if without_nodes:
            yield _build_warning(
                f"{format_missing_nodes(without_nodes)} Their machines are unknown and their "
                f"capacity counts as free. {CAPTURE_NODES}",
                VMS_NOT_CAPTURED,
                site_id=site.name,
            )
    if needs_node_times:
        yield from _warn_about_missing_creation_times(clusters)


def _warn_about_missing_creation_times(clusters: Sequence[AzCluster]) -> Iterator[Problem]:
    """Warn of clusters with several nodes without a creation time in one pool.

    The order of these is unknown.
    """
    without_times: list[AzCluster] = []
    for cluster in clusters:
        pools = [node.pool for node in cluster.nodes if not node.created_at]
        # A pool occurs twice.
        if len(pools) > len(set(pools)):
            without_times.append(cluster)
    if without_times:
        names = format_names(without_times, _MAX_NAMES)
        missing_times = (
            f"Creation times of nodes are unknown for {len(without_times):,} of "
            f"{format_count(len(clusters), 'cluster')} ({names}): numbers follow their names, and "
            "the creation order "
            "is unknown. For reachable clusters run: kubectl --context "
            f"{shlex.quote(without_times[0].name)} get nodes "
            f"--output json > {shlex.quote(f'nodes.{without_times[0].name}.json')}"
        )
        yield _build_warning(missing_times, TIMES_NOT_CAPTURED)


def describe_missing_clusters(names: Sequence[str]) -> str:
    """Describe clusters known only from their agent pools."""
    themselves = select_word_form(len(names), "that cluster itself", "those clusters themselves")
    return (
        f"The agent pools of {format_first_items(names, _MAX_NAMES)} were captured, but not "
        f"{themselves}: the list of clusters is incomplete. Capacity of unknown nodes counts as "
        f"free. Capture all clusters with: {build_capture_command('kubernetes_clusters')} (for a "
        "deleted cluster, delete its file of agent pools)."
    )


def _warn_about_incomplete_list(
    kind: str, plural: str, consequence: str, items: AzResources
) -> Iterator[Problem]:
    """Yield a warning about a kind of workload without a complete list.

    The list is captured in part or not at all. `plural` names the kind, and `consequence` is the
    effect of a missing list.
    """
    command = build_capture_command(kind)
    if not items.list_resources(kind):
        name = _FILES[kind].name
        yield _build_warning(
            f"The export has no list of {plural} ({name}): none is read and {consequence}. Capture "
            f"them with: {command} (where there are none, that is an empty list).",
            VMS_NOT_CAPTURED,
            brief=f"{plural}: not captured; {consequence}: {command}",
        )
    elif kind not in items.incomplete_kinds:
        # A truncated list has a finding of its own.
        yield _build_warning(
            f"The export contains single {plural}, but no list of them. Capacity of others counts "
            f"as free. Capture them with: {command}",
            VMS_NOT_CAPTURED,
            brief=f"{plural}: some are not captured; their capacity counts as free: {command}",
        )


def format_missing_nodes(clusters: Sequence[AzCluster]) -> str:
    """Return the start of a message about clusters without captured nodes."""
    names = format_names(clusters, _MAX_NAMES)
    return f"The nodes of {format_count(len(clusters), 'cluster')} were not captured ({names}):"


def build_pool_command(cluster: AzCluster) -> str:
    """Build the command that captures the agent pools of a cluster."""
    group = shlex.quote(extract_resource_group(cluster.id) or "RESOURCE_GROUP")
    standard = _FILES["agent_pools"]
    command = standard.command.replace("RESOURCE_GROUP", group).replace(
        "CLUSTER", shlex.quote(cluster.name)
    )
    return f"{command} > {shlex.quote(f'agent_pools.{cluster.name}.json')}"


def _build_warning(
    detail: str, kind: str = NOT_CAPTURED, *, brief: str = "", site_id: str = ""
) -> Problem:
    return Problem((), kind, detail, Severity.WARNING, brief=brief, site_id=site_id)
