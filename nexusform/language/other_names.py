"""What the same thing is called elsewhere: in Kubernetes, in azurerm, in the Azure command line."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from nexusform.diagnostics import did_you_mean

# Another tool's name -> ours, the likeliest first; the first that is allowed at the place counts.
OTHER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "agent_pool_profile": ("agent_pool",),
    "agent_pool_profiles": ("agent_pool",),
    "az": ("availability_zone", "availability_zones"),
    "bare_metal_machine": ("machine_override",),
    "cluster_id": ("kubernetes_cluster_id",),
    "clusters": ("number_of_clusters", "cluster_names"),
    "content": ("yaml_body", "manifest"),
    "control_plane_node_configuration": ("control_plane",),
    "cores": ("vcpus", "cpu_cores", "cpus_per_cell"),
    "cordon": ("cordoned", "cordon_status"),
    "cpu": ("vcpus", "cpu_cores"),
    "cpus": ("vcpus", "cpu_cores", "cpus_per_cell"),
    "default_node_pool": ("agent_pool",),
    "disk_size_gb": ("disk_gib",),
    "drained": ("evacuate",),
    "drain": ("evacuate",),
    "flavor": ("vm_sku_name", "machine_sku"),
    "flavor_id": ("vm_sku_name", "flavour_id"),
    "flavour": ("vm_sku_name", "flavour_id"),
    "hardware": ("machine_sku",),
    "hardware_profile": ("machine_sku",),
    "initial_agent_pool_configuration": ("agent_pool",),
    "instance_count": ("count", "node_count", "machine_count"),
    "instance_type": ("vm_sku_name",),
    "kubernetes_cluster": ("kubernetes_cluster_id",),
    "machines": ("machine_count",),
    "manifest": ("yaml_body",),
    "manifests": ("yaml_body", "manifest"),
    "memory": ("memory_gib",),
    "memory_gb": ("memory_gib",),
    "memory_mb": ("memory_gib",),
    "min_count": ("count", "node_count"),
    "node_count": ("count", "machine_count"),
    "node_labels": ("labels",),
    "node_pool": ("agent_pool",),
    "node_taints": ("taint",),
    "orchestrator_version": ("kubernetes_version",),
    "placement_policy": ("policy",),
    "policy_type": ("placement_type",),
    "rack": ("rack_id",),
    "racks": ("availability_zones",),
    "ram": ("memory_gib",),
    "replicas": ("count", "node_count", "number_of_clusters"),
    "server_count": ("machine_count",),
    "servers": ("machine_count",),
    "site": ("site_id",),
    "size": ("vm_sku_name",),
    "sku": ("vm_sku_name", "machine_sku"),
    "sku_name": ("vm_sku_name", "machine_sku"),
    "system_node_pool": ("control_plane",),
    "tags": ("labels",),
    "vcpu": ("vcpus", "cpu_cores"),
    "version": ("kubernetes_version",),
    "vm_size": ("vm_sku_name",),
    "vm_sku": ("vm_sku_name",),
    "yaml": ("yaml_body", "manifest"),
    "zone": ("availability_zone", "availability_zones"),
    "zones": ("availability_zones", "availability_zone"),
}
_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def meant_hint(name: str, known: Collection[str], others: Collection[str] = (), kind: str = "") -> str:
    """A closing sentence that names what may be meant by `name`: one of `known`, or one of the `others`,
    which are of another `kind` ("the argument"): the same in snake case or in the singular, another tool's
    word for it, or the nearest spelling; "" without any.
    """
    for candidate in _candidates(name):
        if candidate in known:
            return f' Did you mean "{candidate}"?'
        if candidate in others:
            return f' Did you mean {kind} "{candidate}"?'
    return did_you_mean(name, known)


def _candidates(name: str) -> list[str]:
    snake = _INNER_CAPITAL.sub("_", name).lower()
    return [snake, snake.removesuffix("s"), *OTHER_NAMES.get(snake, ())]
