"""Effects of the requests that Azure accepts, and actors that change the site meanwhile.

An effect is what a request does to the site as it is when Azure accepts it: whose VMs stop, how
many nodes of which pool end. It is computed from the request and the site alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.domains.azure.providers.arm_server import (
    GROUP,
    LOCATION,
    NEXUS,
    PROVIDER,
    Body,
    Operation,
    Site,
    build_machine_id,
)
from tests.domains.azure.providers.azure_sites import CLUSTER_ID

Effects = Counter[tuple[str, ...]]
POOL_ID = f"{CLUSTER_ID}/agentPools/web"
OTHER_POOL_ID = f"{CLUSTER_ID}/agentPools/np1"
VM_ID = f"{GROUP}/{PROVIDER}/virtualMachines/v"
OTHER_CLUSTER_ID = f"{GROUP}/{PROVIDER}/kubernetesClusters/x"
MACHINE_ID = build_machine_id("m6")
_SETTINGS = {"maxSurge": "1", "maxUnavailable": "0", "drainTimeout": 1800}


# --- effects -------------------------------------------------------------------------------------


def record_effects(site: Site) -> Effects:
    """Return the effects of the requests that a site accepts from now on; it grows with them."""
    effects: Effects = Counter()
    change = site.change

    def change_and_record(method: str, path: str, body: Body | None) -> Operation:
        effects.update(dict(compute_effects(site, method, path, body or {})))
        return change(method, path, body)

    site.change = change_and_record  # type: ignore[method-assign]
    return effects


def compute_effects(
    site: Site, method: str, path: str, body: Body
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each effect of a request on the site as it is now, with its number of VMs."""
    if method == "POST":
        yield from find_action_effects(site, path)
        return
    current = site.resources.get(path.lower())
    if current is None:
        yield ("create", path), 1
        return
    is_cluster = path.split("/")[-2] == "kubernetesClusters"
    if method == "DELETE":
        yield ("delete", path, describe_identity(current)), 1
        for pool in site.of_type("agentPools", path) if is_cluster else ():
            yield ("delete", pool["id"], describe_identity(pool)), 1
        for pool_id, count in count_nodes(site, path).items():
            yield ("end nodes", pool_id), count
        return
    yield ("update", path, describe_identity(current)), 1
    properties = body.get("properties", {})
    if is_cluster:
        plane = "controlPlaneNodeConfiguration"
        yield from find_ended_nodes(path, current["properties"][plane], properties.get(plane, {}))
        version = properties.get("kubernetesVersion", "")
        if version not in ("", current["properties"]["kubernetesVersion"]):
            yield from find_upgrade_effects(site, path)
    elif "count" in current["properties"]:
        yield from find_ended_nodes(path, current["properties"], properties)


def find_action_effects(site: Site, path: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the effects of an action on a machine: whom it stops."""
    machine_id, _, action = path.rpartition("/")
    machine = site.resources[machine_id.lower()]
    serial = str(machine["properties"].get("serialNumber"))
    roles = ",".join(machine["properties"]["machineRoles"])
    yield (action, machine["name"], serial, roles), 1
    if action not in ("cordon", "uncordon"):
        for name in list_vms_on(site, machine_id):
            yield (action, machine["name"], "stops", name), 1


def find_upgrade_effects(site: Site, path: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the effects of an upgrade of a cluster: its pools, their pace and their nodes."""
    for pool in site.of_type("agentPools", path):
        settings = {**_SETTINGS, **(pool["properties"].get("upgradeSettings") or {})}
        pace = ",".join(str(settings[name]) for name in _SETTINGS)
        yield ("upgrade", pool["id"], describe_identity(pool), pace), 1
    for pool_id, count in count_nodes(site, path).items():
        yield ("re-create nodes", pool_id), count


def find_ended_nodes(path: str, current: Body, sent: Body) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the nodes that a lower count ends."""
    ended = current["count"] - sent.get("count", current["count"])
    if ended > 0:
        yield ("end nodes", path), ended


def describe_identity(body: Body) -> str:
    sku = body["properties"].get("vmSkuName", "")
    return f"{body['systemData']['createdAt']} {sku}"


def count_nodes(site: Site, path: str) -> Counter[str]:
    """Return the number of nodes of a cluster or pool, by id of the pool."""
    cluster_id = path.partition("/agentPools/")[0]
    nodes = site.resources.get(cluster_id.lower(), {}).get("properties", {}).get("nodes", [])
    owners = [node.get("agentPoolId") or cluster_id for node in nodes]
    return Counter(owner for owner in owners if path in (owner, cluster_id))


def list_vms_on(site: Site, machine_id: str) -> Iterator[str]:
    """Yield the nodes and VMs that run on a machine."""
    for body in site.resources.values():
        for node in body["properties"].get("nodes") or ():
            if node["bareMetalMachineId"] == machine_id:
                yield node["name"]
        if body["properties"].get("bareMetalMachineId") == machine_id:
            yield body["name"]


def find_larger_effects(effects: Effects, approved: Effects) -> Effects:
    """Return the effects that are new or larger than the approved ones."""
    return effects - approved


# --- actors --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Actor:
    """Change of a site by others; `members` are the observed members that it changes.

    The report of apply has one of `names`.
    """

    change: Callable[[Site], None]
    names: tuple[str, ...]
    members: tuple[str, ...]


def touch(site: Site, arm_id: str) -> None:
    """Record another version of a resource."""
    site.etags += 1
    site.resources[arm_id.lower()]["etag"] = f"e{site.etags}"


def get_properties(site: Site, arm_id: str) -> Body:
    """Return the properties of a resource, to change them."""
    properties: Body = site.resources[arm_id.lower()]["properties"]
    return properties


def set_members(arm_id: str, **members: Any) -> Callable[[Site], None]:
    def change(site: Site) -> None:
        properties = get_properties(site, arm_id)
        for name, value in members.items():
            old = properties.get(name)
            properties[name] = {**old, **value} if isinstance(old, dict) else value
        if "/kubernetesclusters/" in arm_id.lower():
            cluster_id = arm_id.partition("/agentPools/")[0]
            site.adjust_nodes(cluster_id)
            touch(site, cluster_id)
        touch(site, arm_id)

    return change


def start_vm(site: Site) -> None:
    """Start a VM of another team on m6."""
    properties = {
        "clusterId": NEXUS,
        "provisioningState": "Succeeded",
        "cpuCores": 4,
        "memorySizeGB": 8,
        "detailedStatus": "Running",
        "powerState": "On",
        "storageProfile": {"osDisk": {"diskSizeGB": 64}},
        "bareMetalMachineId": MACHINE_ID,
    }
    vm_id = f"{GROUP}/{PROVIDER}/virtualMachines/vm-7"
    site.put(vm_id, {"extendedLocation": LOCATION, "location": "eastus", "properties": properties})


def start_cluster(site: Site) -> None:
    """Create a cluster of another team with its control plane on m6."""
    properties = {
        "clusterId": NEXUS,
        "provisioningState": "Succeeded",
        "kubernetesVersion": "v1.29",
        "controlPlaneNodeConfiguration": {"count": 1, "vmSkuName": "NC_P10_56_v1"},
        "initialAgentPoolConfigurations": [],
    }
    body = {"extendedLocation": LOCATION, "location": "eastus", "properties": properties}
    site.put(OTHER_CLUSTER_ID, body)
    site.adjust_nodes(OTHER_CLUSTER_ID)
    site.properties(OTHER_CLUSTER_ID)["nodes"][0]["bareMetalMachineId"] = MACHINE_ID


def move_node(site: Site) -> None:
    """Move a node of cluster c to m6."""
    for node in reversed(site.properties(CLUSTER_ID)["nodes"]):
        if node["bareMetalMachineId"] != MACHINE_ID:
            node["bareMetalMachineId"] = MACHINE_ID
            return


def empty_machine(site: Site) -> None:
    """Move every node on m6 to m5, so that an action stops nothing."""
    for node in site.properties(CLUSTER_ID)["nodes"]:
        if node["bareMetalMachineId"] == MACHINE_ID:
            node["bareMetalMachineId"] = build_machine_id("m5")


def replace_node(site: Site) -> None:
    """Delete a node: the platform creates another one."""
    site.delete_node(site.properties(CLUSTER_ID)["nodes"][-1]["name"])


def add_pool(site: Site) -> None:
    properties = {"count": 2, "mode": "User", "vmSkuName": "NC_P22_112_v1"}
    site.put(f"{CLUSTER_ID}/agentPools/extra", {"location": "eastus", "properties": properties})
    site.adjust_nodes(CLUSTER_ID)
    touch(site, CLUSTER_ID)


def create_again(arm_id: str, **members: Any) -> Callable[[Site], None]:
    """Return a change: the resource is deleted, and one of the same name is created."""

    def change(site: Site) -> None:
        body = site.resources[arm_id.lower()]
        body["systemData"] = {**body["systemData"], "createdAt": "2026-11-30T00:00:00Z"}
        body["properties"] |= members
        touch(site, arm_id)

    return change


def delete_pool(site: Site) -> None:
    del site.resources[POOL_ID.lower()]
    site.adjust_nodes(CLUSTER_ID)
    touch(site, CLUSTER_ID)


def begin_action(action: str, machine: str = "m6") -> Callable[[Site], None]:
    def change(site: Site) -> None:
        run = {
            "actionType": f"Microsoft.NetworkCloud/bareMetalMachines/{action}/action",
            "startTime": "2026-11-30T00:00:00Z",
            "status": "InProgress",
        }
        properties = get_properties(site, build_machine_id(machine))
        properties["actionStates"] = [*(properties.get("actionStates") or ()), run]

    return change


def set_tag(arm_id: str, name: str, value: str) -> Callable[[Site], None]:
    def change(site: Site) -> None:
        body = site.resources[arm_id.lower()]
        body["tags"] = {**body.get("tags", {}), name: value}
        touch(site, arm_id)

    return change


CONTROL_PLANE = ["platform.afo-nc.microsoft.com/control-plane=true"]
ACTORS: dict[str, Actor] = {
    "vm-arrives": Actor(start_vm, ("vm-7",), ("virtualMachines",)),
    "cluster-arrives": Actor(start_cluster, ("x-0a1b2c3d",), ("kubernetesClusters",)),
    "node-moves": Actor(move_node, ("m6",), ("nodes",)),
    "node-is-replaced": Actor(replace_node, ("c-",), ("nodes",)),
    "pool-grows": Actor(set_members(POOL_ID, count=5), ("web",), ("count",)),
    "pool-shrinks": Actor(set_members(POOL_ID, count=1), ("web",), ("count",)),
    "other-pool-grows": Actor(set_members(OTHER_POOL_ID, count=3), ("np1",), ("count",)),
    "pool-is-added": Actor(add_pool, ("extra",), ("agentPools",)),
    "pool-is-deleted": Actor(delete_pool, ("web",), ("agentPools",)),
    "max-unavailable": Actor(
        set_members(POOL_ID, upgradeSettings={"maxUnavailable": "100%"}),
        ("max_unavailable",),
        ("upgradeSettings",),
    ),
    "max-surge": Actor(
        set_members(POOL_ID, upgradeSettings={"maxSurge": "2"}),
        ("max_surge",),
        ("upgradeSettings",),
    ),
    "drain-timeout": Actor(
        set_members(POOL_ID, upgradeSettings={"drainTimeout": 60}),
        ("drain_timeout",),
        ("upgradeSettings",),
    ),
    "pool-is-created-again": Actor(create_again(POOL_ID), ("web",), ("createdAt",)),
    "pool-of-another-sku": Actor(
        create_again(POOL_ID, vmSkuName="NC_P10_56_v1"), ("web",), ("createdAt", "vmSkuName")
    ),
    "cluster-is-created-again": Actor(
        create_again(CLUSTER_ID), ("lab/c: creation time",), ("createdAt",)
    ),
    "cluster-is-upgraded": Actor(
        set_members(CLUSTER_ID, kubernetesVersion="v1.30"), ("v1.30",), ("kubernetesVersion",)
    ),
    "control-plane-grows": Actor(
        set_members(CLUSTER_ID, controlPlaneNodeConfiguration={"count": 3}),
        ("control",),
        ("controlPlaneNodeConfiguration",),
    ),
    "machine-role": Actor(
        set_members(MACHINE_ID, machineRoles=CONTROL_PLANE), ("m6",), ("machineRoles",)
    ),
    "machine-hardware": Actor(
        set_members(MACHINE_ID, machineSkuId="Compute_DellR650_32C_256GB_4d6n"),
        ("m6",),
        ("machineSkuId",),
    ),
    "machine-serial-number": Actor(
        set_members(MACHINE_ID, serialNumber="S2"), ("m6",), ("serialNumber",)
    ),
    "cordon": Actor(set_members(MACHINE_ID, cordonStatus="Cordoned"), ("m6",), ("cordonStatus",)),
    "power-off": Actor(
        set_members(MACHINE_ID, powerState="Off", readyState="False"),
        ("m6",),
        ("powerState", "readyState"),
    ),
    "deprovisioned": Actor(
        set_members(MACHINE_ID, detailedStatus="Deprovisioned"), ("m6",), ("detailedStatus",)
    ),
    "reimage-begins": Actor(begin_action("reimage"), ("m6",), ("actionStates",)),
    "reimage-begins-elsewhere": Actor(begin_action("reimage", "m2"), ("m2",), ("actionStates",)),
    "runtime-upgrade-begins": Actor(
        set_members(NEXUS, detailedStatus="Updating"), ("runtime upgrade",), ("clusterStatus",)
    ),
}
