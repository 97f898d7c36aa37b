"""The world that questions are asked of: sites, machines and VMs as objects' attributes tell them.

The attributes may be those of the state or those that a plan will leave; a question never sees which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address, address_order
from nexusform.demands import PlacedVm, PoolDemand, VmDemand
from nexusform.planning.room.ground import Ground, Thing, lay_ground
from nexusform.planning.vms.sites import SitePlan, occupy_outsiders, sku_of, vm_name
from nexusform.planning.vms.surroundings import CLUSTER_TYPE
from nexusform.ports import Registries, ResourceType
from nexusform.resource_types.vnf_vdus import CONTROL_PLANE_ROLE, role_of
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.model import CONTROL_PLANE, Machine, Placement, VmSku
from nexusform.scheduling.world import RackOffer


class Kind(StrEnum):
    """What VMs belong to: an NKS cluster, a plain VM, or another group of VMs (a VNF)."""

    NKS = "nks"
    VM = "vm"
    GROUP = "group"


_NKS_TYPES = (CLUSTER_TYPE, "nexus_agent_pool")
_PLAIN_VM = "nexus_virtual_machine"
_VNF = "tacker_vnf"


class Vm(Struct, frozen=True):
    """One VM where it stands. `handle` is the site scheduler's; `number` its number in the pool."""

    name: str
    number: int | str
    placement: Placement
    handle: int


class Pool(Struct, frozen=True):
    """The VMs of one pool. `wanted` and `demand` are what its resource asks for.

    `drain_timeout` is seconds. `astray` names VMs whose machine is not there any more.
    """

    address: Address
    wanted: VmDemand
    demand: PoolDemand
    vms: tuple[Vm, ...]
    control_plane: bool
    drain_timeout: int = 1800
    astray: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.demand.pool

    @property
    def sku(self) -> VmSku:
        """The SKU of its VMs."""
        return self.demand.sku


class Cluster(Struct, frozen=True):
    """An NKS cluster with its separate pools, a VNF, or a plain VM, in order of creation."""

    id: str
    name: str
    site_id: str
    kind: Kind
    pools: tuple[Pool, ...]

    @property
    def count(self) -> int:
        """How many VMs stand."""
        return sum(len(pool.vms) for pool in self.pools)


class SiteView(Struct, frozen=True, dict=True):
    """One site. The scheduler is never changed: questions take copies.

    `racks` by name, planned ones among them; `outsiders` are (machine, name) of VMs that nexusform
    does not manage; `skus` all VM SKUs that may be asked for.
    """

    id: str
    name: str
    machines: Mapping[str, Machine]
    racks: tuple[RackOffer, ...]
    clusters: tuple[Cluster, ...]
    outsiders: tuple[tuple[str, str], ...]
    scheduler: RackScheduler
    skus: Mapping[str, VmSku]

    @cached_property
    def active_racks(self) -> tuple[str, ...]:
        """Names of the racks that have machines now, in byte order."""
        return tuple(sorted({m.rack for m in self.machines.values()}, key=str.encode))

    @cached_property
    def machines_of_rack(self) -> Mapping[str, tuple[Machine, ...]]:
        """The machines of every active rack, in order of slot."""
        found: dict[str, list[Machine]] = {rack: [] for rack in self.active_racks}
        for machine in self.machines.values():
            found[machine.rack].append(machine)
        return {rack: tuple(machines) for rack, machines in found.items()}

    @cached_property
    def zones(self) -> tuple[str, ...]:
        """The availability zones of the active racks, in byte order."""
        return tuple(sorted({m.availability_zone for m in self.machines.values()}, key=str.encode))

    def without(self, machines: frozenset[str], reason: str) -> tuple[RackScheduler, dict[int, int]]:
        """A scheduler in which these machines take no VM and hold none.

        Beside it the new handle of every VM by the old one.
        """
        standing = [replace(m, refusal=reason) if m.name in machines else m for m in self.scheduler.machines]
        scheduler = RackScheduler(standing, self.scheduler.spread, self.scheduler.seed)
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
        return tuple(cluster for site in self.sites.values() for cluster in site.clusters)


def view_world(things: Iterable[Thing], registries: Registries, catalogue: str = "") -> WorldView:
    """Build the world. `catalogue` is the SKU catalogue's version ("" = the newest)."""
    in_order = sorted(things, key=lambda thing: (thing.creation, address_order(thing.address)))
    return _Reader(lay_ground(in_order, registries, catalogue)).read()


class _Reader(Struct):
    """Puts VMs on the machines of their sites and gathers them by cluster."""

    ground: Ground
    clusters: dict[tuple[str, str], Cluster] = field(default_factory=dict)

    def read(self) -> WorldView:
        for kind, thing in sorted(self.ground.things, key=lambda pair: pair[0].phase):
            self._read_vms(kind, thing)
        for site in self.ground.sites.values():
            occupy_outsiders(site)
        ordered = sorted(self.ground.sites.values(), key=lambda s: s.id.encode())
        return WorldView({site.id: self._view(site) for site in ordered})

    def _view(self, site: SitePlan) -> SiteView:
        return SiteView(
            site.id,
            site.name,
            site.machines,
            site.racks,
            tuple(cluster for (site_id, _), cluster in self.clusters.items() if site_id == site.id),
            tuple((o.machine, o.name) for o in site.outsiders),
            site.scheduler,
            self.ground.skus,
        )

    def _read_vms(self, kind: ResourceType, thing: Thing) -> None:
        if kind.vms is None:
            return
        wanted, _ = kind.vms.demand(thing.attributes, self.ground.surroundings, thing.address)
        site = self.ground.sites.get(wanted.site_id) if wanted is not None else None
        if wanted is None or site is None:
            return
        standing = {(vm.pool, vm.number): vm for vm in kind.vms.standing(thing.attributes)}
        pools = tuple(self._pool(thing, wanted, pool, site, standing) for pool in wanted.pools)
        cluster_id = wanted.parent_id or kind.identify(thing.attributes)
        known = self.clusters.get((site.id, cluster_id))
        if known is not None:
            self.clusters[site.id, cluster_id] = replace(known, pools=(*known.pools, *pools))
            return
        name = wanted.cluster if kind.name != _PLAIN_VM else str(thing.attributes.get("name"))
        self.clusters[site.id, cluster_id] = Cluster(cluster_id, name, site.id, _kind_of(kind), pools)

    def _pool(
        self,
        thing: Thing,
        wanted: VmDemand,
        pool: PoolDemand,
        site: SitePlan,
        standing: Mapping[tuple[str, int | str], PlacedVm],
    ) -> Pool:
        vms: list[Vm] = []
        astray: list[str] = []
        for number in pool.numbers:
            vm = standing.get((pool.pool, number))
            if vm is None:
                continue
            name = vm_name(wanted, pool, vm.pool, vm.number)
            housed = site.house(name, sku_of(vm, pool, self.ground.skus), vm.placement)
            if housed is None:
                astray.append(vm.name)
                continue
            handle, place = housed
            vms.append(Vm(vm.name, number, place, handle))
        return Pool(
            thing.address,
            wanted,
            pool,
            tuple(vms),
            _is_control_plane(thing.address, thing.attributes, pool),
            _drain_timeout(thing.attributes, pool),
            tuple(astray),
        )


def _kind_of(kind: ResourceType) -> Kind:
    if kind.name in _NKS_TYPES:
        return Kind.NKS
    return Kind.VM if kind.name == _PLAIN_VM else Kind.GROUP


def _is_control_plane(address: Address, attributes: Mapping[str, Any], pool: PoolDemand) -> bool:
    """By the reserved name of an NKS cluster's control plane, or by the role of a VNF's VDU."""
    if address.type != _VNF:
        return pool.pool == CONTROL_PLANE
    blocks = attributes.get("vdu") or {}
    return role_of(pool.pool, blocks.get(pool.pool) or {}) == CONTROL_PLANE_ROLE


def _drain_timeout(attributes: Mapping[str, Any], pool: PoolDemand) -> int:
    values: Any = attributes
    for step in pool.path:
        values = values.get(step) if isinstance(values, Mapping) else None
    settings = values.get("upgrade_settings") if isinstance(values, Mapping) else None
    timeout = settings.get("drain_timeout") if isinstance(settings, Mapping) else None
    return int(timeout) if isinstance(timeout, int) else 1800
