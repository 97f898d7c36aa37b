"""Snapshot for queries: sites, machines and VMs from objects' attributes.

The attributes may be those of the state or those after a plan; a query does not see the difference.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.interfaces.plugins import PluginRegistries, ResourceType
from nexusform.placements.vm_demands import ClaimDemand, PlacedVm, PoolDemand, VmDemand
from nexusform.planning.phases import collect_claims
from nexusform.planning.vm_planning.site_plans import (
    SiteLayout,
    SiteObject,
    SitePlan,
    build_object_inventory,
    build_site_layout,
    build_vm_name,
    find_sku,
    list_machines,
    place_unmanaged_vms,
)
from nexusform.plans.plan import Plan
from nexusform.plans.site_capacity.occupancy import VmOwnerKind, get_owner_kind
from nexusform.plans.site_capacity.site_resource_capacity import (
    RuntimeVersion,
    SiteResourceCapacity,
    SiteResources,
    compute_site_resource_capacity,
    count_nodes,
    read_recorded_site_resources,
)
from nexusform.resources.address import Address, compute_address_order
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import Machine, VmSku
from nexusform.scheduling.site_inventory import InventoryRack, MachineUpgradeStrategy
from nexusform.state.objects import InstanceState, ObjectState, State

CLUSTER_TYPE: Final = "nexus_kubernetes_cluster"


class PoolSnapshot(Struct, frozen=True):
    """Existing VMs of one pool.

    `owner` and `demand` are the demand of its resource. `handles` are those of the site's
    scheduler, by name. `on_missing_machines` are the names of VMs on missing machines, `unplaced`
    of those without a machine.
    """

    address: Address
    owner: VmDemand
    demand: PoolDemand
    vms: tuple[PlacedVm, ...]
    handles: Mapping[str, int]
    on_missing_machines: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the pool."""
        return self.demand.pool

    @property
    def sku(self) -> VmSku:
        """SKU of its VMs."""
        return self.demand.sku

    @property
    def is_control_plane(self) -> bool:
        """Whether it is a control plane rather than workers."""
        return self.demand.is_control_plane

    @property
    def drain_timeout(self) -> int:
        """Maximum drain time of a node, in seconds."""
        return self.demand.drain_timeout


class VmOwnerSnapshot(Struct, frozen=True):
    """NKS cluster with its separate pools, a VNF, or a plain VM, in order of creation."""

    id: str
    name: str
    site_id: str
    kind: VmOwnerKind
    pools: tuple[PoolSnapshot, ...]

    @property
    def vm_count(self) -> int:
        """Number of existing VMs."""
        return sum(len(pool.vms) for pool in self.pools)


class SiteSnapshot(Struct, frozen=True, dict=True):
    """One site.

    The scheduler is never changed: queries use copies. `racks` by name, including planned ones;
    `unmanaged_vms` are (machine, name) of unmanaged VMs; `skus` all VM SKUs; `offering_addresses`
    maps a machine to the resource that offers it. `other_capacity` is the capacity besides
    machines, () if no provider read it; `versions` are the Kubernetes versions available to
    clusters there, `runtime` the version of its machines, None if unknown. `supported_until` has
    the last day of support of versions with a known date. `upgrades` has the versions offered to a
    cluster, by name.
    """

    id: str
    name: str
    machines: Mapping[str, Machine]
    racks: tuple[InventoryRack, ...]
    clusters: tuple[VmOwnerSnapshot, ...]
    unmanaged_vms: tuple[tuple[str, str], ...]
    scheduler: RackScheduler
    skus: Mapping[str, VmSku]
    offering_addresses: Mapping[str, str] = field(default_factory=dict)
    update_strategy: MachineUpgradeStrategy | None = None
    other_capacity: tuple[SiteResourceCapacity, ...] = ()
    versions: tuple[str, ...] | None = None
    runtime: RuntimeVersion | None = None
    supported_until: Mapping[str, str] = field(default_factory=dict)
    available_until: Mapping[str, str] = field(default_factory=dict)
    upgrades: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def vms_without_machine(self) -> tuple[str, ...]:
        """VMs without a known machine: they use no capacity."""
        return tuple(
            chain.from_iterable((*pool.on_missing_machines, *pool.unplaced) for pool in self.pools)
        )

    @cached_property
    def pools(self) -> tuple[PoolSnapshot, ...]:
        """Pools of all clusters, in order of creation."""
        return tuple(chain.from_iterable(cluster.pools for cluster in self.clusters))

    @cached_property
    def active_racks(self) -> tuple[str, ...]:
        """Names of the racks with machines, in byte order."""
        return tuple(sorted({machine.rack for machine in self.machines.values()}, key=str.encode))

    @cached_property
    def machines_by_rack(self) -> Mapping[str, tuple[Machine, ...]]:
        """Machines of every active rack, in order of slot."""
        by_rack: dict[str, list[Machine]] = {rack: [] for rack in self.active_racks}
        for machine in self.machines.values():
            by_rack[machine.rack].append(machine)
        return {rack: tuple(machines) for rack, machines in by_rack.items()}

    @cached_property
    def machines_down(self) -> frozenset[str]:
        """Names of the machines observed off or not ready: their VMs are down."""
        return frozenset(machine.name for machine in self.machines.values() if machine.is_down)

    def list_unmanaged_vms(self, machines: Collection[str]) -> tuple[str, ...]:
        """Return the names of the VMs on these machines that nexusform does not manage."""
        return tuple(name for machine, name in self.unmanaged_vms if machine in machines)

    @cached_property
    def zones(self) -> tuple[str, ...]:
        """Availability zones of the active racks, in byte order."""
        return tuple(
            sorted(
                {machine.availability_zone for machine in self.machines.values()}, key=str.encode
            )
        )


class Snapshot(Struct, frozen=True):
    """All sites by id, in byte order."""

    sites: Mapping[str, SiteSnapshot] = field(default_factory=dict)


def build_snapshot(
    objects: Iterable[SiteObject],
    registries: PluginRegistries,
    catalogue: str = "",
    recorded_machines: frozenset[tuple[str, str]] | None = None,
) -> Snapshot:
    """Build the snapshot of the objects of a state or plan.

    `catalogue` is the SKU catalogue's version ("": newest). `recorded_machines` are those before a
    plan (site id, name; None for a state: all).
    """
    ordered_objects = sorted(
        objects, key=lambda item: (item.creation, compute_address_order(item.address))
    )
    layout = build_site_layout(
        ordered_objects, registries, catalogue, recorded_machines=recorded_machines
    )
    clusters = _ClusterCollector(layout)
    # Clusters before pools.
    for resource_type, site_object in sorted(layout.objects, key=lambda pair: pair[0].phase):
        clusters.add_object(resource_type, site_object)
    sites = sorted(layout.sites.values(), key=lambda site: site.id.encode())
    # The storage claims of pods, by cluster id; empty if no provider read the supplies of a site.
    claims: Mapping[str, ClaimDemand] = {}
    if any(read_recorded_site_resources(site_object.note) for site_object in ordered_objects):
        instances: dict[Address, InstanceState] = {}
        for site_object in ordered_objects:
            current = ObjectState(
                site_object.attributes, site_object.creation, private=site_object.note
            )
            instances[site_object.address] = InstanceState(current)
        claims = collect_claims(instances, registries)
    return Snapshot({site.id: _build_site(site, clusters, layout, claims) for site in sites})


class _ClusterCollector(Struct):
    """Collector of clusters: VMs are placed on their machines and grouped by cluster."""

    layout: SiteLayout
    by_site: dict[str, dict[str, VmOwnerSnapshot]] = field(default_factory=dict)

    def add_object(self, resource_type: ResourceType, site_object: SiteObject) -> None:
        """Add the VMs of an object.

        Its pools are added to their cluster if it is known, else to a new VM owner.
        """
        if resource_type.vms is None:
            return
        owner, _ = resource_type.vms.build_demand(
            site_object.attributes, self.layout.context, site_object.address
        )
        if owner is None or owner.site_id not in self.layout.sites:
            # No demand, or an unknown site.
            return
        site = self.layout.sites[owner.site_id]
        vms = {
            (vm.pool, vm.number): vm
            for vm in resource_type.vms.list_existing_vms(site_object.attributes)
        }
        skus = self.layout.context.get_skus(site.id)
        pools = tuple(
            _build_pool(site_object.address, owner, pool, site, vms, skus) for pool in owner.pools
        )
        cluster_id = owner.parent_id or resource_type.build_id(site_object.attributes)
        clusters = self.by_site.setdefault(site.id, {})
        cluster = clusters.get(cluster_id)
        if cluster is not None:
            clusters[cluster_id] = replace(cluster, pools=(*cluster.pools, *pools))
            return
        owner_kind = get_owner_kind(resource_type.name)
        name = owner.cluster
        # A VM without a cluster.
        if owner_kind is VmOwnerKind.VM:
            name = str(site_object.attributes.get("name"))
        clusters[cluster_id] = VmOwnerSnapshot(cluster_id, name, site.id, owner_kind, pools)


def _build_pool(
    address: Address,
    owner: VmDemand,
    pool: PoolDemand,
    site: SitePlan,
    existing_vms: Mapping[tuple[str, int | str], PlacedVm],
    skus: Mapping[str, VmSku],
) -> PoolSnapshot:
    """Build the VMs of a pool on their machines.

    `existing_vms` are those of its object, by pool and number.
    """
    vms: list[PlacedVm] = []
    # By name of the VM.
    handles: dict[str, int] = {}
    on_missing_machines: list[str] = []
    unplaced: list[str] = []
    for number, planned_name in zip(pool.numbers, pool.names, strict=True):
        vm = existing_vms.get((pool.pool, number))
        # Requested, but without a machine yet.
        if vm is None:
            unplaced.append(planned_name)
            continue
        name = build_vm_name(owner, pool, vm.pool, vm.number)
        handle_and_placement = site.place_existing_vm(name, find_sku(vm, pool, skus), vm.placement)
        # The site has no such machine.
        if handle_and_placement is None:
            on_missing_machines.append(vm.name)
            continue
        # With the current rack and zone of the machine.
        handles[vm.name], placement = handle_and_placement
        vms.append(vm if placement is vm.placement else replace(vm, placement=placement))
    return PoolSnapshot(
        address=address,
        owner=owner,
        demand=pool,
        vms=tuple(vms),
        handles=handles,
        on_missing_machines=tuple(on_missing_machines),
        unplaced=tuple(unplaced),
    )


def _build_site(
    site: SitePlan,
    clusters: _ClusterCollector,
    layout: SiteLayout,
    claims: Mapping[str, ClaimDemand],
) -> SiteSnapshot:
    """Build a site with its clusters, and with unmanaged VMs.

    These are VMs on its machines outside the clusters.
    """
    site_clusters = tuple(clusters.by_site.get(site.id, {}).values())
    pools = chain.from_iterable(cluster.pools for cluster in site_clusters)
    vms = chain.from_iterable(pool.vms for pool in pools)
    managed = set(chain.from_iterable(vm.identities for vm in vms))
    unmanaged_vms = place_unmanaged_vms(site, managed)
    other_capacity: tuple[SiteResourceCapacity, ...] = ()
    recorded_supplies = _find_supplies(site, layout)
    # Empty if no provider read them.
    supplies = recorded_supplies or SiteResources()
    if recorded_supplies is not None:
        nks_clusters = [cluster for cluster in site_clusters if cluster.kind is VmOwnerKind.NKS]
        nks_pools = chain.from_iterable(cluster.pools for cluster in nks_clusters)
        nodes = count_nodes(
            ((pool.owner, pool.demand) for pool in nks_pools), claims_by_cluster=claims
        )
        other_capacity = compute_site_resource_capacity(
            site.id, site.name, supplies, before=nodes, after=nodes
        )
    return SiteSnapshot(
        id=site.id,
        name=site.name,
        machines=site.machines,
        racks=site.racks,
        clusters=site_clusters,
        unmanaged_vms=tuple(
            (unmanaged_vm.placement.machine, unmanaged_vm.name) for unmanaged_vm in unmanaged_vms
        ),
        scheduler=site.scheduler,
        skus=layout.context.get_skus(site.id),
        offering_addresses=site.offering_addresses,
        update_strategy=site.update_strategy,
        other_capacity=other_capacity,
        versions=supplies.versions,
        runtime=supplies.runtime,
        supported_until=dict(supplies.supported_until),
        available_until=dict(supplies.available_until),
        upgrades=dict(supplies.upgrades),
    )


def _find_supplies(site: SitePlan, layout: SiteLayout) -> SiteResources | None:
    """Return the supplies of a site (networks, storage, Kubernetes versions).

    Return None if no provider read them.
    """
    for _, site_object in layout.objects:
        supplies = read_recorded_site_resources(site_object.note)
        # The id of a site is its name.
        if supplies and site_object.attributes.get("name") == site.id:
            return supplies
    return None


def supports_machine_hardware(sku: VmSku, machine: Machine) -> bool:
    """Return whether the SKU lists the machine's hardware; true if either is unspecified."""
    return not sku.machine_skus or machine.machine_sku in (None, *sku.machine_skus)


def is_large_enough(machine: Machine, sku: VmSku) -> bool:
    """Return whether the empty machine has the cells, vCPUs, memory and disk of the SKU."""
    return (
        machine.cells >= sku.numa_cells
        and machine.cpus_per_cell >= sku.cpus_in_cell
        and machine.memory_gib_per_cell >= sku.memory_in_cell
        and machine.disk_gib >= sku.disk_gib
    )


def list_state_objects(state: State) -> tuple[SiteObject, ...]:
    """Return the objects of a state."""
    return tuple(
        SiteObject(address, current.attributes, current.creation, current.private)
        for address, current in state.list_current_objects()
    )


def list_recorded_machines(
    state: State, registries: PluginRegistries
) -> frozenset[tuple[str, str]]:
    """Return the machines of the active racks of a state, as site id and name."""
    inventory = build_object_inventory(state.list_current_objects(), registries.resource_types)
    return list_machines(inventory, includes_planned=False)


def list_refreshed_objects(
    state: State, refreshed_objects: Mapping[Address, ObjectState | None]
) -> dict[Address, SiteObject]:
    """Return the objects of a state as read by providers (None: missing), by address."""
    objects = {site_object.address: site_object for site_object in list_state_objects(state)}
    for address, refreshed in refreshed_objects.items():
        # It is gone, or replaced by its refreshed form.
        objects.pop(address, None)
        if refreshed is not None:
            objects[address] = SiteObject(
                address, refreshed.attributes, refreshed.creation, refreshed.private
            )
    return objects


def list_planned_objects(plan: Plan, prior: State) -> tuple[SiteObject, ...]:
    """Return the objects after a plan has been applied to its prior state."""
    objects = list_refreshed_objects(prior, plan.observed.refreshed_objects)
    # The change of the new address has the object.
    for old, _new in plan.address_moves:
        objects.pop(old, None)
    for change in plan.changes:
        # An old object still to be destroyed: the current one has its own change.
        if change.deposed:
            continue
        objects.pop(change.address, None)
        if change.after is not None:
            objects[change.address] = SiteObject(
                change.address, change.after, change.creation, change.private
            )
    return tuple(objects.values())
