"""A site read from an export, as the maps that data nexus_inventory gives."""

from __future__ import annotations

from typing import Any, Final

from nexusform.domains.azure.importers.az_model import (
    AzCluster,
    AzInventory,
    AzMachine,
    AzNode,
    AzPlacement,
    AzPool,
    AzVirtualMachine,
)
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


def view_of(inventory: AzInventory, managed: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The computed attributes as plain data, keys in order of name.

    `managed` are names of clusters, pools ("<cluster>/<pool>") and VMs that resources stand for:
    they are shown, and do not count as occupied.
    """
    occupied = _occupied(inventory, managed)
    return {
        "exported_at": inventory.exported_at,
        "racks": {
            rack.name: {
                "availability_zone": rack.availability_zone,
                "machine_sku": rack.machine_sku,
                "rack_sku_id": rack.rack_sku_id,
                "arm_id": rack.id,
            }
            for rack in inventory.racks
        },
        "machines": {m.name: _machine(m, occupied.get(m.name, [])) for m in inventory.machines},
        "virtual_machines": {
            vm.name: _virtual_machine(vm, vm.name in managed) for vm in inventory.virtual_machines
        },
        "kubernetes_clusters": {c.name: _cluster(c, c.name in managed) for c in inventory.clusters},
    }


def _machine(machine: AzMachine, occupied: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rack": machine.rack,
        "slot": machine.slot,
        "machine_sku": machine.machine_sku,
        "machine_sku_id": machine.machine_sku_id,
        "machine_name": machine.machine_name,
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
        held.append(
            {
                "name": _free_name(vm, held),
                "cpu_cores": vm.shape.cpu_cores,
                "memory_gib": vm.shape.memory_gib,
                "disk_gib": vm.shape.disk_gib,
                "numa_cells": vm.shape.numa_cells,
                "cells": None,
            }
        )
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


def _place(placement: AzPlacement | None) -> dict[str, Any]:
    if placement is None:
        return {"machine": None, "rack": None, "availability_zone": None}
    return {
        "machine": placement.machine,
        "rack": placement.rack,
        "availability_zone": placement.availability_zone,
    }


def _shape(vm: AzNode | AzVirtualMachine) -> dict[str, Any]:
    return {
        "cpu_cores": vm.shape.cpu_cores,
        "memory_gib": vm.shape.memory_gib,
        "disk_gib": vm.shape.disk_gib,
    }


def _virtual_machine(vm: AzVirtualMachine, managed: bool) -> dict[str, Any]:
    return {
        **_shape(vm),
        **_place(vm.placement),
        "numa_cells": vm.shape.numa_cells,
        "cells": None,
        "managed": managed,
        "arm_id": vm.id,
    }


def _cluster(cluster: AzCluster, managed: bool) -> dict[str, Any]:
    return {
        "kubernetes_version": cluster.kubernetes_version,
        "control_plane": {
            "count": cluster.control_plane_count,
            "vm_sku_name": cluster.control_plane_sku,
            "availability_zones": list(cluster.control_plane_zones),
        },
        "agent_pools": {pool.name: _pool(pool) for pool in cluster.pools},
        "nodes": {
            node.name: {
                **_shape(node),
                **_place(node.placement),
                "role": node.role,
                "pool": node.pool,
                "vm_sku_name": node.vm_sku_name,
                "numa_cells": None,
                "detailed_status": node.detailed_status,
            }
            for node in cluster.nodes
        },
        "managed": managed,
        "arm_id": cluster.id,
    }


def _pool(pool: AzPool) -> dict[str, Any]:
    return {
        "count": pool.count,
        "vm_sku_name": pool.vm_sku_name,
        "mode": pool.mode,
        "availability_zones": list(pool.availability_zones),
        "labels": dict(pool.labels),
    }
