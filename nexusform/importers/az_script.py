"""The commands that capture a site, for people to read and run."""

from __future__ import annotations

import re
from typing import Final

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
