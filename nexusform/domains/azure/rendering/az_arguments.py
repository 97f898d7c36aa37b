"""What the commands of the Azure CLI's networkcloud extension take, and bodies of the API in its words.

Recorded from the extension's own definitions (github.com/Azure/azure-cli-extensions, src/networkcloud), and
held against the help of the version that is named here. Keys are given in `ssh-key-values`, whatever the API
calls them; `administratorConfiguration` is no argument at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.domains.azure.rendering.azure_objects import CLUSTER, POOL, VM

MACHINE: Final = "Microsoft.NetworkCloud/bareMetalMachines"
EXTENSION: Final = "networkcloud 3.0.0b1"  # whose help has all of these; later versions have more
_ANY_NEW: Final = frozenset({"extended-location", "location", "tags", "admin-username", "ssh-key-values"})
_CHANGED: Final = frozenset({"tags", "ssh-key-values"})
# The flags of each command, but for those that name the resource.
ARGUMENTS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    (CLUSTER, "create"): _ANY_NEW
    | {
        "aad-configuration",
        "control-plane-node-configuration",
        "initial-agent-pool-configurations",
        "kubernetes-version",
        "managed-resource-group-configuration",
        "network-configuration",
    },
    (CLUSTER, "update"): _CHANGED | {"control-plane-node-configuration", "kubernetes-version"},
    (POOL, "create"): _ANY_NEW
    | {
        "agent-options",
        "attached-network-configuration",
        "availability-zones",
        "count",
        "labels",
        "mode",
        "taints",
        "upgrade-settings",
        "vm-sku-name",
    },
    (POOL, "update"): _CHANGED | {"count", "upgrade-settings"},
    (VM, "create"): _ANY_NEW
    | {
        "boot-method",
        "cloud-services-network-attachment",
        "cpu-cores",
        "memory-size",
        "network-attachments",
        "network-data",
        "placement-hints",
        "storage-profile",
        "user-data",
        "vm-device-model",
        "vm-image",
        "vm-image-repository-credentials",
    },
    (VM, "update"): frozenset({"tags", "vm-image-repository-credentials"}),
    (MACHINE, "cordon"): frozenset({"evacuate"}),
    (MACHINE, "uncordon"): frozenset(),
}
# The flags that name a resource: each command takes them.
_NAMED: Final = frozenset({"name", "resource-group"})
NAMING: Final[Mapping[str, frozenset[str]]] = {
    CLUSTER: _NAMED,
    POOL: _NAMED | {"kubernetes-cluster-name"},
    VM: _NAMED,
    MACHINE: _NAMED,
}
_ADMINISTRATOR: Final = "administratorConfiguration"
_KEYS: Final = "sshPublicKeys"
_ATTACHMENT: Final = "cloudServicesNetworkAttachment"


def as_arguments(value: Any) -> Any:
    """A part of a body in the words of the CLI: administrators' names and keys beside what they are of, and
    keys as plain text.
    """
    if isinstance(value, list):
        return [as_arguments(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    told: dict[str, Any] = {}
    for name, part in value.items():
        if name == _ADMINISTRATOR and isinstance(part, Mapping):
            told |= as_arguments(part)
        elif name == _KEYS:
            told["sshKeyValues"] = _keys(part)
        elif name == _ATTACHMENT and isinstance(part, Mapping):
            # The command makes it Dynamic by itself, and takes no other word for it.
            told[name] = {key: one for key, one in part.items() if (key, one) != _DYNAMIC}
        else:
            told[name] = as_arguments(part)
    return told


_DYNAMIC: Final = ("ipAllocationMethod", "Dynamic")


def _keys(part: Any) -> Any:
    """The keys themselves, of a list of objects that hold one each."""
    if not isinstance(part, list):
        return part
    return [one["keyData"] if isinstance(one, Mapping) and "keyData" in one else one for one in part]


def beyond(kind: str, verb: str, flags: Mapping[str, Any]) -> Iterator[str]:
    """What of a body the command has no argument for."""
    known = ARGUMENTS[kind, verb]
    yield from (name for name in flags if name not in known)
    attachment = flags.get("cloud-services-network-attachment")
    if isinstance(attachment, Mapping) and _DYNAMIC[0] in attachment:
        yield f"cloud-services-network-attachment {_DYNAMIC[0]}"
