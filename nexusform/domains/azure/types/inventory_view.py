"""A site read from an export, as the maps that data nexus_inventory gives."""

from __future__ import annotations

from typing import Any, Final

from nexusform.domains.azure.importers.az_model import (
    AzCluster,
    AzInventory,
    AzMachine,
    AzNode,
    AzPool,
    AzRack,
    AzShape,
    AzVirtualMachine,
)
from nexusform.json_forms import Form
from nexusform.resource_types.machine_facts import EXPORTED_FACTS
from nexusform.value_types import BOOL, NUMBER, STRING, ListType, MapType, ObjectType, SetType, Type

_OCCUPIED: Final = ObjectType.of(
    {
        "name": STRING,
        "cpu_cores": NUMBER,
        "memory_gib": NUMBER,
        "disk_gib": NUMBER,
        "numa_cells": NUMBER,
        "cells": ListType(NUMBER),
    }
)
_PLACE: Final[dict[str, Type]] = {
    "machine": STRING,
    "rack": STRING,
    "availability_zone": STRING,
}
_SHAPE: Final[dict[str, Type]] = {"cpu_cores": NUMBER, "memory_gib": NUMBER, "disk_gib": NUMBER}

RACKS_TYPE: Final = MapType(
    ObjectType.of(
        {
            "availability_zone": STRING,
            "machine_sku": STRING,
            "rack_sku_id": STRING,
            "arm_id": STRING,
        }
    )
)
MACHINES_TYPE: Final = MapType(
    ObjectType.of(
        {
            "rack": STRING,
            "slot": NUMBER,
            "machine_sku": STRING,
            "machine_sku_id": STRING,
            "machine_name": STRING,
            **{fact.name: fact.attribute.type for fact in EXPORTED_FACTS},
            "occupied": ListType(_OCCUPIED),
            "arm_id": STRING,
        }
    )
)
VIRTUAL_MACHINES_TYPE: Final = MapType(
    ObjectType.of(
        {
            **_SHAPE,
            **_PLACE,
            "numa_cells": NUMBER,
            "cells": ListType(NUMBER),
            "managed": BOOL,
            "arm_id": STRING,
        }
    )
)
_NODE: Final = ObjectType.of(
    {
        **_SHAPE,
        **_PLACE,
        "role": STRING,
        "pool": STRING,
        "vm_sku_name": STRING,
        "numa_cells": ListType(NUMBER),
        "detailed_status": STRING,
    }
)
_POOL: Final = ObjectType.of(
    {
        "count": NUMBER,
        "vm_sku_name": STRING,
        "mode": STRING,
        "availability_zones": SetType(STRING),
        "labels": MapType(STRING),
    }
)
CLUSTERS_TYPE: Final = MapType(
    ObjectType.of(
        {
            "kubernetes_version": STRING,
            "control_plane": ObjectType.of(
                {"count": NUMBER, "vm_sku_name": STRING, "availability_zones": SetType(STRING)}
            ),
            "agent_pools": MapType(_POOL),
            "nodes": MapType(_NODE),
            "managed": BOOL,
            "arm_id": STRING,
        }
    )
)


_STANDING: Final = (
    "cpu_cores=shape.cpu_cores memory_gib=shape.memory_gib disk_gib=shape.disk_gib "
    "machine=placement.machine rack=placement.rack availability_zone=placement.availability_zone"
)
_RACK_SHOWN: Final = Form(AzRack, "availability_zone machine_sku rack_sku_id arm_id=id")
_MACHINE_SHOWN: Final = Form(AzMachine, "rack slot machine_sku machine_sku_id machine_name")
_SHAPE_SHOWN: Final = Form(AzShape)
_VM_SHOWN: Final = Form(
    AzVirtualMachine, f"{_STANDING} numa_cells=shape.numa_cells cells=.", cells=lambda _: None
)
_NODE_SHOWN: Final = Form(
    AzNode, f"{_STANDING} role pool vm_sku_name numa_cells=. detailed_status", numa_cells=lambda _: None
)
_POOL_SHOWN: Final = Form(
    AzPool,
    "count vm_sku_name mode availability_zones labels=.",
    labels=lambda pool: dict(pool.labels),
)
_CLUSTER_SHOWN: Final = Form(
    AzCluster,
    "kubernetes_version control_plane=.",
    control_plane=(
        "count=control_plane_count vm_sku_name=control_plane_sku availability_zones=control_plane_zones"
    ),
)


def view_of(inventory: AzInventory, managed: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The computed attributes as plain data, keys in order of name.

    `managed` are names of clusters, pools ("<cluster>/<pool>") and VMs that resources stand for:
    they are shown, and do not count as occupied.
    """
    occupied = _occupied(inventory, managed)
    return {
        "exported_at": inventory.exported_at,
        "racks": {rack.name: _RACK_SHOWN(rack) for rack in inventory.racks},
        "machines": {m.name: _machine(m, occupied.get(m.name, [])) for m in inventory.machines},
        "virtual_machines": {
            vm.name: _virtual_machine(vm, vm.name in managed) for vm in inventory.virtual_machines
        },
        "kubernetes_clusters": {c.name: _cluster(c, c.name in managed) for c in inventory.clusters},
    }


def _machine(machine: AzMachine, occupied: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        **_MACHINE_SHOWN(machine),
        **{fact.name: machine.facts[fact.name] for fact in EXPORTED_FACTS},
        "occupied": occupied,
        "arm_id": machine.id,
    }


def _occupied(inventory: AzInventory, managed: frozenset[str]) -> dict[str, list[dict[str, Any]]]:
    """What VMs that no resource manages hold, by machine, in order of name.

    `cells` stays null: Azure does not report them.
    """
    vms: list[AzNode | AzVirtualMachine] = []
    for cluster in inventory.clusters:
        vms += cluster.seconds
        if cluster.name not in managed:
            vms += [node for node in cluster.nodes if f"{node.cluster}/{node.pool}" not in managed]
    vms += [vm for vm in inventory.virtual_machines if vm.name not in managed]
    by_machine: dict[str, list[dict[str, Any]]] = {}
    for vm in sorted(vms, key=lambda one: one.name):
        if vm.placement is None:
            continue
        held = by_machine.setdefault(vm.placement.machine, [])
        held.append({"name": _free_name(vm, held), **_SHAPE_SHOWN(vm.shape), "cells": None})
    return by_machine


def _free_name(vm: AzNode | AzVirtualMachine, held: list[dict[str, Any]]) -> str:
    """The VM's name; a node that shares it with another VM of the machine gets its cluster's too."""
    taken = {one["name"] for one in held}
    name = vm.name
    if name in taken and isinstance(vm, AzNode):
        name = f"{vm.name} ({vm.cluster})"
    number = 2
    while name in taken:
        name, number = f"{vm.name} ({number})", number + 1
    return name


def _virtual_machine(vm: AzVirtualMachine, managed: bool) -> dict[str, Any]:
    return {**_VM_SHOWN(vm), "managed": managed, "arm_id": vm.id}


def _cluster(cluster: AzCluster, managed: bool) -> dict[str, Any]:
    return {
        **_CLUSTER_SHOWN(cluster),
        "agent_pools": {pool.name: _POOL_SHOWN(pool) for pool in cluster.pools},
        "nodes": {node.name: _NODE_SHOWN(node) for node in cluster.nodes},
        "managed": managed,
        "arm_id": cluster.id,
    }
