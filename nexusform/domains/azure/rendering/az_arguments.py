"""Arguments of the Azure CLI's networkcloud extension, and API bodies converted to them. Recorded from the
extension's definitions (github.com/Azure/azure-cli-extensions, src/networkcloud) and compared with the help
of the version below. Keys are passed as `ssh-key-values`; `administratorConfiguration` is not an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.domains.azure.rendering.azure_objects import CLUSTER, POOL, VM

MACHINE: Final = "Microsoft.NetworkCloud/bareMetalMachines"
EXTENSION: Final = "networkcloud 3.0.0b1"  # has all of these; later versions have more
_CREATE_FLAGS: Final = frozenset({"extended-location", "location", "tags", "admin-username", "ssh-key-values"})
_UPDATE_FLAGS: Final = frozenset({"tags", "ssh-key-values"})
# Flags of each command, without those naming the resource.
ARGUMENTS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    (CLUSTER, "create"): _CREATE_FLAGS
    | {
        "aad-configuration",
        "control-plane-node-configuration",
        "initial-agent-pool-configurations",
        "kubernetes-version",
        "managed-resource-group-configuration",
        "network-configuration",
    },
    (CLUSTER, "update"): _UPDATE_FLAGS | {"control-plane-node-configuration", "kubernetes-version"},
    (POOL, "create"): _CREATE_FLAGS
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
    (POOL, "update"): _UPDATE_FLAGS | {"count", "upgrade-settings"},
    (VM, "create"): _CREATE_FLAGS
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
_ADMINISTRATOR: Final = "administratorConfiguration"
_KEYS: Final = "sshPublicKeys"
_ATTACHMENT: Final = "cloudServicesNetworkAttachment"


def convert_to_cli_arguments(value: Any) -> Any:
    """Convert a part of a body to CLI arguments: names and keys of administrators move up, keys become plain text."""
    if isinstance(value, list):
        return [convert_to_cli_arguments(element) for element in value]
    if not isinstance(value, Mapping):
        return value
    arguments: dict[str, Any] = {}
    for name, part in value.items():
        if name == _ADMINISTRATOR and isinstance(part, Mapping):
            arguments |= convert_to_cli_arguments(part)
        elif name == _KEYS:
            arguments["sshKeyValues"] = _extract_keys(part)
        elif name == _ATTACHMENT and isinstance(part, Mapping):
            # Dynamic is the command's default and has no argument.
            arguments[name] = {key: element for key, element in part.items() if (key, element) != _DYNAMIC}
        else:
            arguments[name] = convert_to_cli_arguments(part)
    return arguments


_DYNAMIC: Final = ("ipAllocationMethod", "Dynamic")


def _extract_keys(part: Any) -> Any:
    """Extract the keys from a list of objects with one key each."""
    if not isinstance(part, list):
        return part
    return [
        element["keyData"] if isinstance(element, Mapping) and "keyData" in element else element for element in part
    ]


def find_unsupported_arguments(kind: str, verb: str, flags: Mapping[str, Any]) -> Iterator[str]:
    """Find the parts of a body without an argument of the command."""
    supported = ARGUMENTS[kind, verb]
    yield from (name for name in flags if name not in supported)
    attachment = flags.get("cloud-services-network-attachment")
    if isinstance(attachment, Mapping) and _DYNAMIC[0] in attachment:
        yield f"cloud-services-network-attachment {_DYNAMIC[0]}"
