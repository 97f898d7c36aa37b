"""The sites of one plan: a scheduler each, who stands where, and every step taken since the
removals, so that certainty can be measured by taking the same steps again.

`PlanSurroundings` is what resource types may ask of them and of the plan: SKUs, clusters by id, and what a
placement hint points at. `lay_ground` makes empty sites from the attributes of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PlacedVm, PoolDemand, VmDemand
from nexusform.diagnostics import Diagnostic, did_you_mean, error
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.request import PlanRequest
from nexusform.plans.room.occupancy import OutsideVm, take_note
from nexusform.ports import Kind, Registries, ResourceType
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST, catalogue
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.explanation import Explanation, Shortage
from nexusform.scheduling.racks.uncertainty.certainty import Operation, Stand, VmPlaced, VmReleased
from nexusform.scheduling.racks.uncertainty.splits import Way
from nexusform.scheduling.racks.vms import Demand, Hint, Machine, Placement, VmName, VmSku
from nexusform.scheduling.world import (
    Inventory,
    MachineClash,
    MachineOffer,
    Occupied,
    RackOffer,
    UpdateStrategy,
    site_machines,
)


class Renewal(Struct, frozen=True):
    """A machine is made anew: because of what (an address), and whether its hardware is what it was."""

    cause: str
    is_alike: bool


class SitePlan(Struct):
    """One site while it is planned. `base` is the scheduler as it stood when the removals had
    left; `operations` what happened since. Handles are the scheduler's. `renewed` are the machines that this
    plan makes anew.
    """

    id: str
    name: str
    scheduler: RackScheduler
    machines: Mapping[str, Machine]
    racks: tuple[RackOffer, ...]
    evacuating: frozenset[str]
    offered_by: Mapping[str, str]
    outsiders: tuple[Occupied, ...] = ()
    unmanaged: tuple[Occupied, ...] = ()
    update_strategy: UpdateStrategy | None = None
    base: RackScheduler | None = None
    operations: list[Operation] = field(default_factory=list)
    renewed: Mapping[str, Renewal] = field(default_factory=dict)

    def machine_trigger(self, machine: str) -> str:
        """Why a VM on this machine must be placed anew, or ""."""
        if machine not in self.machines:
            return "machine_removed"
        if machine in self.evacuating:
            return "machine_evacuated"
        return "machine_replaced" if machine in self.renewed else ""

    def occupy(self, vm: VmName, sku: VmSku, placement: Placement) -> int:
        """A VM that stands (or is pinned) there, whether it fits or not."""
        return self.scheduler.occupy(vm, sku, placement)

    def house(self, vm: VmName, sku: VmSku, placement: Placement) -> tuple[int, Placement] | None:
        """Put a VM that stands on its machine: the handle and the place, with the rack and the zone that
        the machine has now. None when the machine is not there any more. Cells that it cannot be in count as
        not known: its room is held all the same.
        """
        machine = self.machines.get(placement.machine)
        if machine is None:
            return None
        place = at_machine(machine, placement)
        held = place if can_be_in(machine, sku, place.cells) else replace(place, cells=())
        return self.occupy(vm, sku, held), place

    def settle(self) -> None:
        """The removals have left: from here on every operation is written down."""
        self.base = self.scheduler.copy()

    def release(self, handle: int) -> None:
        """A VM leaves."""
        self.scheduler.release(handle)
        if self.base is not None:
            self.operations.append(VmReleased(handle=handle))

    def place(self, demand: Demand, *, decided: bool = False) -> tuple[int, Placement] | Shortage:
        """Place a VM by the rule. What is `decided` here is told to the site and not left to its
        tie-breaks: it stands in the same place under every seed.
        """
        answer = self.scheduler.place(demand)
        if isinstance(answer, tuple) and self.base is not None:
            handle, place = answer
            fixed = Stand(handle, demand.vm, demand.sku, place)
            self.operations.append(fixed if decided else VmPlaced(handle, demand))
        elif not isinstance(answer, tuple):
            self.miss(demand)
        return answer

    def miss(self, demand: Demand) -> None:
        """A VM finds no place. In another draw of splits it may find one."""
        if self.base is not None and self.scheduler.is_drawn:
            self.operations.append(VmPlaced(("missed", len(self.operations)), demand))

    def pin(self, demand: Demand, machine: str) -> tuple[int, Placement, str]:
        """Put a VM on the machine that the user names: its handle, place, and why the rule would
        have refused that machine ("" when it would not).
        """
        refusal = self.scheduler.refusal(machine, demand)
        host = self.machines[machine]
        cells = self.scheduler.cells_for(demand.sku, machine)
        place = Placement(host.name, host.rack, host.availability_zone, cells)
        handle = self.scheduler.occupy(demand.vm, demand.sku, place)
        if self.base is not None:
            self.operations.append(Stand(handle, demand.vm, demand.sku, place, by_rule=True))
        return handle, place, refusal

    def put_back(
        self, demand: Demand, placement: Placement, *, as_it_was: bool
    ) -> tuple[int, Placement] | None:
        """Put a VM on the machine it was on, which is made anew: into its cells where the hardware is what it
        was (and the VM: `as_it_was`), else into those that the rule gives it. None where the rule refuses
        the machine.
        """
        machine = self.machines[placement.machine]
        if machine.refusal or (demand.zones is not None and machine.availability_zone not in demand.zones):
            return None
        place = at_machine(machine, placement)
        if not (as_it_was and self.renewed[machine.name].is_alike):
            if self.scheduler.refusal(machine.name, demand):
                return None
            place = replace(place, cells=self.scheduler.cells_for(demand.sku, machine.name))
        handle = self.scheduler.occupy(demand.vm, demand.sku, place)
        self.operations.append(Stand(handle, demand.vm, demand.sku, place))
        return handle, place

    def explain(self, demand: Demand) -> Explanation:
        """Why the VM would go where `place` would put it now."""
        return self.scheduler.explain(demand)

    def zones(self) -> tuple[str, ...]:
        """The availability zones of the site's racks, in byte order, planned racks left out."""
        return tuple(
            sorted({rack.availability_zone for rack in self.racks if not rack.planned}, key=str.encode)
        )


def build_sites(inventory: Inventory, split_seed: Way = 0) -> tuple[dict[str, SitePlan], list[MachineClash]]:
    """A scheduler per site from what phases 1 to 3 offer; machines described twice are clashes. `split_seed`
    draws the splits of machines with VMs whose cells nobody told.
    """
    sites: dict[str, SitePlan] = {}
    clashes: list[MachineClash] = []
    racks: dict[str, list[RackOffer]] = {}
    for rack in inventory.racks.values():
        racks.setdefault(rack.site_id, []).append(rack)
    site_of_rack = {rack.id: rack.site_id for rack in inventory.racks.values()}
    described: dict[str, dict[str, MachineOffer]] = {}  # site -> address -> a machine of its own block
    for address, offer in inventory.machines.items():
        described.setdefault(site_of_rack.get(offer.rack_id, ""), {})[address] = offer
    for site in inventory.sites.values():
        all_racks = sorted(racks.get(site.id, ()), key=lambda rack: rack.name)
        active = [rack for rack in all_racks if not rack.planned]
        offers = described.get(site.id, {})
        machines, site_clashes = site_machines(site.id, active, offers)
        clashes += site_clashes
        by_name = {machine.name: machine for machine in machines}
        occupied = list(chain.from_iterable(offer.occupied for offer in offers.values()))
        sites[site.id] = SitePlan(
            id=site.id,
            name=site.name,
            scheduler=RackScheduler(machines, site.spread, site.seed, split_seed=split_seed),
            machines=by_name,
            racks=tuple(all_racks),
            evacuating=_evacuating(active, offers.values()),
            offered_by=_offered_by(inventory, active, offers),
            outsiders=tuple(outsider for outsider in occupied if outsider.machine in by_name),
            unmanaged=_unmanaged(inventory.unmanaged.get(site.id, ()), occupied, by_name),
            update_strategy=site.update_strategy,
        )
    return sites, clashes


def _unmanaged(
    seen: Iterable[Occupied], occupied: Iterable[Occupied], machines: Container[str]
) -> tuple[Occupied, ...]:
    """What a provider saw, each once, without what the configuration has as occupied."""
    written = {(outsider.machine, outsider.name) for outsider in occupied}
    on_machines = [outsider for outsider in seen if outsider.machine in machines]
    by_key = {(outsider.machine, outsider.name): outsider for outsider in on_machines}
    return tuple(outsider for key, outsider in by_key.items() if key not in written)


def _evacuating(racks: Iterable[RackOffer], described: Iterable[MachineOffer]) -> frozenset[str]:
    """The machines that are to be emptied; a machine's own block goes before what its rack says."""
    machines = set(chain.from_iterable(rack.evacuating for rack in racks))
    for offer in described:
        if offer.evacuating:
            machines.add(offer.machine.name)
        else:
            machines.discard(offer.machine.name)
    return frozenset(machines)


def _offered_by(
    inventory: Inventory, racks: Iterable[RackOffer], described: Mapping[str, MachineOffer]
) -> dict[str, str]:
    """Which resource (address) makes each machine."""
    address_of_rack = {rack.id: address for address, rack in inventory.racks.items()}
    makers: dict[str, str] = {}
    for rack in racks:
        makers |= dict.fromkeys((machine.name for machine in rack.machines), address_of_rack[rack.id])
    for address, offer in described.items():
        makers[offer.machine.name] = address
    return makers


def occupy_outsiders(site: SitePlan, standing: Container[str]) -> list[OutsideVm]:
    """Put the VMs outside nexusform on their machines, those with known cells first, then the others in
    order of machine and name. What a provider saw without knowing who it is may be managed by now:
    `standing` are the names of the VMs that stand.
    """
    outsiders = [*site.outsiders, *(each for each in site.unmanaged if each.name not in standing)]
    numbered = [outsider for outsider in outsiders if outsider.cell_numbers]
    others = [outsider for outsider in outsiders if not outsider.cell_numbers]
    others.sort(key=lambda outsider: (outsider.machine, outsider.name.encode()))
    return [_occupy_outsider(site, outsider) for outsider in (*numbered, *others)]


def _occupy_outsider(site: SitePlan, outsider: Occupied) -> OutsideVm:
    """Put one VM outside nexusform on its machine, as a pool of its own."""
    name, machine = outsider.name, site.machines[outsider.machine]
    sku = VmSku(
        name=name,
        vcpus=outsider.cpu_cores,
        emulator_vcpus=0,
        memory_gib=outsider.memory_gib,
        disk_gib=outsider.disk_gib,
        numa_cells=max(outsider.cells, 1),
    )
    placement = Placement(machine.name, machine.rack, machine.availability_zone, outsider.cell_numbers)
    site.occupy(VmName(f"outside/{machine.name}/{name}", name, name, 0), sku, placement)
    return OutsideVm(name, sku, placement)


def can_be_in(machine: Machine, sku: VmSku, cells: Sequence[int]) -> bool:
    """Whether a VM of the SKU can be in these cells of the machine, whatever else is there."""
    return len(set(cells)) == len(cells) == sku.numa_cells and all(cell < machine.cells for cell in cells)


def at_machine(machine: Machine, placement: Placement) -> Placement:
    """The placement with the rack and the zone of its machine, which may have changed around it."""
    if (machine.rack, machine.availability_zone) == (placement.rack, placement.availability_zone):
        return placement
    return Placement(machine.name, machine.rack, machine.availability_zone, placement.cells)


def sku_of(vm: PlacedVm, pool: PoolDemand | None, skus: Mapping[str, VmSku]) -> VmSku:
    """The SKU of a VM that stands: the one that it is said to have where that is known, else its pool's;
    one with zeros when nothing is known of it any more.
    """
    if pool is not None and pool.sku.name == vm.sku_name:
        return pool.sku
    known = skus.get(vm.sku_name)
    if known is not None:
        return known
    if pool is not None:
        return pool.sku
    return VmSku(vm.sku_name, 0, 0, 0, 0, max(len(vm.placement.cells), 1))


def vm_name(demand: VmDemand, pool: PoolDemand | None, pool_name: str, number: int | str) -> VmName:
    """Whose VM it is in the words of the placement rule."""
    if pool is None or not pool.rule_pool:
        return VmName(demand.owner, demand.cluster, pool_name, number)
    rule_number = number if pool.rule_number is None else pool.rule_number
    return VmName(demand.owner, demand.cluster, pool.rule_pool, rule_number)


def demand_for(
    whole: VmDemand,
    pool: PoolDemand,
    number: int | str,
    last_resort: str | None = None,
    group_hints: Iterable[Hint] = (),
) -> Demand:
    """What the scheduler is asked for one VM."""
    name = vm_name(whole, pool, pool.pool, number)
    of_groups = tuple(group_hints)
    terms = replace(pool.terms, hints=(*pool.terms.hints, *of_groups)) if of_groups else pool.terms
    return Demand(name, pool.sku, terms, last_resort)


Targets: TypeAlias = tuple[frozenset[str], frozenset[str]]


def _nothing(_resource_id: str) -> Targets | None:
    return None


class PlanSurroundings(Struct):
    """The answers at one moment of a plan (a Surroundings of the ports)."""

    skus: Mapping[str, VmSku]
    clusters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    targets: Callable[[str], Targets | None] = _nothing
    sites: Mapping[str, Sequence[Machine]] = field(default_factory=dict)

    def sku(self, name: str) -> VmSku | None:
        """A VM SKU by name."""
        return self.skus.get(name)

    def sku_names(self) -> Sequence[str]:
        """All known SKU names, sorted."""
        return sorted(self.skus)

    def cluster(self, cluster_id: str) -> Mapping[str, Any] | None:
        """The attributes of the cluster with this id."""
        return self.clusters.get(cluster_id)

    def hint_targets(self, resource_id: str) -> Targets | None:
        """Machines and racks that a hint's resource_id stands for."""
        return self.targets(resource_id)

    def machines(self, site_id: str) -> Sequence[Machine] | None:
        """The machines of a site."""
        return self.sites.get(site_id)


def vm_skus(request: PlanRequest, inventory: Inventory) -> tuple[dict[str, VmSku], list[Diagnostic]]:
    """All VM SKUs: the catalogue's of the plan's version, and the user's own."""
    version = catalogue_version(request)
    listed = catalogue(version)
    problems = []
    if listed is None:
        known = ", ".join(sorted(CATALOGUES))
        detail = f'There is no SKU catalogue "{version}".{did_you_mean(version, CATALOGUES)} Known: {known}.'
        span = request.configuration.settings.sku_catalogue_span
        problems.append(error("unknown-sku-catalogue", detail, span))
        listed = CATALOGUES[NEWEST]
    declared = {sku.name: sku for sku in inventory.skus.values()}
    return {**listed.vm_skus, **declared}, problems


def catalogue_version(request: PlanRequest) -> str:
    """The version that the plan uses and state will record."""
    return request.configuration.settings.sku_catalogue or request.state.catalogue or NEWEST


def surroundings_before(
    prior: Prior, skus: Mapping[str, VmSku], types: Mapping[str, ResourceType]
) -> PlanSurroundings:
    """The SKUs and clusters as they stood: what prior arguments meant."""
    inventory = Inventory()
    clusters: dict[str, Mapping[str, Any]] = {}
    for address in prior.instances:
        resource_type, current = types.get(address.type), prior.object(address)
        if resource_type is None or current is None:
            continue
        if resource_type.kind is Kind.CLUSTER:
            clusters.setdefault(resource_type.identify(current.attributes), current.attributes)
        elif resource_type.kind is Kind.VM_SKU and resource_type.offer is not None:
            resource_type.offer(current.attributes, str(address), inventory)
    # Of a SKU that is declared still, today's figures count.
    prior_skus = {sku.name: sku for sku in inventory.skus.values()}
    return PlanSurroundings({**prior_skus, **skus}, clusters, lambda _resource_id: (frozenset(), frozenset()))


def inventory_of(
    objects: Iterable[tuple[Address, Mapping[str, Any]]], types: Mapping[str, ResourceType]
) -> Inventory:
    """What objects (their attributes by address) offer; those of unknown types offer nothing."""
    inventory = Inventory()
    known = [(types[address.type], address, values) for address, values in objects if address.type in types]
    for kind, address, values in sorted(known, key=lambda one: one[0].phase):
        if kind.offer is not None:
            kind.offer(values, str(address), inventory)
    return inventory


def machines_of(inventory: Inventory) -> frozenset[tuple[str, str]]:
    """The machines of sites on offer, whoever takes VMs or not: site and name."""
    site_of_rack = {rack.id: rack.site_id for rack in inventory.racks.values()}
    of_racks = {
        (rack.site_id, machine.name) for rack in inventory.racks.values() for machine in rack.machines
    }
    own = {(site_of_rack.get(each.rack_id, ""), each.machine.name) for each in inventory.machines.values()}
    site_ids = inventory.site_ids()
    return frozenset((site_id, name) for site_id, name in of_racks | own if site_id in site_ids)


# --- the sites that objects describe -----------------------------------------------------------


class Thing(Struct, frozen=True):
    """One object: its address, attributes (plain data), creation number, and what its type notes of it."""

    address: Address
    attributes: Mapping[str, Any]
    creation: int
    note: Mapping[str, Any] | None = None


class Ground(Struct, frozen=True):
    """The sites that things describe, by id and without any VM.

    `things` are those of known types, in the order given, with their type. `skus` are all VM SKUs that
    may be asked for; `surroundings` is what the demands of the things are read against.
    """

    sites: Mapping[str, SitePlan]
    things: tuple[tuple[ResourceType, Thing], ...]
    skus: Mapping[str, VmSku]
    surroundings: PlanSurroundings


def lay_ground(things: Iterable[Thing], registries: Registries, catalogue: str = "") -> Ground:
    """Build the sites. `catalogue` is the SKU catalogue's version ("" or an unknown one = the newest)."""
    types = registries.resource_types
    known = tuple(
        (types[thing.address.type], thing)
        for thing in things
        if thing.address.mode == "managed" and thing.address.type in types
    )
    inventory = Inventory()
    for kind, thing in sorted(known, key=lambda pair: pair[0].phase):
        if kind.offer is not None:
            kind.offer(thing.attributes, str(thing.address), inventory)
            take_note(inventory, kind, thing.attributes, thing.note)
    catalogued = (CATALOGUES.get(catalogue) or CATALOGUES[NEWEST]).vm_skus
    skus = {**catalogued, **{sku.name: sku for sku in inventory.skus.values()}}
    # Where hints point decides nothing any more: everybody has a place.
    surroundings = PlanSurroundings(skus, targets=lambda _id: (frozenset(), frozenset()))
    for kind, thing in known:
        if kind.kind is Kind.CLUSTER:
            surroundings.clusters.setdefault(kind.identify(thing.attributes), thing.attributes)
    return Ground(build_sites(inventory)[0], known, skus, surroundings)
