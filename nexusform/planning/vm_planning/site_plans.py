"""Sites of one plan: a scheduler each, their VMs, and the recorded operations.

The operations since the removals are recorded, so that certainty can be measured by replaying them.
`ResourceTypeContext` answers the queries of resource types: SKUs, clusters by id, and targets of
placement hints. `build_site_layout` builds empty sites from the attributes of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, suggest_name
from nexusform.diagnostics.phrases import group_by
from nexusform.doubts.doubt import Doubt
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries, ResourceType
from nexusform.placements.vm_demands import MACHINE_LOST, PlacedVm, PoolDemand, VmDemand
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.prior_state import PriorState
from nexusform.plans.site_capacity.occupancy import UnmanagedVm, add_recorded_vms
from nexusform.resources.address import Address
from nexusform.scheduling.listing.site_listing import (
    SiteListing,
    build_listed_machines,
    build_unconfigured_machines,
    close_machine_as_listed,
)
from nexusform.scheduling.machine_actions import ACTION_PENDING
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty.arrivals import Arrival, BuildingVms
from nexusform.scheduling.racks.uncertainty.operations import (
    OccupyOperation,
    Operation,
    PlaceOperation,
    ReleaseOperation,
)
from nexusform.scheduling.racks.vms import (
    Demand,
    Hint,
    Machine,
    NoFitReason,
    Placement,
    RackSpread,
    ScheduledVm,
    UnschedulableReason,
    VmName,
    VmSku,
)
from nexusform.scheduling.site_inventory import (
    InventoryMachine,
    InventoryRack,
    MachineConflict,
    MachineUpgradeStrategy,
    OccupiedCapacity,
    PlanInventory,
    add_observed_facts,
    merge_site_machines,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from nexusform.state.objects import ObjectState

if TYPE_CHECKING:
    from nexusform.scheduling.racks.profile import SchedulerProfile
    from nexusform.scheduling.racks.uncertainty.splits import SplitChoice


# Reason against new VMs of a machine that is down in a hypothetical plan or a simulation.
LOST: Final = "lost"


class MachineRecreation(Struct, frozen=True):
    """Re-creation of a machine: its cause (an address), and whether the hardware is the same."""

    cause: str
    has_same_hardware: bool


class SitePlan(Struct):
    """One site during planning.

    `base` is a copy of the scheduler after the removals (the scheduler itself until then);
    `operations` are the ones since then. Handles are the scheduler's. `recreated_machines` are
    those re-created by this plan, `lost_machines` those down in a hypothetical plan.
    `unread` are facts of the site's documents that are not read. `listing` is the site as its
    platform lists it (None: unknown); `unconfigured_machines` are machines of the list that the
    configuration lacks: they keep their VMs and take no new ones. `building` are VMs of the plan
    that still build when the next one arrives; `has_removals`: the plan removes VMs of the site.
    `platform` is that of its profile, "" for Azure.
    """

    id: str
    name: str
    scheduler: RackScheduler
    machines: Mapping[str, Machine]
    racks: tuple[InventoryRack, ...]
    evacuating_machines: frozenset[str]
    offering_addresses: Mapping[str, str]
    base: RackScheduler
    configured_unmanaged: tuple[OccupiedCapacity, ...] = ()
    observed_unmanaged: tuple[OccupiedCapacity, ...] = ()
    update_strategy: MachineUpgradeStrategy | None = None
    operations: list[Operation] = field(default_factory=list)
    recreated_machines: Mapping[str, MachineRecreation] = field(default_factory=dict)
    lost_machines: frozenset[str] = frozenset()
    unread: tuple[Doubt, ...] = ()
    listing: SiteListing | None = None
    unconfigured_machines: frozenset[str] = frozenset()
    building: BuildingVms = field(default_factory=BuildingVms)
    has_removals: bool = False
    platform: str = ""

    @property
    def configured_machines(self) -> dict[str, Machine]:
        """Machines of the configuration, by name."""
        return {
            name: machine
            for name, machine in self.machines.items()
            if name not in self.unconfigured_machines
        }

    @property
    def placed_demands(self) -> list[Demand]:
        """Demands of the recorded placements, in order."""
        return [
            operation.demand
            for operation in self.operations
            if isinstance(operation, PlaceOperation)
        ]

    @property
    def has_arrivals_after_removals(self) -> bool:
        """Whether the plan removes VMs and places others in an order of the platform."""
        return self.has_removals and any(
            isinstance(operation, PlaceOperation) and operation.arrival is not None
            for operation in self.operations
        )

    def find_machine_trigger(self, machine: str) -> str:
        """Return the reason (trigger) to re-create the VMs of a machine, "" if they may stay."""
        if machine not in self.machines:
            return "machine_removed"
        if machine in self.lost_machines:
            return MACHINE_LOST
        if machine in self.evacuating_machines:
            return "machine_evacuated"
        return "machine_replaced" if machine in self.recreated_machines else ""

    def place_existing_vm(
        self, vm: VmName, sku: VmSku, placement: Placement
    ) -> tuple[int, Placement] | None:
        """Place an existing VM on its machine, and return its handle and placement.

        The placement has the machine's current rack and zone. Return None if the machine is
        missing. Impossible cells count as unknown: the capacity is used nevertheless.
        """
        machine = self.machines.get(placement.machine)
        if machine is None:
            return None
        current_placement = refresh_rack_and_zone(machine, placement)
        # Possible cells are distinct, as many as the SKU needs, and exist on the machine.
        cells = current_placement.cells
        has_all_cells = len(set(cells)) == len(cells) == sku.numa_cells
        is_possible = has_all_cells and all(cell < machine.cells for cell in cells)
        reserved_placement = (
            current_placement if is_possible else replace(current_placement, cells=())
        )
        return self.scheduler.add_existing(vm, sku, reserved_placement), current_placement

    def release_schedulers(self) -> None:
        """Free the memory of all that places VMs: nothing may use it afterwards.

        It takes several hundred bytes per VM, while the capacity after the plan is counted.
        """
        del self.scheduler, self.base, self.operations

    def start_recording(self) -> None:
        """Keep a copy of the scheduler as it is after the removals (`base`).

        Operations are recorded from now on.
        """
        self.base = self.scheduler.copy()
        self.operations.clear()

    def release(self, handle: int) -> None:
        """Release a VM, and record the operation."""
        self.scheduler.release(handle)
        self.operations.append(ReleaseOperation(handle))

    def place(
        self, demand: Demand, *, is_decided: bool = False, arrival: Arrival | None = None
    ) -> tuple[int, Placement] | NoFitReason:
        """Place a VM by the rule, or return why it does not fit.

        The operation is recorded for the samples of unknown NUMA cells. A sample places the VM
        again; with `is_decided` it uses the location found here, as apply does. `arrival` is the
        one at a platform that places VMs in an order of its own.
        """
        if arrival is not None:
            self.building.finish_awaited(arrival, self.scheduler)
        answer = self.scheduler.place(demand)
        if not isinstance(answer, tuple):
            self.record_failure(demand)
        else:
            handle, placement = answer
            operation = OccupyOperation(handle, demand.vm, demand.sku, placement)
            if arrival is not None:
                self.building.add(arrival, placement.machine)
            self.operations.append(
                operation if is_decided else PlaceOperation(handle, demand, arrival)
            )
        return answer

    def record_failure(self, demand: Demand) -> None:
        """Record a VM without capacity for the samples of unknown NUMA cells, if there are any.

        It may fit in one.
        """
        if self.scheduler.is_sampled:
            # In place of a handle.
            unique_token = ("missed", len(self.operations))
            self.operations.append(PlaceOperation(unique_token, demand))

    def place_pinned_vm(self, demand: Demand, machine: str) -> tuple[int, Placement, str]:
        """Place a VM on a machine chosen by the user.

        Return handle, placement and the rule's rejection (or "").
        """
        rejection = self.scheduler.find_rejection(machine, demand)
        host = self.machines[machine]
        cells = self.scheduler.select_cells(demand.sku, machine)
        placement = Placement(host.name, host.rack, host.availability_zone, cells)
        handle = self.scheduler.add_existing(demand.vm, demand.sku, placement)
        # In a sample of unknown NUMA cells, the rule selects the cells again.
        self.operations.append(
            OccupyOperation(handle, demand.vm, demand.sku, placement, uses_rule_cells=True)
        )
        return handle, placement, rejection

    def restore(
        self, demand: Demand, placement: Placement, *, is_unchanged: bool
    ) -> tuple[int, Placement] | None:
        """Place a VM on its re-created machine again.

        It gets its former cells if VM (`is_unchanged`) and hardware are the same, else cells chosen
        by the rule. Return None if the machine or its zone is closed, or the rule rejects it.
        """
        machine = self.machines[placement.machine]
        if machine.unschedulable_reason or (
            demand.zones is not None and machine.availability_zone not in demand.zones
        ):
            # The caller places it by the rule.
            return None
        new_placement = refresh_rack_and_zone(machine, placement)
        if not (is_unchanged and self.recreated_machines[machine.name].has_same_hardware):
            if self.scheduler.find_rejection(machine.name, demand):
                return None
            new_placement = replace(
                new_placement, cells=self.scheduler.select_cells(demand.sku, machine.name)
            )
        handle = self.scheduler.add_existing(demand.vm, demand.sku, new_placement)
        self.operations.append(OccupyOperation(handle, demand.vm, demand.sku, new_placement))
        return handle, new_placement

    def list_zones(self) -> tuple[str, ...]:
        """Return the availability zones of the site's racks, in byte order.

        Planned racks do not count.
        """
        return tuple(
            sorted(
                {rack.availability_zone for rack in self.racks if not rack.is_planned},
                key=str.encode,
            )
        )


def build_scheduler(
    machines: Sequence[Machine],
    spread: RackSpread = RackSpread.POOL,
    profile: SchedulerProfile | None = None,
) -> RackScheduler:
    """Return a scheduler of machines without VMs, for a question about recorded decisions."""
    return RackScheduler(machines, spread, profile=profile)


def rebuild_scheduler(
    scheduler: RackScheduler, machines: Iterable[Machine], vms: Iterable[ScheduledVm]
) -> RackScheduler:
    """Return a scheduler with the same placement rule for these machines and VMs.

    Spread, seed, profile. With all VMs, none of them released before, their handles (ids in the
    scheduler) stay the same.
    """
    new = RackScheduler(
        list(machines),
        scheduler.spread,
        scheduler.seed,
        split_choice=scheduler.split_choice,
        profile=scheduler.profile,
    )
    for vm in vms:
        new.add_existing(vm.vm, vm.sku, vm.placement)
    return new


def build_sites(
    inventory: PlanInventory,
    split_choice: SplitChoice = 0,
    lost_machines: Collection[tuple[str, str]] = (),
    *,
    as_listed: bool = False,
) -> tuple[dict[str, SitePlan], list[MachineConflict]]:
    """Return the site plans by id, each with a scheduler of its machines, and the clashes.

    A clash is a machine described twice. `split_choice` selects the cells assumed for existing VMs
    in unknown NUMA cells. `lost_machines` (site id, name) are down in a hypothetical plan. With
    `as_listed` a site has the machines that its platform lists, else those of the configuration.
    """
    sites: dict[str, SitePlan] = {}
    clashes: list[MachineConflict] = []
    racks_by_site = group_by(inventory.racks.values(), lambda rack: rack.site_id)
    site_of_rack = index_sites_by_rack(inventory)
    # By site id, then by address: the machines with a block of their own.
    offers_by_site: dict[str, dict[str, InventoryMachine]] = {}
    for address, offer in inventory.machines.items():
        # "": on no known rack.
        offers_by_site.setdefault(site_of_rack.get(offer.rack_id, ""), {})[address] = offer
    for site in inventory.sites.values():
        all_racks = sorted(racks_by_site.get(site.id, ()), key=lambda rack: rack.name)
        active_racks = [rack for rack in all_racks if not rack.is_planned]
        offers = offers_by_site.get(site.id, {})
        merged, site_clashes = merge_site_machines(site.id, active_racks, offers)
        lost_names = frozenset(name for site_id, name in lost_machines if site_id == site.id)
        listing = inventory.listings.get(site.id)
        machines = tuple(
            close_machine_as_listed(
                listing,
                _close_machine_to_new_vms(machine, site.id, inventory.pending_actions, lost_names),
                is_recorded=(site.id, machine.name) in inventory.recorded_machines,
            )
            for machine in merged
        )
        clashes += site_clashes
        configured_names = {
            offer.machine.name for offer in (*offers.values(), *offers_by_site.get("", {}).values())
        }
        unconfigured = tuple(
            _close_machine_to_new_vms(machine, site.id, inventory.pending_actions, lost_names)
            for machine in _build_unconfigured_machines(
                listing, machines, all_racks, configured_names, site.id, inventory
            )
        )
        machines = (*machines, *unconfigured)
        if as_listed and listing is not None:
            machines = build_listed_machines(listing, machines)
        machine_by_name = {machine.name: machine for machine in machines}
        occupied = list(chain.from_iterable(offer.occupied_capacities for offer in offers.values()))
        scheduler = RackScheduler(
            machines, site.spread, site.seed, split_choice=split_choice, profile=site.profile
        )
        sites[site.id] = SitePlan(
            id=site.id,
            name=site.name,
            scheduler=scheduler,
            machines=machine_by_name,
            racks=tuple(all_racks),
            evacuating_machines=_find_evacuating_machines(active_racks, offers.values()),
            offering_addresses=_map_machines_to_addresses(active_racks, offers, inventory),
            # It becomes a copy of it before anything is placed.
            base=scheduler,
            platform=scheduler.profile.platform,
            configured_unmanaged=tuple(
                entry for entry in occupied if entry.machine in machine_by_name
            ),
            observed_unmanaged=_select_unmanaged_vms(
                [
                    *inventory.unmanaged.get(site.id, ()),
                    *_list_vms_on_machines(listing, {machine.name for machine in unconfigured}),
                ],
                occupied,
                machine_by_name,
            ),
            update_strategy=site.update_strategy,
            lost_machines=lost_names,
            unread=tuple(
                replace(fact, site_id=site.id) for fact in inventory.unread.get(site.id, ())
            ),
            listing=listing,
            unconfigured_machines=frozenset(machine.name for machine in unconfigured),
        )
    return sites, clashes


def _build_unconfigured_machines(
    listing: SiteListing | None,
    machines: Iterable[Machine],
    racks: Sequence[InventoryRack],
    configured_names: Collection[str],
    site_id: str,
    inventory: PlanInventory,
) -> Iterator[Machine]:
    """Yield the listed machines that the configuration of a site lacks, closed to new VMs.

    `configured_names` are those of machines with a block of their own. Yield nothing for a
    configuration without hardware.
    """
    known_machines = tuple(machines)
    names = {machine.name for machine in known_machines}
    if listing is None or not (names or racks):
        return
    # Planned racks offer no machines yet, but their machines are configured.
    for rack in racks:
        names.update(machine.name for machine in rack.machines)
    names.update(configured_names)
    recorded = {
        name for recorded_site, name in inventory.recorded_machines if site_id == recorded_site
    }
    yield from build_unconfigured_machines(listing, names | recorded, known_machines)


def _list_vms_on_machines(
    listing: SiteListing | None, names: Container[str]
) -> Iterator[OccupiedCapacity]:
    """Yield the VMs of no resource that a listing has on these machines."""
    for machine in () if listing is None else listing.machines:
        if machine.name in names:
            for vm in machine.vms:
                yield OccupiedCapacity(
                    machine.name,
                    vm.name,
                    vm.cpu_cores,
                    vm.memory_gib,
                    vm.disk_gib,
                    max(vm.numa_cells, 1),
                )


def _map_machines_to_addresses(
    racks: Iterable[InventoryRack], offers: Mapping[str, InventoryMachine], inventory: PlanInventory
) -> dict[str, str]:
    """Return the address of the resource with each machine, by machine name.

    It is the resource of the machine itself, else its rack.
    """
    address_of_rack = {rack.id: address for address, rack in inventory.racks.items()}
    addresses: dict[str, str] = {}
    for rack in racks:
        addresses |= dict.fromkeys(
            (machine.name for machine in rack.machines), address_of_rack[rack.id]
        )
    return addresses | {offer.machine.name: address for address, offer in offers.items()}


def index_sites_by_rack(inventory: PlanInventory) -> dict[str, str]:
    """Return the id of the site of each rack by the id of the rack."""
    return {rack.id: rack.site_id for rack in inventory.racks.values()}


# The SKUs of the inventory are by address.
def _index_skus_by_name(inventory: PlanInventory) -> dict[str, VmSku]:
    return {sku.name: sku for sku in inventory.skus.values()}


def _close_machine_to_new_vms(
    machine: Machine, site_id: str, pending_actions: Container[str], lost_names: Container[str]
) -> Machine:
    """Return a machine, closed to new VMs if it is lost or its id is in `pending_actions`.

    Its state is unknown during an action. The loss replaces every other reason.
    """
    if machine.name in lost_names:
        return replace(machine, unschedulable_reasons=(UnschedulableReason(LOST),))
    if f"{site_id}/{machine.rack}/{machine.name}" not in pending_actions:
        return machine
    reasons = (*machine.unschedulable_reasons, UnschedulableReason(ACTION_PENDING))
    return replace(machine, unschedulable_reasons=reasons)


def _select_unmanaged_vms(
    observed: Iterable[OccupiedCapacity],
    occupied: Iterable[OccupiedCapacity],
    machines: Container[str],
) -> tuple[OccupiedCapacity, ...]:
    """Return the VMs seen by a provider on these machines.

    Duplicates and configured `occupied` entries are left out.
    """
    configured = {(entry.machine, entry.name) for entry in occupied}
    # By machine, name and id: some platforms allow equal names.
    selected: dict[tuple[str, str, str], OccupiedCapacity] = {}
    for entry in observed:
        key = (entry.machine, entry.name)
        if entry.machine in machines and key not in configured:
            selected[*key, entry.platform_id] = entry
    return tuple(selected.values())


def _find_evacuating_machines(
    racks: Iterable[InventoryRack], offers: Iterable[InventoryMachine]
) -> frozenset[str]:
    """Return the machines to evacuate; the own block of a machine overrides its rack."""
    machines = set(chain.from_iterable(rack.evacuating_machines for rack in racks))
    for offer in offers:
        if offer.is_evacuating:
            machines.add(offer.machine.name)
        else:
            machines.discard(offer.machine.name)
    return frozenset(machines)


def place_unmanaged_vms(site: SitePlan, managed: Container[str]) -> list[UnmanagedVm]:
    """Place the unmanaged VMs on their machines.

    VMs with known cells come first, then the others by machine and name. `managed` are the names
    and ids of managed VMs: an observed VM with one of them is managed by now, so it is skipped.
    """
    observed = [
        entry
        for entry in site.observed_unmanaged
        if entry.name not in managed and entry.platform_id not in managed
    ]
    # Known cells keep their order.
    entries = sorted(
        [*site.configured_unmanaged, *observed],
        key=lambda entry: (
            (False, "", b"") if entry.cell_numbers else (True, entry.machine, entry.name.encode())
        ),
    )
    return [_place_unmanaged_vm(site, entry) for entry in entries]


def _place_unmanaged_vm(site: SitePlan, entry: OccupiedCapacity) -> UnmanagedVm:
    """Place one unmanaged VM on its machine, as a pool of its own."""
    name = entry.name
    machine = site.machines[entry.machine]
    sku = VmSku(
        name=name,
        vcpus=entry.cpu_cores,
        emulator_vcpus=0,
        memory_gib=entry.memory_gib,
        disk_gib=entry.disk_gib,
        numa_cells=max(entry.cells, 1),
        record=entry.record,
    )
    placement = Placement(machine.name, machine.rack, machine.availability_zone, entry.cell_numbers)
    site.place_existing_vm(VmName(f"outside/{machine.name}/{name}", name, name, 0), sku, placement)
    return UnmanagedVm(name, sku, placement)


def refresh_rack_and_zone(machine: Machine, placement: Placement) -> Placement:
    """Return the placement with the current rack and zone of its machine.

    Return the same object if they are unchanged.
    """
    if (machine.rack, machine.availability_zone) == (placement.rack, placement.availability_zone):
        return placement
    return Placement(machine.name, machine.rack, machine.availability_zone, placement.cells)


def find_sku(vm: PlacedVm, pool: PoolDemand | None, skus: Mapping[str, VmSku]) -> VmSku:
    """Return the SKU with the recorded name, else the pool's SKU, else one of size 0.

    The SKU with the recorded name is the pool's, or a known one.
    """
    is_of_pool = not vm.has_recorded_sku or (pool is not None and pool.sku.name == vm.sku_name)
    if pool is not None and is_of_pool:
        return pool.sku
    known_sku = skus.get(vm.sku_name)
    if known_sku is not None:
        return known_sku
    if pool is not None:
        return pool.sku
    # At least one, even if the cells are unknown.
    cell_count = max(len(vm.placement.cells), 1)
    return VmSku(
        vm.sku_name, vcpus=0, emulator_vcpus=0, memory_gib=0, disk_gib=0, numa_cells=cell_count
    )


def build_vm_name(
    demand: VmDemand, pool: PoolDemand | None, pool_name: str, number: int | str
) -> VmName:
    """Return the name of a VM for the placement rule.

    All VMs of a block outside of clusters are one pool there.
    """
    if pool is None or not pool.rule_pool:
        return VmName(demand.owner, demand.cluster, pool_name, number)
    return VmName(demand.owner, demand.cluster, pool.rule_pool, pool.rule_number)


def build_demand(
    vm_demand: VmDemand,
    pool: PoolDemand,
    number: int | str,
    last_resort: str | None = None,
    group_hints: Iterable[Hint] = (),
) -> Demand:
    """Build the demand for one VM, with further `group_hints`.

    The machine `last_resort` is used only if no other one fits; None: there is no such machine.
    """
    name = build_vm_name(vm_demand, pool, pool.pool, number)
    constraints = pool.constraints
    extra_hints = tuple(group_hints)
    if extra_hints:
        constraints = replace(constraints, hints=(*constraints.hints, *extra_hints))
    return Demand(name, pool.sku, constraints, last_resort)


Targets: TypeAlias = tuple[frozenset[str], frozenset[str]]


class ResourceTypeContext(Struct):
    """Context of resource types at one moment of a plan (a `ResourceContext`).

    `site_skus` are further SKUs by the id of their site.
    """

    skus: Mapping[str, VmSku]
    clusters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    find_targets: Callable[[str], Targets | None] = lambda _resource_id: None
    sites: Mapping[str, Sequence[Machine]] = field(default_factory=dict)
    site_skus: Mapping[str, Mapping[str, VmSku]] = field(default_factory=dict)

    def get_skus(self, site_id: str) -> Mapping[str, VmSku]:
        """Return the VM SKUs for VMs of a site by name: its own come first."""
        own_skus = self.site_skus.get(site_id)
        return {**self.skus, **own_skus} if own_skus else self.skus

    def find_sku(self, name: str, site_id: str = "") -> VmSku | None:
        """Return a VM SKU for VMs of a site by name."""
        return self.site_skus.get(site_id, {}).get(name) or self.skus.get(name)

    def list_sku_names(self, site_id: str = "") -> Sequence[str]:
        """Return the known SKU names for VMs of a site, sorted."""
        return sorted(self.get_skus(site_id))

    def find_cluster(self, cluster_id: str) -> Mapping[str, Any] | None:
        """Return the attributes of the cluster with this id."""
        return self.clusters.get(cluster_id)

    def find_hint_targets(self, resource_id: str) -> Targets | None:
        """Return the machines and racks of a hint's resource_id."""
        return self.find_targets(resource_id)

    def list_machines(self, site_id: str) -> Sequence[Machine] | None:
        """Return the machines of a site."""
        return self.sites.get(site_id)


def collect_vm_skus(
    request: PlanRequest, inventory: PlanInventory
) -> tuple[dict[str, VmSku], list[Diagnostic]]:
    """Return all VM SKUs by name, and the problems.

    They are those of the plan's catalogue and of the configuration.
    """
    version = get_catalogue_version(request)
    sku_catalogue = CATALOGUES.get(version)
    problems = []
    if sku_catalogue is None:
        known = ", ".join(sorted(CATALOGUES))
        detail = (
            f'There is no SKU catalogue "{version}".{suggest_name(version, CATALOGUES)} Known: '
            f"{known}."
        )
        span = request.configuration.settings.sku_catalogue_span
        problems.append(build_error("unknown-sku-catalogue", detail, span))
        # To check the rest of the configuration.
        sku_catalogue = CATALOGUES[NEWEST]
    return {**sku_catalogue.vm_skus, **_index_skus_by_name(inventory)}, problems


def get_catalogue_version(request: PlanRequest) -> str:
    """Return the version of the SKU catalogue.

    It is the configured one, else that recorded in state, else the newest.
    """
    return request.configuration.settings.sku_catalogue or request.state.catalogue or NEWEST


def build_prior_context(
    prior: PriorState,
    skus: Mapping[str, VmSku],
    types: Mapping[str, ResourceType],
    site_skus: Mapping[str, Mapping[str, VmSku]] = {},
) -> ResourceTypeContext:
    """Build the context to read arguments in state.

    It has the SKUs and clusters before the plan, the first one of each name.
    `site_skus` are current.
    """
    inventory = PlanInventory()
    clusters = dict[str, Mapping[str, Any]]()
    for address, current in prior.objects.items():
        resource_type = types.get(address.type)
        # An unknown type.
        if resource_type is None:
            continue
        if resource_type.kind is PlanningKind.CLUSTER:
            clusters.setdefault(resource_type.build_id(current.attributes), current.attributes)
        elif resource_type.kind is PlanningKind.VM_SKU:
            assert resource_type.add_to_inventory is not None
            resource_type.add_to_inventory(current.attributes, str(address), inventory)
    # A SKU in the configuration replaces the one in state.
    all_skus = {**_index_skus_by_name(inventory), **skus}
    # Existing VMs have their machines: their hints need no targets.
    return ResourceTypeContext(
        all_skus, clusters, lambda _resource_id: (frozenset(), frozenset()), site_skus=site_skus
    )


def build_recorded_context(
    prior: PriorState, types: Mapping[str, ResourceType]
) -> ResourceTypeContext:
    """Build the context to read arguments in state.

    It has the SKU catalogue recorded there, or else the newest.
    """
    return build_prior_context(
        prior, CATALOGUES.get(prior.state.catalogue, CATALOGUES[NEWEST]).vm_skus, types
    )


def build_inventory(
    objects: Iterable[tuple[Address, Mapping[str, Any]]], types: Mapping[str, ResourceType]
) -> PlanInventory:
    """Build the inventory offered by objects (their attributes by address).

    Unknown types offer nothing.
    """
    inventory = PlanInventory()
    typed = [
        (types[address.type], address, values)
        for address, values in objects
        if address.type in types
    ]
    # Sites before their racks.
    for resource_type, address, values in sorted(typed, key=lambda entry: entry[0].phase):
        if resource_type.add_to_inventory is not None:
            resource_type.add_to_inventory(values, str(address), inventory)
    return inventory


def build_object_inventory(
    objects: Iterable[tuple[Address, ObjectState | None]], types: Mapping[str, ResourceType]
) -> PlanInventory:
    """Build the inventory offered by recorded objects, by address.

    A missing object (None) offers nothing.
    """
    existing = [
        (address, current.attributes) for address, current in objects if current is not None
    ]
    return build_inventory(existing, types)


def list_machines(
    inventory: PlanInventory, *, includes_planned: bool = True
) -> frozenset[tuple[str, str]]:
    """Return the site id and name of every machine of the inventory on one of its sites.

    The machine may be schedulable or not. Without `includes_planned`, only machines of active
    racks are returned.
    """
    site_of_rack = {
        rack.id: rack.site_id
        for rack in inventory.racks.values()
        if includes_planned or not rack.is_planned
    }
    rack_machines = {
        (rack.site_id, machine.name)
        for rack in inventory.racks.values()
        for machine in rack.machines
        if rack.id in site_of_rack
    }
    own_machines = {
        (site_of_rack.get(offer.rack_id, ""), offer.machine.name)
        for offer in inventory.machines.values()
    }
    site_ids = inventory.list_site_ids()
    return frozenset(
        (site_id, name) for site_id, name in rack_machines | own_machines if site_id in site_ids
    )


class SiteObject(Struct, frozen=True):
    """One object: its address, attributes, creation number, and its type's private note.

    All of it is plain data.
    """

    address: Address
    attributes: Mapping[str, Any]
    creation: int
    note: Mapping[str, Any] | None = None


class SiteLayout(Struct, frozen=True):
    """Sites described by objects, by id and without VMs.

    `objects` are those of known types, in input order, with their type. `context` is the context
    of the objects' demands, with all VM SKUs.
    """

    sites: Mapping[str, SitePlan]
    objects: tuple[tuple[ResourceType, SiteObject], ...]
    context: ResourceTypeContext


def build_site_layout(
    objects: Iterable[SiteObject],
    registries: PluginRegistries,
    catalogue: str = "",
    lost_machines: Collection[tuple[str, str]] = (),
    recorded_machines: frozenset[tuple[str, str]] | None = None,
    *,
    as_listed: bool = False,
) -> SiteLayout:
    """Build the sites of objects, and the data to read their VMs.

    This data is the objects with their types, the SKUs and a context. `catalogue` is the
    version of the SKU catalogue; "" or an unknown one means the newest. `lost_machines` and
    `as_listed` are those of build_sites. `recorded_machines` are those in state (site id, name;
    None: all of the objects).
    """
    types = registries.resource_types
    # Of types known to this version.
    typed_objects = tuple(
        (types[site_object.address.type], site_object)
        for site_object in objects
        if site_object.address.mode == "managed" and site_object.address.type in types
    )
    inventory = PlanInventory()
    # Sites before their racks.
    for resource_type, site_object in sorted(typed_objects, key=lambda pair: pair[0].phase):
        if resource_type.add_to_inventory is not None:
            observed = add_observed_facts(site_object.attributes, site_object.note)
            resource_type.add_to_inventory(observed, str(site_object.address), inventory)
            add_recorded_vms(inventory, resource_type, site_object.attributes, site_object.note)
    if inventory.listings:
        inventory.recorded_machines = (
            list_machines(inventory, includes_planned=False)
            if recorded_machines is None
            else recorded_machines
        )
    catalogue_skus = (CATALOGUES.get(catalogue) or CATALOGUES[NEWEST]).vm_skus
    skus = {**catalogue_skus, **_index_skus_by_name(inventory)}
    # Hint targets are irrelevant here: all VMs are placed.
    context = ResourceTypeContext(
        skus, find_targets=lambda _id: (frozenset(), frozenset()), site_skus=inventory.site_skus
    )
    for resource_type, site_object in typed_objects:
        if resource_type.kind is PlanningKind.CLUSTER:
            context.clusters.setdefault(
                resource_type.build_id(site_object.attributes), site_object.attributes
            )
    # Machines described twice are reported by plans.
    sites, _ = build_sites(inventory, lost_machines=lost_machines, as_listed=as_listed)
    return SiteLayout(sites, typed_objects, context)
