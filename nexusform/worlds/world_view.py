"""The world that questions are asked of: sites, machines and VMs as objects' attributes tell them.

The attributes may be those of the state or those that a plan will leave; a question never sees which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address, address_order
from nexusform.demands import ClaimDemand, PlacedVm, PoolDemand, VmDemand
from nexusform.planning.phases import claimed_in
from nexusform.planning.vms.sites import (
    Ground,
    SitePlan,
    Thing,
    lay_ground,
    occupy_outsiders,
    sku_of,
    vm_name,
)
from nexusform.plans.plan import Plan
from nexusform.plans.room.other_room import (
    OtherRoom,
    RuntimeVersion,
    Supplies,
    nodes_of,
    noted_supplies,
    other_room,
)
from nexusform.ports import Registries, ResourceType
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import Machine, VmSku
from nexusform.scheduling.world import RackOffer, UpdateStrategy
from nexusform.state.objects import InstanceState, ObjectState, State


class OwnerKind(StrEnum):
    """What VMs belong to: an NKS cluster, a plain VM, or another group of VMs (a VNF)."""

    NKS = "nks"
    VM = "vm"
    GROUP = "group"


CLUSTER_TYPE: Final = "nexus_kubernetes_cluster"
_NKS_TYPES: Final = (CLUSTER_TYPE, "nexus_agent_pool")
_PLAIN_VM: Final = "nexus_virtual_machine"


class Pool(Struct, frozen=True):
    """The VMs of one pool where they stand. `owner` and `demand` are what its resource asks for.

    `handles` are those of the site's scheduler, by name. `astray` names VMs whose machine is not there any
    more, `unplaced` those that have none.
    """

    address: Address
    owner: VmDemand
    demand: PoolDemand
    vms: tuple[PlacedVm, ...]
    handles: Mapping[str, int]
    astray: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.demand.pool

    @property
    def sku(self) -> VmSku:
        """The SKU of its VMs."""
        return self.demand.sku

    @property
    def control_plane(self) -> bool:
        """Whether it is a control plane rather than workers."""
        return self.demand.control_plane

    @property
    def drain_timeout(self) -> int:
        """How long a node of it may take to drain, in seconds."""
        return self.demand.drain_timeout


class Cluster(Struct, frozen=True):
    """An NKS cluster with its separate pools, a VNF, or a plain VM, in order of creation."""

    id: str
    name: str
    site_id: str
    kind: OwnerKind
    pools: tuple[Pool, ...]

    @property
    def count(self) -> int:
        """How many VMs stand."""
        return sum(len(pool.vms) for pool in self.pools)


class SiteView(Struct, frozen=True, dict=True):
    """One site. The scheduler is never changed: questions take copies.

    `racks` by name, planned ones among them; `outsiders` are (machine, name) of VMs that nexusform
    does not manage; `skus` all VM SKUs that may be asked for; `offered_by` names by machine the resource that
    makes it. `other` is what is left beside machines, () where no provider looked; `versions` the
    Kubernetes versions that clusters there may have, `runtime` what its machines run, None where nobody told.
    `supported_until`: the last day of support of those versions of which the site tells it.
    """

    id: str
    name: str
    machines: Mapping[str, Machine]
    racks: tuple[RackOffer, ...]
    clusters: tuple[Cluster, ...]
    outsiders: tuple[tuple[str, str], ...]
    scheduler: RackScheduler
    skus: Mapping[str, VmSku]
    offered_by: Mapping[str, str] = field(default_factory=dict)
    update_strategy: UpdateStrategy | None = None
    other: tuple[OtherRoom, ...] = ()
    versions: tuple[str, ...] | None = None
    runtime: RuntimeVersion | None = None
    supported_until: Mapping[str, str] = field(default_factory=dict)

    @property
    def homeless(self) -> tuple[str, ...]:
        """The VMs of which no machine is known: they take no room."""
        return tuple(chain.from_iterable((*pool.astray, *pool.unplaced) for pool in self.pools))

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """The pools of all clusters, in order of creation."""
        return tuple(chain.from_iterable(cluster.pools for cluster in self.clusters))

    @cached_property
    def active_racks(self) -> tuple[str, ...]:
        """Names of the racks that have machines now, in byte order."""
        return tuple(sorted({machine.rack for machine in self.machines.values()}, key=str.encode))

    @cached_property
    def machines_of_rack(self) -> Mapping[str, tuple[Machine, ...]]:
        """The machines of every active rack, in order of slot."""
        by_rack: dict[str, list[Machine]] = {rack: [] for rack in self.active_racks}
        for machine in self.machines.values():
            by_rack[machine.rack].append(machine)
        return {rack: tuple(machines) for rack, machines in by_rack.items()}

    @cached_property
    def zones(self) -> tuple[str, ...]:
        """The availability zones of the active racks, in byte order."""
        return tuple(
            sorted({machine.availability_zone for machine in self.machines.values()}, key=str.encode)
        )

    def without(self, machines: frozenset[str], reason: str) -> tuple[RackScheduler, dict[int, int]]:
        """A scheduler in which these machines take no VM and hold none.

        Beside it the new handle of every VM by the old one.
        """
        all_machines = [
            replace(machine, refusal=reason) if machine.name in machines else machine
            for machine in self.scheduler.machines
        ]
        scheduler = RackScheduler(all_machines, self.scheduler.spread, self.scheduler.seed)
        handles = {
            vm.handle: scheduler.occupy(vm.vm, vm.sku, vm.placement)
            for vm in self.scheduler.vms()
            if vm.placement.machine not in machines
        }
        return scheduler, handles


class WorldView(Struct, frozen=True):
    """All sites by id, in byte order."""

    sites: Mapping[str, SiteView] = field(default_factory=dict)

    def clusters(self) -> tuple[Cluster, ...]:
        """Every cluster of every site."""
        return tuple(chain.from_iterable(site.clusters for site in self.sites.values()))


def view_world(things: Iterable[Thing], registries: Registries, catalogue: str = "") -> WorldView:
    """Build the world. `catalogue` is the SKU catalogue's version ("" = the newest)."""
    in_order = sorted(things, key=lambda thing: (thing.creation, address_order(thing.address)))
    ground = lay_ground(in_order, registries, catalogue)
    clusters = _Clusters(ground)
    for kind, thing in sorted(ground.things, key=lambda pair: pair[0].phase):
        clusters.add(kind, thing)
    ordered = sorted(ground.sites.values(), key=lambda site: site.id.encode())
    claimed = _claimed(in_order, registries)
    return WorldView({site.id: _site_view(site, clusters, ground, claimed) for site in ordered})


def _claimed(things: Sequence[Thing], registries: Registries) -> Mapping[str, ClaimDemand]:
    """What pods claim of storage, by cluster id; nothing where no provider saw any."""
    if not any(noted_supplies(thing.note) for thing in things):
        return {}
    instances: dict[Address, InstanceState] = {}
    for thing in things:
        standing = ObjectState(thing.attributes, thing.creation, private=thing.note)
        instances[thing.address] = InstanceState(standing)
    return claimed_in(instances, registries)


class _Clusters(Struct):
    """The clusters of a world on their way: VMs are put on their machines and gathered by cluster."""

    ground: Ground
    by_site: dict[str, dict[str, Cluster]] = field(default_factory=dict)

    def add(self, kind: ResourceType, thing: Thing) -> None:
        """What one object brings: a cluster, or a pool of one that is known already."""
        if kind.vms is None:
            return
        owner, _ = kind.vms.demand(thing.attributes, self.ground.surroundings, thing.address)
        site = self.ground.sites.get(owner.site_id) if owner is not None else None
        if owner is None or site is None:
            return
        vms = {(vm.pool, vm.number): vm for vm in kind.vms.standing(thing.attributes)}
        pools = tuple(_pool(thing.address, owner, pool, site, vms, self.ground.skus) for pool in owner.pools)
        cluster_id = owner.parent_id or kind.identify(thing.attributes)
        clusters = self.by_site.setdefault(site.id, {})
        cluster = clusters.get(cluster_id)
        if cluster is not None:
            clusters[cluster_id] = replace(cluster, pools=(*cluster.pools, *pools))
            return
        name = owner.cluster if kind.name != _PLAIN_VM else str(thing.attributes.get("name"))
        clusters[cluster_id] = Cluster(cluster_id, name, site.id, _kind_of(kind), pools)


def _pool(
    address: Address,
    owner: VmDemand,
    pool: PoolDemand,
    site: SitePlan,
    standing: Mapping[tuple[str, int | str], PlacedVm],
    skus: Mapping[str, VmSku],
) -> Pool:
    """The VMs of a pool, by number, each put on its machine; `standing` are those of its object, by pool and
    number.
    """
    vms: list[PlacedVm] = []
    handles: dict[str, int] = {}
    astray: list[str] = []
    unplaced: list[str] = []
    for number, planned_name in zip(pool.numbers, pool.names, strict=True):
        vm = standing.get((pool.pool, number))
        if vm is None:
            unplaced.append(planned_name)
            continue
        name = vm_name(owner, pool, vm.pool, vm.number)
        housed = site.house(name, sku_of(vm, pool, skus), vm.placement)
        if housed is None:
            astray.append(vm.name)
            continue
        handles[vm.name], placement = housed
        vms.append(vm if placement is vm.placement else replace(vm, placement=placement))
    return Pool(
        address=address,
        owner=owner,
        demand=pool,
        vms=tuple(vms),
        handles=handles,
        astray=tuple(astray),
        unplaced=tuple(unplaced),
    )


def _site_view(
    site: SitePlan, clusters: _Clusters, ground: Ground, claimed: Mapping[str, ClaimDemand]
) -> SiteView:
    """A site as questions see it, with its clusters; those who stand outside take their room."""
    of_site = tuple(clusters.by_site.get(site.id, {}).values())
    pools = chain.from_iterable(cluster.pools for cluster in of_site)
    vms = chain.from_iterable(pool.vms for pool in pools)
    names = set(chain.from_iterable(vm.names for vm in vms))
    outsiders = occupy_outsiders(site, names)
    supplies = _supplies(site, ground)
    return SiteView(
        id=site.id,
        name=site.name,
        machines=site.machines,
        racks=site.racks,
        clusters=of_site,
        outsiders=tuple((outsider.placement.machine, outsider.name) for outsider in outsiders),
        scheduler=site.scheduler,
        skus=ground.skus,
        offered_by=site.offered_by,
        update_strategy=site.update_strategy,
        other=() if supplies is None else _other(site, of_site, supplies, claimed),
        versions=None if supplies is None else supplies.versions,
        runtime=None if supplies is None else supplies.runtime,
        supported_until={} if supplies is None else dict(supplies.supported_until),
    )


def _supplies(site: SitePlan, ground: Ground) -> Supplies | None:
    """What a provider saw on a site beside machines."""
    noted = [(thing, noted_supplies(thing.note)) for _, thing in ground.things]
    of_site = (found for thing, found in noted if found and thing.attributes.get("name") == site.id)
    return next(of_site, None)


def _other(
    site: SitePlan,
    clusters: Iterable[Cluster],
    supplies: Supplies,
    claimed: Mapping[str, ClaimDemand],
) -> tuple[OtherRoom, ...]:
    """What is left beside machines."""
    nks = [cluster for cluster in clusters if cluster.kind is OwnerKind.NKS]
    pools = ((pool.owner, pool.demand) for cluster in nks for pool in cluster.pools)
    nodes = nodes_of(pools, claimed=claimed)
    return other_room(site.id, site.name, supplies, nodes, nodes)


def _kind_of(kind: ResourceType) -> OwnerKind:
    if kind.name in _NKS_TYPES:
        return OwnerKind.NKS
    return OwnerKind.VM if kind.name == _PLAIN_VM else OwnerKind.GROUP


# --- what a machine may hold -------------------------------------------------------------------


def lists_hardware(sku: VmSku, machine: Machine) -> bool:
    """Whether the SKU lists the machine's hardware, as far as both say anything."""
    return not sku.machine_skus or machine.machine_sku in (None, *sku.machine_skus)


def holds_when_empty(machine: Machine, sku: VmSku) -> bool:
    """Whether the machine, with nobody on it, has the cells, vCPUs, memory and disk of the SKU."""
    return (
        machine.cells >= sku.numa_cells
        and machine.cpus_per_cell >= sku.cpus_in_cell
        and machine.memory_gib_per_cell >= sku.memory_in_cell
        and machine.disk_gib >= sku.disk_gib
    )


# --- the objects that questions are asked of ---------------------------------------------------


def things_of_state(state: State) -> tuple[Thing, ...]:
    """What stands according to a state."""
    return tuple(
        Thing(address, instance.current.attributes, instance.current.creation, instance.current.private)
        for address, instance in state.instances.items()
        if instance.current is not None
    )


def things_after(plan: Plan, prior: State) -> tuple[Thing, ...]:
    """What will stand when a plan has been applied to its prior state."""
    things = {thing.address: thing for thing in things_of_state(prior)}
    for address, refreshed in plan.refreshed.items():
        things.pop(address, None)
        if refreshed is not None:
            things[address] = Thing(address, refreshed.attributes, refreshed.creation, refreshed.private)
    for old, _ in plan.moved:
        things.pop(old, None)
    for change in plan.changes:
        if change.deposed:
            continue
        things.pop(change.address, None)
        if change.after is not None:
            things[change.address] = Thing(change.address, change.after, change.creation, change.private)
    return tuple(things.values())
