"""Objects to import from a site of an export.

Each object has the arguments of its type, the observed attributes and references to other objects.
Attributes computed by nexusform (a cluster's capacity) are absent. Placements have the provenance
"observed"; NUMA cells are null, since Azure does not report them. The note `observed` of a machine
has its power_state, ready_state, detailed_status, message, cordon_status, cordoned_by and since;
the note of a rack has one such entry per generated machine.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from math import ceil
from operator import attrgetter
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_list, group_by, select_word_form
from nexusform.domains.azure.importers.arm_resources import extract_name, extract_resource_group
from nexusform.domains.azure.importers.az_capture_commands import WORKLOAD_KINDS
from nexusform.domains.azure.importers.az_recorded_nodes import (
    NO_NODES,
    RecordedNodes,
    RecordedPoolNodes,
    assign_node_numbers,
)
from nexusform.domains.azure.importers.az_records import (
    AzCluster,
    AzInventory,
    AzMachine,
    AzNode,
    AzPool,
    AzRack,
    AzSite,
    AzVirtualMachine,
    AzVmLocation,
    AzVmSize,
)
from nexusform.domains.azure.importers.az_site_listing import UnmanagedAzVm, build_site_listing
from nexusform.domains.azure.importers.azure_request_bodies import UPGRADE_DEFAULTS, omit_members
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.interfaces.plugins import SiteCapture
from nexusform.json_data.plain_data import Path, get_mapping
from nexusform.plans.site_capacity.occupancy import build_unread_note
from nexusform.plans.site_capacity.site_resource_capacity import build_site_resources_note
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.resource_types.machine_facts import (
    CORDONED_STATUS,
    STATUS_FACTS,
    UNCORDONED,
    CordonOwner,
    find_observed_reasons,
)
from nexusform.scheduling.listing.site_listing import build_listing_note
from nexusform.scheduling.machine_actions import CORDONED_BY_ACTION
from nexusform.scheduling.racks.vms import CONTROL_PLANE, MachineSku, VmSku
from nexusform.scheduling.site_inventory import OBSERVED_KEY
from nexusform.scheduling.sku_catalogue import CATALOGUES, DEFAULT_MACHINE_SKU, NEWEST

OBSERVED: Final = "observed"
# In the note of a site.
SUBSCRIPTION_KEY: Final = "subscription_id"
CLUSTER: Final = "nexus_kubernetes_cluster"
VIRTUAL_MACHINE: Final = "nexus_virtual_machine"
_MAX_ZONE_LENGTH: Final = 10
_INVALID_ZONE_CHARACTERS: Final = re.compile(r"[^a-zA-Z0-9]")

# Pairs of type and id.
Reference = tuple[str, str]
POOL: Final = "nexus_agent_pool"
# Azure cordons compute machines with such a message.
_DEGRADED: Final = "degraded"
Values: TypeAlias = Mapping[str, Any]


class ImportedSiteObject(Struct, frozen=True):
    """One object to import: type, id, attributes as plain data, and references by argument path.

    A reference is a type and an id. `note` and `resource_group` are recorded with the
    object in state.
    """

    type: str
    id: str
    attributes: Mapping[str, Any]
    references: Mapping[Path, Reference] = field(default_factory=dict)
    note: Mapping[str, Any] | None = None
    resource_group: str = ""


class ImportedSite(Struct, frozen=True):
    """Objects of a site in planning order, Azure objects by creation time.

    Counts of VMs and nodes in the export: `imported` have a machine, `occupied` have no object and
    count as used capacity, `unplaced` have no machine.
    """

    name: str
    capture: SiteCapture
    objects: tuple[ImportedSiteObject, ...]
    imported: int
    occupied: int
    unplaced: int
    findings: tuple[Problem, ...] = ()


def build_imported_sites(
    sites: Iterable[AzSite], recorded_nodes: RecordedNodes = NO_NODES
) -> tuple[ImportedSite, ...]:
    """Build the objects of all sites.

    A VM SKU used by several sites belongs to the first, with its largest sizes.
    """
    site_list = list(sites)
    largest_skus: dict[str, VmSku] = {}
    for sku in chain.from_iterable(site.inventory.vm_skus for site in site_list):
        current = largest_skus.get(sku.name, sku)
        largest_skus[sku.name] = replace(
            sku,
            vcpus=max(sku.vcpus, current.vcpus),
            memory_gib=max(sku.memory_gib, current.memory_gib),
            disk_gib=max(sku.disk_gib, current.disk_gib),
        )
    assigned_skus: set[str] = set()
    imported_sites = []
    for site in site_list:
        # Each by one site only.
        declared_skus = {sku.name for sku in site.inventory.vm_skus} - assigned_skus
        assigned_skus |= declared_skus
        imported_sites.append(
            _SiteImport(site, recorded_nodes, largest_skus, declared_skus).build_site()
        )
    return tuple(imported_sites)


class _SiteImport:
    """Import of one site: builds the objects and counts."""

    def __init__(
        self,
        site: AzSite,
        recorded_nodes: RecordedNodes,
        custom_skus: Mapping[str, VmSku],
        declared_skus: AbstractSet[str],
    ) -> None:
        """Prepare the import.

        `custom_skus` are the VM SKUs absent in the catalogue, and `declared_skus` those
        of this site.
        """
        self.name = site.name
        self.azure_site = site
        self.site: AzInventory = site.inventory
        self.recorded_nodes = recorded_nodes
        self.findings: list[Problem] = []
        self.custom_skus = custom_skus
        self.declared_skus = declared_skus
        self.skus: dict[str, VmSku] = {**CATALOGUES[NEWEST].vm_skus, **custom_skus}
        # By rack; by default the end of its name.
        self.zones: dict[str, str] = {}
        for rack in self.site.racks:
            zone = _INVALID_ZONE_CHARACTERS.sub("", rack.availability_zone or "")
            self.zones[rack.name] = (zone or _INVALID_ZONE_CHARACTERS.sub("", rack.name) or "zone")[
                -_MAX_ZONE_LENGTH:
            ]
        # `occupied` blocks by machine.
        self.occupied: dict[str, list[dict[str, Any]]] = {}
        # Of VMs: adopted, occupied or unplaced.
        self.counts: Counter[str] = Counter()

    def build_site(self) -> ImportedSite:
        """Build all objects.

        Workloads are built first because they determine the occupied capacity of machines.
        """
        # With time of creation and name.
        clusters: list[tuple[tuple[str, str], ImportedSiteObject]] = []
        for cluster in self.site.clusters:
            imported_cluster = self._build_cluster(cluster)
            if imported_cluster is not None:
                clusters.append(((cluster.created_at, cluster.name), imported_cluster))
        workloads = [*clusters, *self._build_virtual_machines()]
        # By time of creation, then name.
        workloads.sort(key=lambda pair: pair[0])
        strategy = self.site.update_strategy
        site_attributes = {
            "id": self.name,
            "name": self.name,
            "scheduler": None,
            "update_strategy": strategy,
        }
        objects = [
            # The note is private data in state: addresses, storage, versions, subscription.
            ImportedSiteObject(
                "nexus_site", self.name, site_attributes, note=build_site_note(self.azure_site)
            ),
            *(
                ImportedSiteObject(
                    "nexus_vm_sku", name, _build_vm_sku_attributes(self.custom_skus[name])
                )
                for name in sorted(self.declared_skus)
            ),
            *(self._build_rack(rack) for rack in self.site.racks),
            *self._build_machines(),
            *(item for _, item in workloads),
        ]
        return ImportedSite(
            name=self.name,
            capture=SiteCapture(
                self.name, self.site.exported_at or "", not self.site.is_age_certain
            ),
            objects=tuple(objects),
            imported=self.counts["adopted"],
            occupied=self.counts["occupied"],
            unplaced=self.counts["unplaced"],
            findings=tuple(self.findings),
        )

    def _build_rack(self, rack: AzRack) -> ImportedSiteObject:
        """Build a rack without machines of its own: each machine is a separate object."""
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
        references: dict[Path, Reference] = {("site_id",): ("nexus_site", self.name)}
        group = extract_resource_group(rack.id)
        return ImportedSiteObject(
            "nexus_rack", rack_id, attributes, references, resource_group=group
        )

    def _build_machines(self) -> Iterator[ImportedSiteObject]:
        """Build the machines.

        A machine without a slot, or with a used one, gets the next free slot of its rack.
        """
        used_slots: set[tuple[str, int]] = set()
        # No slot: last.
        for machine in sorted(
            self.site.machines, key=lambda m: (m.rack, m.slot < 1, m.slot, m.name)
        ):
            slot = machine.slot
            while slot < 1 or (machine.rack, slot) in used_slots:
                slot += 1
            used_slots.add((machine.rack, slot))
            rack_id = f"{self.name}/{machine.rack}"
            machine_id = f"{rack_id}/{machine.name}"
            attributes = {
                "id": machine_id,
                "rack_id": rack_id,
                "name": machine.name,
                "slot": slot,
                # Either a machine SKU of the catalogue, or the size of an unknown one.
                "machine_sku": None
                if machine.hardware
                else machine.machine_sku or DEFAULT_MACHINE_SKU,
                "machine": machine.hardware and _build_machine_sku_argument(machine.hardware),
                # Roles and states, by attribute.
                **machine.facts,
                # An argument; cordon_status is observed.
                "cordoned": None,
                "occupied": self.occupied.get(machine.name, []),
            }
            references: dict[Path, Reference] = {("rack_id",): ("nexus_rack", rack_id)}
            # Without certain age, it is the time of the newest change.
            read_time = self.site.exported_at if self.site.is_age_certain else None
            note = build_observed_facts_note(
                attributes, {machine.name: machine}, recorded_note={}, time=read_time
            )
            group = extract_resource_group(machine.id)
            yield ImportedSiteObject(
                "nexus_bare_metal_machine", machine_id, attributes, references, note, group
            )

    def _build_cluster(self, cluster: AzCluster) -> ImportedSiteObject | None:
        """Build a cluster with pools and nodes.

        Return None for a cluster with an unknown VM SKU: its nodes count as occupied capacity.
        """
        nodes_by_pool = group_by(cluster.nodes, attrgetter("pool"))
        plane = nodes_by_pool.get(CONTROL_PLANE, [])
        plane_sku = cluster.control_plane_sku or next((node.vm_sku_name for node in plane), "")
        pools = self._build_pools(cluster)
        skus = [plane_sku, *(pool["vm_sku_name"] for pool in pools.values())]
        unknown_skus = [sku for sku in skus if sku not in self.skus]
        if unknown_skus:
            self._count_cluster_as_occupied(cluster, unknown_skus[0])
            return None
        # Further records of a node on other machines use capacity.
        for duplicate in cluster.duplicate_nodes:
            self._count_unmanaged_vm_as_occupied(
                duplicate.name, duplicate.placement, duplicate.shape
            )
        # A count of 0 is unknown: the listed nodes.
        plane_count = cluster.control_plane_count or max(len(plane), 1)
        nodes = self._build_nodes(cluster, CONTROL_PLANE, plane_count, plane_sku, plane)
        for name, pool in pools.items():
            nodes |= self._build_nodes(
                cluster, name, pool["count"], pool["vm_sku_name"], nodes_by_pool.get(name, [])
            )
        for name in nodes_by_pool.keys() - {CONTROL_PLANE, *pools}:
            for node in nodes_by_pool[name]:
                self._count_unmanaged_vm_as_occupied(node.name, node.placement, node.shape)
        cluster_id = f"{self.name}/{cluster.name}"
        attributes = {
            "id": cluster_id,
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
        references: dict[Path, Reference] = {("site_id",): ("nexus_site", self.name)}
        sku_names: dict[Path, str] = {("control_plane", "vm_sku_name"): plane_sku}  # by argument
        sku_names |= {
            ("agent_pool", name, "vm_sku_name"): pool["vm_sku_name"] for name, pool in pools.items()
        }
        # VM SKUs absent in the catalogue have blocks of their own.
        references |= {
            path: ("nexus_vm_sku", name)
            for path, name in sku_names.items()
            if name in self.custom_skus
        }
        group = extract_resource_group(cluster.id)
        return ImportedSiteObject(CLUSTER, cluster_id, attributes, references, resource_group=group)

    def _build_pools(self, cluster: AzCluster) -> dict[str, dict[str, Any]]:
        """Build the arguments of a cluster's pools by name.

        A pool that was not captured keeps the arguments recorded in state; they win over values
        derived from its nodes. Without a record it is left out of a cluster in state: a plan would
        remove it, although its arguments are unknown.
        """
        cluster_id = f"{self.name}/{cluster.name}"
        recorded_names = {name for owner, name in self.recorded_nodes if owner == cluster_id}
        pools = {
            pool.name: build_pool_arguments(pool)
            for pool in cluster.pools
            if pool.id or not recorded_names or pool.name in recorded_names
        }
        # Only the body of a pool has its id; others are known from nodes or the cluster's body.
        uncaptured = {pool.name for pool in cluster.pools if not pool.id}
        for (owner, name), recorded_pool in self.recorded_nodes.items():
            if owner != cluster_id:
                # The node is of another cluster.
                continue
            if recorded_pool.arguments is None:
                # Nothing is recorded.
                continue
            # Without a list of pools, a recorded pool without nodes may exist as well.
            if name in uncaptured or not cluster.has_pool_list:
                observed_arguments = pools.get(name, {})
                pools[name] = {"count": 0, **observed_arguments, **recorded_pool.arguments}
        return pools

    def _count_cluster_as_occupied(self, cluster: AzCluster, unknown_sku: str) -> None:
        """Report a cluster with an unknown VM SKU and count its nodes as occupied capacity.

        `unknown_sku` is "" if the cluster names no SKU.
        """
        reason = f"the size is unknown for {unknown_sku}" if unknown_sku else "it names no VM SKU"
        consequence = "Its nodes count as occupied."
        if not cluster.has_node_list:
            consequence = "Its nodes are unknown, and their capacity counts as free."
        detail = f'the cluster "{cluster.name}" is not imported: {reason}. {consequence}'
        self._warn("not-imported", detail)
        for node in (*cluster.nodes, *cluster.duplicate_nodes):
            self._count_unmanaged_vm_as_occupied(node.name, node.placement, node.shape)

    def _build_nodes(
        self,
        cluster: AzCluster,
        pool: str,
        count: int,
        sku_name: str,
        existing_nodes: Sequence[AzNode],
    ) -> dict[str, dict[str, Any]]:
        """Build the node records of a pool by nexusform name.

        Nodes beyond the count (an upgrade in progress) count as occupied capacity. Missing nodes
        get a record without a machine.
        """
        recorded_pool = self.recorded_nodes.get(
            (f"{self.name}/{cluster.name}", pool), RecordedPoolNodes()
        )
        by_number = assign_node_numbers(existing_nodes, count, recorded_pool)
        numbered_names = {node.name for node in by_number.values()}
        for node in existing_nodes:
            if node.name not in numbered_names:
                self._count_unmanaged_vm_as_occupied(node.name, node.placement, node.shape)
        records: dict[str, dict[str, Any]] = {}
        for number in range(count):
            records[f"{cluster.name}-{pool}-{number}"] = self._build_node(
                pool, number, sku_name, by_number.get(number)
            )
        return records

    def _build_node(
        self, pool: str, number: int, sku_name: str, node: AzNode | None
    ) -> dict[str, Any]:
        """Build the record of a node, and count it.

        `node` is the VM in Azure, None for a missing one.
        """
        record: dict[str, Any] = {
            "role": "ControlPlane" if pool == CONTROL_PLANE else "Worker",
            "pool": pool,
            "number": number,
            "vm_sku_name": sku_name,
            **self._build_location_attributes(placement=None),
            "numa_cells": None,
            "platform_name": None,
            "provenance": OBSERVED,
        }
        if node is None:
            return record
        # The pool's, if its own is unknown.
        sku = self.skus.get(node.vm_sku_name, self.skus[sku_name])
        self.counts["unplaced" if node.placement is None else "adopted"] += 1
        if node.placement is not None:
            self._add_capacity_beyond_sku(node, node.placement.machine, sku)
        location = self._build_location_attributes(node.placement)
        return {**record, "vm_sku_name": sku.name, **location, "platform_name": node.name}

    def _add_capacity_beyond_sku(self, node: AzNode, machine: str, sku: VmSku) -> None:
        """Record the capacity of a node beyond its VM SKU as occupied.

        In whole GiB, with the cell count of the SKU.
        """
        excess = AzVmSize(
            cpu_cores=max(node.shape.cpu_cores - sku.host_vcpus, 0),
            memory_gib=max(node.shape.memory_gib - ceil(sku.memory_gib), 0),
            disk_gib=max(node.shape.disk_gib - sku.disk_gib, 0),
            numa_cells=sku.numa_cells,
        )
        if excess.cpu_cores or excess.memory_gib or excess.disk_gib:
            self._add_occupied_machine_capacity(f"{node.name} beyond {sku.name}", machine, excess)

    def _build_location_attributes(self, placement: AzVmLocation | None) -> dict[str, Any]:
        """Build machine, rack and zone of a VM; None without a placement."""
        if placement is None:
            return {"machine": None, "rack": None, "availability_zone": None}
        # Of an unlisted rack: the recorded zone.
        zone = self.zones.get(placement.rack, placement.availability_zone)
        return {"machine": placement.machine, "rack": placement.rack, "availability_zone": zone}

    def _build_virtual_machines(self) -> Iterator[tuple[tuple[str, str], ImportedSiteObject]]:
        """Build the VMs outside clusters, each with its sort key: time of creation, then name."""
        # Collect possible targets of placement hints by name; racks come before machines.
        racks = {rack.name: ("nexus_rack", f"{self.name}/{rack.name}") for rack in self.site.racks}
        machines = {
            machine.name: ("nexus_bare_metal_machine", f"{self.name}/{machine.rack}/{machine.name}")
            for machine in self.site.machines
        }
        vms = {
            vm.name: ("nexus_virtual_machine", f"{self.name}/{vm.name}")
            for vm in self.site.virtual_machines
        }
        hint_targets = {**vms, **machines, **racks}
        for vm in self.site.virtual_machines:
            yield (vm.created_at, vm.name), self._build_virtual_machine(vm, hint_targets)

    def _build_virtual_machine(
        self, vm: AzVirtualMachine, hint_targets: Mapping[str, Reference]
    ) -> ImportedSiteObject:
        """Build a VM, and count it.

        Its placement hints refer to `hint_targets`, objects of the site by name.
        """
        vm_id = f"{self.name}/{vm.name}"
        self.counts["unplaced" if vm.placement is None else "adopted"] += 1
        references: dict[Path, Reference] = {("site_id",): ("nexus_site", self.name)}
        hints: list[dict[str, Any]] = []
        missing_targets: list[str] = []
        for hint in vm.hints:
            target = hint_targets.get(extract_name(hint.resource_id))
            if target is None:
                missing_targets.append(extract_name(hint.resource_id))
                continue
            references["placement_hint", len(hints), "resource_id"] = target
            _, target_id = target
            values = {"scheduling_execution": hint.scheduling_execution, "scope": hint.scope}
            hints.append({"hint_type": hint.hint_type, "resource_id": target_id, **values})
        if missing_targets:
            names = format_list([f'"{name}"' for name in dict.fromkeys(missing_targets)])
            count = len(missing_targets)
            noun = "a placement hint" if count == 1 else f"{count:,} placement hints"
            detail = (
                f'the VM "{vm.name}" has {noun} on {names}, not on this site of the export: '
                f"{select_word_form(count, 'it is', 'they are')} ignored."
            )
            self._warn("hint-not-imported", detail)
        attributes = {
            "id": vm_id,
            "site_id": self.name,
            "name": vm.name,
            # At least the minimum of the argument.
            "cpu_cores": max(vm.shape.cpu_cores, 2),
            "memory_gib": max(vm.shape.memory_gib, 1),
            "disk_gib": vm.shape.disk_gib,
            "numa_cells": max(vm.shape.numa_cells, 1),
            "placement_hint": hints,
            **self._build_location_attributes(vm.placement),
            "cells": None,
            "provenance": OBSERVED,
        }
        group = extract_resource_group(vm.id)
        return ImportedSiteObject(
            VIRTUAL_MACHINE, vm_id, attributes, references, resource_group=group
        )

    def _count_unmanaged_vm_as_occupied(
        self, name: str, placement: AzVmLocation | None, shape: AzVmSize
    ) -> None:
        """Count a VM not imported as an object.

        It counts as occupied capacity of its machine, or as unplaced without one.
        """
        if placement is None:
            self.counts["unplaced"] += 1
            return
        self.counts["occupied"] += 1
        self._add_occupied_machine_capacity(name, placement.machine, shape)

    def _add_occupied_machine_capacity(self, name: str, machine: str, shape: AzVmSize) -> None:
        """Record occupied capacity on a machine, in unknown NUMA cells."""
        entry = {
            "name": name,
            **asdict(shape),
            "numa_cells": max(shape.numa_cells, 1),
            "cells": None,
        }
        self.occupied.setdefault(machine, []).append(entry)

    def _warn(self, kind: str, detail: str) -> None:
        self.findings.append(Problem((), kind, f"{self.name}: {detail}", Severity.WARNING))


def _build_machine_sku_argument(machine_sku: MachineSku) -> dict[str, Any]:
    """Build the JSON object of a machine SKU."""
    return {
        "numa_cells": machine_sku.cells,
        "cpus_per_cell": machine_sku.cpus_per_cell,
        "memory_gib_per_cell": machine_sku.memory_gib_per_cell,
        "ephemeral_disk_gib": machine_sku.disk_gib,
    }


def _build_vm_sku_attributes(sku: VmSku) -> dict[str, Any]:
    """Build the JSON object of a VM SKU."""
    return {
        "id": sku.name,
        "name": sku.name,
        "vcpus": sku.vcpus,
        "emulator_vcpus": sku.emulator_vcpus,
        "memory_gib": sku.memory_gib,
        "disk_gib": sku.disk_gib,
        "numa_cells": sku.numa_cells,
        "extra_large": sku.extra_large,
    }


def build_pool_arguments(pool: AzPool) -> dict[str, Any]:
    """Build the arguments of an agent pool's block."""
    settings = {name: getattr(pool, name) or default for name, default in UPGRADE_DEFAULTS.items()}
    count, size = pool.hugepages
    # Kubernetes counts memory: 4 pages of "2M" are 8Mi of hugepages-2Mi.
    kubelet: dict[str, Any] = {}
    if count:
        pages = {f"hugepages-{size}i": f"{count * int(size[:-1])}{size[-1]}i"}
        kubelet = {"kubelet": {"extended_resources": pages}}
    return {
        "count": pool.count,
        "vm_sku_name": pool.vm_sku_name,
        "availability_zones": list(pool.availability_zones) or None,
        "mode": pool.mode,
        "labels": dict(pool.labels) or None,
        "taint": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints],
        "upgrade_settings": None if settings == UPGRADE_DEFAULTS else settings,
        **kubelet,
    }


def extract_pools(
    objects: Iterable[ImportedSiteObject], pool_ids: AbstractSet[str]
) -> Iterator[ImportedSiteObject]:
    """Yield the objects, with some pools as separate objects after their cluster.

    These are the pools in `pool_ids` (`<cluster id>/<pool>`).
    """
    for item in objects:
        # Only a cluster has some.
        pools = get_mapping(item.attributes, "agent_pool")
        separate_pools = [name for name in pools if f"{item.id}/{name}" in pool_ids]
        yield remove_pools(item, separate_pools) if separate_pools else item
        for name in separate_pools:
            pool = build_pool_object(item.id, name, pools[name])
            nodes = {
                key: node for key, node in item.attributes["nodes"].items() if node["pool"] == name
            }
            references = dict(pool.references)
            # The VM SKU of a pool is a reference if the catalogue lacks it. Its argument has
            # another path now.
            sku = item.references.get(("agent_pool", name, "vm_sku_name"))
            if sku is not None:
                references["vm_sku_name",] = sku
            attributes = {**pool.attributes, "nodes": nodes}
            yield replace(
                pool,
                attributes=attributes,
                references=references,
                resource_group=item.resource_group,
            )


def build_pool_object(
    cluster_id: str, name: str, pool_arguments: Mapping[str, Any]
) -> ImportedSiteObject:
    """Build an agent pool as a separate object, without nodes, from the arguments of its block."""
    arguments = dict(pool_arguments)
    pool_id = f"{cluster_id}/{name}"
    attributes = {
        "id": pool_id,
        "kubernetes_cluster_id": cluster_id,
        "name": name,
        "node_count": arguments.pop("count"),
        **arguments,
    }
    return ImportedSiteObject(
        POOL, pool_id, attributes, {("kubernetes_cluster_id",): (CLUSTER, cluster_id)}
    )


def remove_pools(cluster: ImportedSiteObject, names: Collection[str]) -> ImportedSiteObject:
    """Return a cluster without the pools in `names` and their nodes."""
    attributes = cluster.attributes
    nodes = {key: node for key, node in attributes["nodes"].items() if node["pool"] not in names}
    kept = {
        "agent_pool": omit_members(attributes["agent_pool"], names),
        "agent_pool_order": [name for name in attributes["agent_pool_order"] if name not in names],
        "nodes": nodes,
        "node_count": len(nodes),
    }
    references: dict[Path, Reference] = {}
    for path, target in cluster.references.items():
        # A reference of a pool has the path ("agent_pool", NAME, "vm_sku_name").
        is_of_removed_pool = path[0] == "agent_pool" and path[1] in names
        if not is_of_removed_pool:
            references[path] = target
    return replace(cluster, attributes={**attributes, **kept}, references=references)


def find_unmanaged_vms(site: AzSite, managed: AbstractSet[Reference]) -> Iterator[UnmanagedAzVm]:
    """Find the VMs on machines without an object in state.

    `managed` has the type and id of each object in state. A managed cluster includes all its nodes;
    a pool managed as an object of its own includes the nodes of the pool.
    """
    for vm, owner in _list_unmanaged_vms(site, managed):
        if vm.placement is not None:
            yield UnmanagedAzVm(vm.name, vm.placement.machine, vm.shape, owner)


def find_unscheduled_vms(site: AzSite, managed: AbstractSet[Reference]) -> list[str]:
    """Return the names of the VMs without an object in state and without a machine."""
    return [
        vm.name
        for vm, _ in _list_unmanaged_vms(site, managed)
        if vm.placement is None and not vm.unlisted_machine
    ]


def _list_unmanaged_vms(
    site: AzSite, managed: AbstractSet[Reference]
) -> Iterator[tuple[AzNode | AzVirtualMachine, str]]:
    """Yield the VMs without an object in state, with the name of their cluster, "" for none."""
    for cluster in site.inventory.clusters:
        cluster_id = f"{site.name}/{cluster.name}"
        if (CLUSTER, cluster_id) in managed:
            # All its nodes are managed.
            continue
        for node in (*cluster.nodes, *cluster.duplicate_nodes):
            if (POOL, f"{cluster_id}/{node.pool}") not in managed:
                yield node, cluster.name
    for vm in site.inventory.virtual_machines:
        if (VIRTUAL_MACHINE, f"{site.name}/{vm.name}") not in managed:
            yield vm, ""


def build_machine_observation(
    machine: AzMachine, before: Values, time: str | None, *, is_requested: bool
) -> Values:
    """Build the record of a machine for state.

    `before` is its last record ({} for none). With `is_requested`, the applied arguments cordon it.
    `time` is the time of the read, None if unknown. In the result, `since` is the time of the first
    read with this status, None for a machine in service.
    """
    record: dict[str, Any] = {name: machine.facts[name] for name in STATUS_FACTS}
    record["message"] = machine.status_message
    record["cordoned_by"] = _find_cordon_owner(record, before, is_requested=is_requested)
    is_own_cordon = record["cordoned_by"] == CordonOwner.NEXUSFORM
    if is_own_cordon and before.get(CORDONED_BY_ACTION) and not is_requested:
        # An earlier machine action still cordons it.
        record[CORDONED_BY_ACTION] = True
    is_unchanged = all(before.get(name) == record[name] for name in (*STATUS_FACTS, "message"))
    # Of the first read with this status.
    first_time = before.get("since") if is_unchanged else None
    # No observed fact excludes new VMs.
    is_in_service = not find_observed_reasons(record)
    record["since"] = None if is_in_service else first_time or time
    return record


def _find_cordon_owner(record: Values, before: Values, *, is_requested: bool) -> str | None:
    """Find the owner of a cordon; None without a cordon.

    The recorded owner stays, also while the cordon is unknown. Otherwise the owner is nexusform if
    requested, Azure if its message reports a degraded machine, and else unknown (OTHER).
    """
    if before.get("cordoned_by") and UNCORDONED not in (
        before.get("cordon_status"),
        record["cordon_status"],
    ):
        # The same cordon as before.
        return str(before["cordoned_by"])
    if record["cordon_status"] != CORDONED_STATUS:
        return None
    if is_requested:
        return CordonOwner.NEXUSFORM
    message = (record["message"] or "").lower()
    return CordonOwner.AZURE if _DEGRADED in message else CordonOwner.OTHER


def build_site_note(site: AzSite, managed: AbstractSet[Reference] | None = None) -> Values:
    """Build the note of a site, private data in the state.

    The note has its networks and versions, its racks and machines as listed, its subscription if
    known, and the facts that are not read. `managed` is as in `find_unmanaged_vms`; an import
    manages everything (None).
    """
    inventory = site.inventory
    unmanaged = () if managed is None else find_unmanaged_vms(site, managed)
    subscription = omit_empty({SUBSCRIPTION_KEY: inventory.subscription_id})
    listing = build_site_listing(site, unmanaged, managed or frozenset())
    return {
        **build_site_resources_note(inventory.supplies),
        **build_listing_note(listing),
        **subscription,
        **build_unread_note((*inventory.unread, *_find_missing_lists(site))),
    }


def _find_missing_lists(site: AzSite) -> Iterator[Doubt]:
    """Yield the facts about workloads without a complete list on a site with machines.

    A state has no warnings, so later answers from it depend on them.
    """
    inventory = site.inventory
    if not inventory.machines:
        return
    missing = {
        plural: "there is no complete list"
        for kind, (plural, _) in WORKLOAD_KINDS.items()
        if kind not in inventory.listed_kinds
    }
    if not all(cluster.has_node_list for cluster in inventory.clusters):
        missing["nodes"] = "those of a cluster are not listed"
    for noun, reason in missing.items():
        # As VMs of unknown size, they take capacity, and the platform places others after them.
        for influence in (Influence.ORDER, Influence.CAPACITY):
            yield Doubt("site", site.name, noun, "", 0, influence, reason=reason)


def describe_other_subscription(site: AzSite, recorded_note: Values) -> str:
    """Describe the difference between the recorded and the observed subscription of a site.

    Return "" if they are equal, or one of them is unknown.
    """
    recorded = recorded_note.get(SUBSCRIPTION_KEY)
    observed = site.inventory.subscription_id
    if not recorded or observed in ("", recorded):
        return ""
    return (
        f'the site "{site.name}" is in subscription {observed} there, and in {recorded} in the '
        "state. Read the "
        "subscription of the state, or use another state."
    )


def build_observed_facts_note(
    attributes: Values, machines: Mapping[str, AzMachine], recorded_note: Values, time: str | None
) -> Values:
    """Build the note (private data in state) with the observed facts of a machine or rack.

    `machines` are the observed ones of the site, by name, read at `time`. A machine not
    observed has the note {}. For a rack without observed machines, the facts are None, to
    remove those in `recorded_note`.
    """
    # The facts of a machine, or those of a rack by machine.
    recorded = get_mapping(recorded_note, OBSERVED_KEY)
    if "rack_id" in attributes:  # a machine
        machine = machines.get(str(attributes["name"]))
        if machine is None:
            return {}
        is_requested = True in (attributes.get("cordoned"), attributes.get("evacuate"))
        return {
            OBSERVED_KEY: build_machine_observation(
                machine, recorded, time, is_requested=is_requested
            )
        }
    overrides = get_mapping(attributes, "machine_override")
    facts_by_machine = {}
    for name in get_mapping(attributes, "machines"):
        if name in machines:
            override = get_mapping(overrides, name)
            is_requested = True in (override.get("cordoned"), override.get("evacuate"))
            facts_by_machine[name] = build_machine_observation(
                machines[name], get_mapping(recorded, name), time, is_requested=is_requested
            )
    return {OBSERVED_KEY: facts_by_machine or None}
