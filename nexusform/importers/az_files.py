"""The standard files of an exported site, and the commands that capture them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class StandardFile(Struct, frozen=True):
    """One kind of document.

    `pattern` is a further set of files that are read with it (one agent pool list per cluster).
    `command` captures it; words in capitals are to be filled in.
    """

    kind: str
    name: str
    command: str
    required: bool = False
    pattern: str = ""


EXPORTED_AT: Final = "exported_at"

STANDARD_FILES: Final[tuple[StandardFile, ...]] = (
    StandardFile(
        "racks",
        "racks.json",
        "az networkcloud rack list --resource-group MANAGED_RESOURCE_GROUP --output json",
        required=True,
    ),
    StandardFile(
        "bare_metal_machines",
        "bare_metal_machines.json",
        "az networkcloud baremetalmachine list --resource-group MANAGED_RESOURCE_GROUP --output json",
        required=True,
    ),
    StandardFile(
        "virtual_machines",
        "virtual_machines.json",
        "az networkcloud virtualmachine list --output json",
    ),
    StandardFile(
        "kubernetes_clusters",
        "kubernetes_clusters.json",
        "az networkcloud kubernetescluster list --output json",
    ),
    StandardFile(
        "agent_pools",
        "agent_pools.json",
        "az networkcloud kubernetescluster agentpool list --kubernetes-cluster-name CLUSTER "
        "--resource-group RESOURCE_GROUP --output json",
        pattern="agent_pools.*.json",
    ),
    StandardFile(
        "clusters",
        "clusters.json",
        "az networkcloud cluster list --output json",
    ),
    StandardFile(EXPORTED_AT, "exported_at", "date -u +%Y-%m-%dT%H:%M:%SZ"),
)
