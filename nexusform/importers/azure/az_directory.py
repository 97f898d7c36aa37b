"""An exported directory: the commands that capture a site into one, and its files, sorted into kinds by their
standard names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics import Problem
from nexusform.importers.azure.az_documents import ANY
from nexusform.importers.azure.az_model import STANDARD_FILES, StandardFile
from nexusform.language.surroundings import FileProblem

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
