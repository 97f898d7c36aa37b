"""A site of an export as the objects that nexusform would hold of it: what an import takes over.

Every object has the arguments of its type and what the site tells of it, and says which other objects it
refers to; what only nexusform computes (a cluster's capacity) is not there.
Placements are facts ("observed"); NUMA cells, which Azure does not report, are unknown (null).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from math import ceil
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.azure.importers.arm import name_of
from nexusform.domains.azure.importers.az_known_nodes import NO_NODES, KnownNodes, KnownPool, numbered
from nexusform.domains.azure.importers.az_model import (
    AzCluster,
    AzInventory,
    AzMachine,
    AzNode,
    AzPlacement,
    AzPool,
    AzRack,
    AzShape,
    AzSite,
    AzVirtualMachine,
)
from nexusform.domains.azure.importers.az_supplies import supplies_of
from nexusform.plain_data import Path
from nexusform.plans.room.other_room import note_of_supplies
from nexusform.scheduling.catalogue import CATALOGUES, DEFAULT_MACHINE_SKU, NEWEST
from nexusform.scheduling.racks.vms import CONTROL_PLANE, VmSku

OBSERVED: Final = "observed"
CLUSTER: Final = "nexus_kubernetes_cluster"
VIRTUAL_MACHINE: Final = "nexus_virtual_machine"
UPGRADE_DEFAULTS: Final = {"max_surge": "1", "max_unavailable": "0", "drain_timeout": 1800}
_LONGEST_ZONE: Final = 10
_NOT_IN_ZONE: Final = re.compile(r"[^a-zA-Z0-9]")

Reference = tuple[str, str]  # type and id


class AdoptedObject(Struct, frozen=True):
    """One object to take over: its type, id and attributes (plain data, as state keeps them), and by the
    path of an argument the (type, id) that it refers to. `note` is what state notes of it besides.
    """

    type: str
    id: str
    attributes: Mapping[str, Any]
    refers: Mapping[Path, Reference] = field(default_factory=dict)
    note: Mapping[str, Any] | None = None


class AdoptedSite(Struct, frozen=True):
    """The objects of a site in the order in which they are planned, those of Azure by their creation.

    `adopted`, `occupied` and `unplaced` count VMs and nodes that the export lists: with a machine, held as
    room of a machine because no object stands for them, and without a machine.
    """

    name: str
    objects: tuple[AdoptedObject, ...]
    adopted: int
    occupied: int
    unplaced: int
    findings: tuple[Problem, ...] = ()


def adopt_sites(sites: Iterable[AzSite], known: KnownNodes = NO_NODES) -> tuple[AdoptedSite, ...]:
    """The objects of sites. A VM SKU that several of them have is told with the first."""
    listed = list(sites)
    largest: dict[str, VmSku] = {}
    for sku in chain.from_iterable(site.inventory.vm_skus for site in listed):
        other = largest.get(sku.name, sku)
        largest[sku.name] = replace(
            sku,
            vcpus=max(sku.vcpus, other.vcpus),
            memory_gib=max(sku.memory_gib, other.memory_gib),
            disk_gib=max(sku.disk_gib, other.disk_gib),
        )
    skus_said: set[str] = set()
    adopted = []
    for site in listed:
        own = {sku.name for sku in site.inventory.vm_skus} - skus_said
        skus_said |= own
        adopted.append(_Adoption(site, known, largest, own).result())
    return tuple(adopted)


class _Adoption:
    """One site while its objects are made."""

    def __init__(
        self, site: AzSite, known: KnownNodes, own_skus: Mapping[str, VmSku], skus_said_here: AbstractSet[str]
    ) -> None:
        self.name = site.name
        self.site: AzInventory = site.inventory
        self.known = known
        self.findings: list[Problem] = []
        self.own_skus = own_skus
        self.skus_said_here = skus_said_here
        self.skus: dict[str, VmSku] = {**CATALOGUES[NEWEST].vm_skus, **own_skus}
        self.zones = _zones(self.site.racks)
        self.occupied: dict[str, list[dict[str, Any]]] = {}
        self.counts: Counter[str] = Counter()

    def result(self) -> AdoptedSite:
        """All objects. VMs come first: what no object stands for is room that machines have not."""
        workloads = [*self._clusters(), *self._virtual_machines()]
        workloads.sort(key=lambda pair: pair[0])
        objects = [
            AdoptedObject("nexus_site", self.name, self._site(), note=self._supplies()),
            *(_vm_sku(self.own_skus[name]) for name in sorted(self.skus_said_here)),
            *(self._rack(rack) for rack in self.site.racks),
            *self._machines(),
            *(one for _, one in workloads),
        ]
        return AdoptedSite(
            name=self.name,
            objects=tuple(objects),
            adopted=self.counts["adopted"],
            occupied=self.counts["occupied"],
            unplaced=self.counts["unplaced"],
            findings=tuple(self.findings),
        )

    def _supplies(self) -> Mapping[str, Any]:
        """What the site has beside machines, as every later look notes it."""
        return note_of_supplies(supplies_of(self.site.supplies))

    def _site(self) -> dict[str, Any]:
        strategy = self.site.update_strategy
        return {"id": self.name, "name": self.name, "scheduler": None, "update_strategy": strategy}

    # --- racks and machines ---

    def _rack(self, rack: AzRack) -> AdoptedObject:
        rack_id = f"{self.name}/{rack.name}"
        attributes = {
            "id": rack_id,
            "site_id": self.name,
            "name": rack.name,
            "availability_zone": self.zones[rack.name],
            "machine_count": 0,
            "machine_sku": rack.machine_sku or DEFAULT_MACHINE_SKU,
            "machine": None,
            "machine_override": {},
            "machine_override_order": [],
            "machines": {},
            "status": "active",
        }
        return AdoptedObject("nexus_rack", rack_id, attributes, {("site_id",): ("nexus_site", self.name)})

    def _machines(self) -> Iterator[AdoptedObject]:
        """The machines; one without a slot, or with one that is taken, gets the next free one of its rack."""
        taken: set[tuple[str, int]] = set()
        for machine in sorted(self.site.machines, key=lambda m: (m.rack, m.slot, m.name)):
            slot = machine.slot
            while slot < 1 or (machine.rack, slot) in taken:
                slot += 1
            taken.add((machine.rack, slot))
            yield self._machine(machine, slot)

    def _machine(self, machine: AzMachine, slot: int) -> AdoptedObject:
        rack_id = f"{self.name}/{machine.rack}"
        machine_id = f"{rack_id}/{machine.name}"
        own = machine.hardware if machine.machine_sku is None else None
        figures = own and {
            "numa_cells": own.cells,
            "cpus_per_cell": own.cpus_per_cell,
            "memory_gib_per_cell": own.memory_gib_per_cell,
            "ephemeral_disk_gib": own.disk_gib,
        }
        attributes = {
            "id": machine_id,
            "rack_id": rack_id,
            "name": machine.name,
            "slot": slot,
            "machine_sku": machine.machine_sku if own else machine.machine_sku or DEFAULT_MACHINE_SKU,
            "machine": figures,
            **machine.facts,
            "occupied": self.occupied.get(machine.name, []),
        }
        refers: dict[Path, Reference] = {("rack_id",): ("nexus_rack", rack_id)}
        return AdoptedObject("nexus_bare_metal_machine", machine_id, attributes, refers)

    # --- clusters ---

    def _clusters(self) -> Iterator[tuple[tuple[str, str], AdoptedObject]]:
        for cluster in self.site.clusters:
            made = self._cluster(cluster)
            if made is not None:
                yield (cluster.created_at or "", cluster.name), made

    def _cluster(self, cluster: AzCluster) -> AdoptedObject | None:
        """A cluster with its pools and nodes; None, and a finding, where a VM SKU is not known."""
        by_pool: dict[str, list[AzNode]] = {}
        for node in cluster.nodes:
            by_pool.setdefault(node.pool, []).append(node)
        plane = by_pool.get(CONTROL_PLANE, [])
        plane_sku = cluster.control_plane_sku or next((n.vm_sku_name for n in plane if n.vm_sku_name), None)
        pools = self._pools(cluster)
        skus = [plane_sku, *(pool["vm_sku_name"] for pool in pools.values())]
        missing = [sku for sku in skus if sku not in self.skus]
        if missing or plane_sku is None:
            self._leave_out(cluster, missing)
            return None
        for second in cluster.seconds:
            self._occupy(second.name, second.placement, second.shape)
        plane_count = cluster.control_plane_count or max(len(plane), 1)
        nodes = self._nodes(cluster, CONTROL_PLANE, plane_count, plane_sku, plane)
        for name, pool in pools.items():
            standing = by_pool.get(name, [])
            nodes |= self._nodes(cluster, name, pool["count"], pool["vm_sku_name"], standing)
        attributes = {
            "id": f"{self.name}/{cluster.name}",
            "site_id": self.name,
            "name": cluster.name,
            "kubernetes_version": cluster.kubernetes_version,
            "hardware_label_keys": [],
            "control_plane": {
                "count": plane_count,
                "vm_sku_name": plane_sku,
                "availability_zones": list(cluster.control_plane_zones) or None,
            },
            "agent_pool": pools,
            "agent_pool_order": list(pools),
            "nodes": nodes,
            "node_count": len(nodes),
        }
        refers = {("site_id",): ("nexus_site", self.name), **self._sku_references(plane_sku, pools)}
        return AdoptedObject(CLUSTER, f"{self.name}/{cluster.name}", attributes, refers)

    def _pools(self, cluster: AzCluster) -> dict[str, dict[str, Any]]:
        """The arguments of the pools by name. Where they were not captured, those that are known stay."""
        pools = {pool.name: pool_arguments(pool) for pool in cluster.pools}
        untold = {pool.name for pool in cluster.pools if not pool.id}
        for name, known in self.known.arguments_of(f"{self.name}/{cluster.name}").items():
            if name in untold or not cluster.pools_listed:
                pools[name] = {"count": 0, **pools.get(name, {}), **known}
        return pools

    def _sku_references(
        self, plane_sku: str, pools: Mapping[str, Mapping[str, Any]]
    ) -> dict[Path, Reference]:
        """Where a cluster names VM SKUs that have a block of their own."""
        named: dict[Path, str] = {("control_plane", "vm_sku_name"): plane_sku}
        named |= {("agent_pool", name, "vm_sku_name"): pool["vm_sku_name"] for name, pool in pools.items()}
        return {path: ("nexus_vm_sku", name) for path, name in named.items() if name in self.own_skus}

    def _leave_out(self, cluster: AzCluster, missing: Sequence[str | None]) -> None:
        """A cluster that cannot be described: its nodes hold their room all the same."""
        why = f"nothing tells the size of {missing[0]}" if missing and missing[0] else "it names no VM SKU"
        self._say(
            "not-adopted",
            f'the cluster "{cluster.name}" is not adopted: {why}. Its nodes count as occupied.',
        )
        for node in (*cluster.nodes, *cluster.seconds):
            self._occupy(node.name, node.placement, node.shape)

    def _nodes(
        self, cluster: AzCluster, pool: str, count: int, sku_name: str, standing: Sequence[AzNode]
    ) -> dict[str, dict[str, Any]]:
        """The nodes of a pool by our names. Nodes beyond the count (an upgrade goes on) hold their room as
        occupied; those that lack wait for a machine.
        """
        known = self.known.pools.get((f"{self.name}/{cluster.name}", pool), KnownPool())
        by_number = numbered(standing, count, known)
        names = {node.name for node in by_number.values()}
        for node in standing:
            if node.name not in names:
                self._occupy(node.name, node.placement, node.shape)
        records: dict[str, dict[str, Any]] = {}
        for number in range(count):
            record = self._node(pool, number, sku_name, by_number.get(number))
            records[f"{cluster.name}-{pool}-{number}"] = record
        return records

    def _node(self, pool: str, number: int, sku_name: str, node: AzNode | None) -> dict[str, Any]:
        """The record of one node: of the one that stands, or of one that waits for a machine."""
        placement = node.placement if node is not None else None
        own_sku = node.vm_sku_name if node is not None and node.vm_sku_name in self.skus else sku_name
        if node is not None:
            self.counts["unplaced" if placement is None else "adopted"] += 1
        if node is not None and placement is not None:
            self._hold_excess(node, self.skus[own_sku or sku_name], placement)
        return {
            "role": "ControlPlane" if pool == CONTROL_PLANE else "Worker",
            "pool": pool,
            "number": number,
            "vm_sku_name": own_sku,
            **self._place(placement),
            "numa_cells": None,
            "platform_name": node.name if node is not None else None,
            "provenance": OBSERVED,
        }

    def _place(self, placement: AzPlacement | None) -> dict[str, Any]:
        if placement is None:
            return {"machine": None, "rack": None, "availability_zone": None}
        zone = self.zones.get(placement.rack)
        return {"machine": placement.machine, "rack": placement.rack, "availability_zone": zone}

    # --- plain VMs ---

    def _virtual_machines(self) -> Iterator[tuple[tuple[str, str], AdoptedObject]]:
        known = self._hint_targets()
        for vm in self.site.virtual_machines:
            yield (vm.created_at or "", vm.name), self._virtual_machine(vm, known)

    def _virtual_machine(self, vm: AzVirtualMachine, known: Mapping[str, Reference]) -> AdoptedObject:
        """A VM with the placement hints whose targets the site shows."""
        vm_id = f"{self.name}/{vm.name}"
        self.counts["unplaced" if vm.placement is None else "adopted"] += 1
        targets = [known.get(name_of(hint.resource_id)) for hint in vm.hints]
        hints = [
            {
                "hint_type": hint.hint_type,
                "resource_id": target[1],
                "scheduling_execution": hint.scheduling_execution,
                "scope": hint.scope,
            }
            for hint, target in zip(vm.hints, targets, strict=True)
            if target is not None
        ]
        if len(hints) < len(vm.hints):
            lost = next(name_of(h.resource_id) for h in vm.hints if name_of(h.resource_id) not in known)
            self._say(
                "hint-not-adopted",
                f'the VM "{vm.name}" has a placement hint on "{lost}", which this site of the export lacks: '
                "the hint is left out.",
            )
        attributes = {
            "id": vm_id,
            "site_id": self.name,
            "name": vm.name,
            "cpu_cores": max(vm.shape.cpu_cores, 2),
            "memory_gib": max(vm.shape.memory_gib, 1),
            "disk_gib": vm.shape.disk_gib,
            "numa_cells": max(vm.shape.numa_cells, 1),
            "placement_hint": hints,
            **self._place(vm.placement),
            "cells": None,
            "provenance": OBSERVED,
        }
        refers: dict[Path, Reference] = {("site_id",): ("nexus_site", self.name)}
        for number, target in enumerate(target for target in targets if target is not None):
            refers["placement_hint", number, "resource_id"] = target
        return AdoptedObject(VIRTUAL_MACHINE, vm_id, attributes, refers)

    def _hint_targets(self) -> dict[str, Reference]:
        """What a placement hint may name, by name."""
        racks = {rack.name: ("nexus_rack", f"{self.name}/{rack.name}") for rack in self.site.racks}
        machines = {
            machine.name: ("nexus_bare_metal_machine", f"{self.name}/{machine.rack}/{machine.name}")
            for machine in self.site.machines
        }
        vms = {
            vm.name: ("nexus_virtual_machine", f"{self.name}/{vm.name}") for vm in self.site.virtual_machines
        }
        return {**vms, **machines, **racks}

    # --- room without an object ---

    def _occupy(self, name: str, placement: AzPlacement | None, shape: AzShape) -> None:
        if placement is None:
            self.counts["unplaced"] += 1
            return
        self.counts["occupied"] += 1
        self._hold(name, placement.machine, shape)

    def _hold_excess(self, node: AzNode, sku: VmSku, placement: AzPlacement) -> None:
        """What a node takes beyond its SKU."""
        excess = AzShape(
            max(node.shape.cpu_cores - sku.host_vcpus, 0),
            max(node.shape.memory_gib - ceil(sku.memory_gib), 0),
            max(node.shape.disk_gib - sku.disk_gib, 0),
            sku.numa_cells,
        )
        if excess.cpu_cores or excess.memory_gib or excess.disk_gib:
            self._hold(f"{node.name} beyond {sku.name}", placement.machine, excess)

    def _hold(self, name: str, machine: str, shape: AzShape) -> None:
        """Note room on a machine that no object of ours takes."""
        held = self.occupied.setdefault(machine, [])
        held.append(
            {
                "name": name,
                "cpu_cores": shape.cpu_cores,
                "memory_gib": shape.memory_gib,
                "disk_gib": shape.disk_gib,
                "numa_cells": max(shape.numa_cells, 1),
                "cells": None,
            }
        )

    def _say(self, kind: str, detail: str) -> None:
        self.findings.append(Problem((), kind, f"{self.name}: {detail}", Severity.WARNING))


def _zones(racks: Iterable[AzRack]) -> dict[str, str]:
    """The availability zone of each rack; for one without, its name as far as a zone may be long."""
    zones: dict[str, str] = {}
    for rack in racks:
        zone = _NOT_IN_ZONE.sub("", rack.availability_zone or "")
        zones[rack.name] = (zone or _NOT_IN_ZONE.sub("", rack.name) or "zone")[-_LONGEST_ZONE:]
    return zones


def _vm_sku(sku: VmSku) -> AdoptedObject:
    attributes = {
        "id": sku.name,
        "name": sku.name,
        "vcpus": sku.vcpus,
        "emulator_vcpus": sku.emulator_vcpus,
        "memory_gib": sku.memory_gib,
        "disk_gib": sku.disk_gib,
        "numa_cells": sku.numa_cells,
        "extra_large": sku.extra_large,
    }
    return AdoptedObject("nexus_vm_sku", sku.name, attributes)


def pool_arguments(pool: AzPool) -> dict[str, Any]:
    """The arguments of an agent pool's block."""
    settings = {
        "max_surge": pool.max_surge or UPGRADE_DEFAULTS["max_surge"],
        "max_unavailable": pool.max_unavailable or UPGRADE_DEFAULTS["max_unavailable"],
        "drain_timeout": pool.drain_timeout or UPGRADE_DEFAULTS["drain_timeout"],
    }
    count, size = pool.hugepages
    # What nexusform calls them, as a quantity of memory.
    pages = {f"hugepages-{size}i": f"{count * int(size[:-1])}{size[-1]}i"} if count else {}
    return {
        "count": pool.count,
        "vm_sku_name": pool.vm_sku_name,
        "availability_zones": list(pool.availability_zones) or None,
        "mode": pool.mode,
        "labels": dict(pool.labels) or None,
        "taint": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints],
        "upgrade_settings": None if settings == UPGRADE_DEFAULTS else settings,
        **({"kubelet": {"extended_resources": pages}} if pages else {}),
    }
