"""A site of an export as the maps of data nexus_inventory."""

from __future__ import annotations

from typing import Any, Final

from nexusform.domains.azure.importers.az_records import (
    AzCluster,
    AzInventory,
    AzMachine,
    AzNode,
    AzPool,
    AzRack,
    AzVirtualMachine,
    AzVmSize,
)
from nexusform.json_data.record_forms import RecordForm
from nexusform.resource_types.machine_facts import EXPORTED_FACTS
from nexusform.schemas.value_types import BOOL, NUMBER, STRING, ListType, MapType, ObjectType, SetType, Type

_OCCUPIED: Final = ObjectType.create(
    {
        "name": STRING,
        "cpu_cores": NUMBER,
        "memory_gib": NUMBER,
        "disk_gib": NUMBER,
        "numa_cells": NUMBER,
        "cells": ListType(NUMBER),
    }
)
_LOCATION: Final[dict[str, Type]] = {"machine": STRING, "rack": STRING, "availability_zone": STRING}
_SHAPE: Final[dict[str, Type]] = {"cpu_cores": NUMBER, "memory_gib": NUMBER, "disk_gib": NUMBER}

RACKS_TYPE: Final = MapType(
    ObjectType.create({"availability_zone": STRING, "machine_sku": STRING, "rack_sku_id": STRING, "arm_id": STRING})
)
MACHINES_TYPE: Final = MapType(
    ObjectType.create(
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
    ObjectType.create(
        {**_SHAPE, **_LOCATION, "numa_cells": NUMBER, "cells": ListType(NUMBER), "managed": BOOL, "arm_id": STRING}
    )
)
_NODE: Final = ObjectType.create(
    {
        **_SHAPE,
        **_LOCATION,
        "role": STRING,
        "pool": STRING,
        "vm_sku_name": STRING,
        "numa_cells": ListType(NUMBER),
        "detailed_status": STRING,
    }
)
_POOL: Final = ObjectType.create(
    {
        "count": NUMBER,
        "vm_sku_name": STRING,
        "mode": STRING,
        "availability_zones": SetType(STRING),
        "labels": MapType(STRING),
    }
)
CLUSTERS_TYPE: Final = MapType(
    ObjectType.create(
        {
            "kubernetes_version": STRING,
            "control_plane": ObjectType.create(
                {"count": NUMBER, "vm_sku_name": STRING, "availability_zones": SetType(STRING)}
            ),
            "agent_pools": MapType(_POOL),
            "nodes": MapType(_NODE),
            "managed": BOOL,
            "arm_id": STRING,
        }
    )
)


_PLACEMENT_FIELDS: Final = (
    "cpu_cores=shape.cpu_cores memory_gib=shape.memory_gib disk_gib=shape.disk_gib "
    "machine=placement.machine rack=placement.rack availability_zone=placement.availability_zone"
)
_RACK_FORM: Final = RecordForm(AzRack, "availability_zone machine_sku rack_sku_id arm_id=id")
_MACHINE_FORM: Final = RecordForm(AzMachine, "rack slot machine_sku machine_sku_id machine_name")
_SHAPE_FORM: Final = RecordForm(AzVmSize)
_VM_FORM: Final = RecordForm(
    AzVirtualMachine, f"{_PLACEMENT_FIELDS} numa_cells=shape.numa_cells cells=.", cells=lambda _: None
)
_NODE_FORM: Final = RecordForm(
    AzNode, f"{_PLACEMENT_FIELDS} role pool vm_sku_name numa_cells=. detailed_status", numa_cells=lambda _: None
)
_POOL_FORM: Final = RecordForm(
    AzPool, "count vm_sku_name mode availability_zones labels=.", labels=lambda pool: dict(pool.labels)
)
_CLUSTER_FORM: Final = RecordForm(
    AzCluster,
    "kubernetes_version control_plane=.",
    control_plane=("count=control_plane_count vm_sku_name=control_plane_sku availability_zones=control_plane_zones"),
)


def build_inventory_attributes(inventory: AzInventory, managed: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Build the computed attributes as plain data, keys sorted. `managed`: names of clusters, pools
    ("<cluster>/<pool>") and VMs with a resource; they are listed and do not count as occupied.
    """
    occupied = _collect_occupied_capacity(inventory, managed)
    return {
        "exported_at": inventory.exported_at,
        "racks": {rack.name: _RACK_FORM(rack) for rack in inventory.racks},
        "machines": {m.name: _build_machine(m, occupied.get(m.name, [])) for m in inventory.machines},
        "virtual_machines": {
            vm.name: {**_VM_FORM(vm), "managed": (vm.name in managed), "arm_id": vm.id}
            for vm in inventory.virtual_machines
        },
        "kubernetes_clusters": {c.name: _build_cluster(c, c.name in managed) for c in inventory.clusters},
    }


def _build_machine(machine: AzMachine, occupied: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        **_MACHINE_FORM(machine),
        **{fact.name: machine.facts[fact.name] for fact in EXPORTED_FACTS},
        "occupied": occupied,
        "arm_id": machine.id,
    }


def _collect_occupied_capacity(inventory: AzInventory, managed: frozenset[str]) -> dict[str, list[dict[str, Any]]]:
    """Collect the capacity used by unmanaged VMs, by machine, sorted by name. `cells` is null, since Azure
    does not report NUMA cells.
    """
    vms: list[AzNode | AzVirtualMachine] = []
    for cluster in inventory.clusters:
        vms += cluster.duplicate_nodes
        if cluster.name not in managed:
            vms += [node for node in cluster.nodes if f"{node.cluster}/{node.pool}" not in managed]
    vms += [vm for vm in inventory.virtual_machines if vm.name not in managed]
    by_machine: dict[str, list[dict[str, Any]]] = {}
    for vm in sorted(vms, key=lambda item: item.name):
        if vm.placement is None:
            continue
        entries = by_machine.setdefault(vm.placement.machine, [])
        # Build a name for a VM, unique on its machine; a node with a taken name gets its cluster's name added.
        used_names = {entry["name"] for entry in entries}
        name = vm.name
        if name in used_names and isinstance(vm, AzNode):
            name = f"{vm.name} ({vm.cluster})"
        number = 2
        while name in used_names:
            name, number = f"{vm.name} ({number})", number + 1
        entries.append({"name": name, **_SHAPE_FORM(vm.shape), "cells": None})
    return by_machine


def _build_cluster(cluster: AzCluster, is_managed: bool) -> dict[str, Any]:
    return {
        **_CLUSTER_FORM(cluster),
        "agent_pools": {pool.name: _POOL_FORM(pool) for pool in cluster.pools},
        "nodes": {node.name: _NODE_FORM(node) for node in cluster.nodes},
        "managed": is_managed,
        "arm_id": cluster.id,
    }
