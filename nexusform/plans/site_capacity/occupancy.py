"""Site records of a plan: machines, their VMs before and after, spare capacity, and outages.

The records are frozen and part of a saved plan: readers of a plan compute none of it again. Counts
for reports (changed racks, shared machines) are computed here, too. Outages are those of a
hypothetical plan: the VMs return to their machines, nothing is placed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import astuple, replace

from nexusform.diagnostics.phrases import compute_natural_sort_key, group_by
from nexusform.doubts.doubt import Doubt, build_doubt_rows, read_doubt_rows
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.json_data.plain_data import get_list
from nexusform.placements.vm_demands import PlacedVm
from nexusform.plans.maintenance import compute_quorum
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import (
    Interval,
    Machine,
    MachineStatus,
    Placement,
    UnschedulableReason,
    VmSku,
)
from nexusform.scheduling.site_inventory import OccupiedCapacity, PlanInventory
from nexusform.schemas.block_schema import FORGOTTEN_KEY, UNMANAGED_KEY, UNREAD_KEY


class PoolVms(Struct, frozen=True):
    """VMs of one pool of a resource with the same SKU.

    `unchanged` VMs run before and after the plan, `removed` ones only before, `added` ones only
    after: a VM that moves is in both, under one name. Each is ordered by number.
    """

    address: Address
    cluster: str
    pool: str
    sku: VmSku
    unchanged: tuple[PlacedVm, ...] = ()
    removed: tuple[PlacedVm, ...] = ()
    added: tuple[PlacedVm, ...] = ()

    @property
    def before(self) -> Iterator[PlacedVm]:
        """VMs before the plan."""
        yield from self.unchanged
        yield from self.removed

    @property
    def after(self) -> Iterator[PlacedVm]:
        """VMs after the plan."""
        yield from self.unchanged
        yield from self.added

    @property
    def machines_before(self) -> dict[str, str]:
        """Machines of the VMs before the plan, by name of the VM."""
        return {vm.name: vm.placement.machine for vm in self.before}

    @property
    def machines_after(self) -> dict[str, str]:
        """Machines of the VMs after the plan, by name of the VM."""
        return {vm.name: vm.placement.machine for vm in self.after}


class UnmanagedVm(Struct, frozen=True):
    """VM not managed by nexusform.

    It has the capacity of an `occupied` block, or the used capacity seen by a provider. `is_lost`
    means that it was forgotten, and the plan removes its machine.
    """

    name: str
    sku: VmSku
    placement: Placement
    is_lost: bool = False


class SiteRack(Struct, frozen=True):
    """Rack after the plan, or before it if the plan deletes it.

    `is_planned` racks take no VM yet.
    """

    name: str
    zone: str
    is_planned: bool = False


class SiteMachine(Struct, frozen=True):
    """Machine after the plan, or before it if the plan deletes it.

    It also has the sides on which it exists, and whether it is off or not ready before the plan.
    """

    facts: Machine
    exists_before: bool = True
    exists_after: bool = True
    was_down: bool = False


class SiteVms(Struct, frozen=True):
    """Site with all its VMs in plan order.

    After errors it also has the VMs that the plan would have placed.
    """

    id: str
    name: str
    racks: tuple[SiteRack, ...] = ()
    machines: tuple[SiteMachine, ...] = ()
    pools: tuple[PoolVms, ...] = ()
    unmanaged_vms: tuple[UnmanagedVm, ...] = ()

    @property
    def is_removed(self) -> bool:
        """Whether the plan removes all machines of the site."""
        return bool(self.machines) and not any(machine.exists_after for machine in self.machines)

    @property
    def lost_unmanaged_count(self) -> int:
        """Number of unmanaged VMs that lose their machine."""
        return sum(vm.is_lost for vm in self.unmanaged_vms)


class SpareCapacity(Struct, frozen=True):
    """Spare capacity of a site for one VM SKU at one moment, with no other VMs placed.

    `free` VMs fit; `free_after_rack_loss` of them remain if the rack with the most of them is lost
    (`worst_rack`, "" if no rack has any): the VMs of a lost rack are not re-created elsewhere. If
    the cells of VMs are unknown these are minimums, and `maximum_free` and
    `maximum_free_after_rack_loss` fit in the split with the most capacity (None: the same).
    `clusters` are those with a pool of the SKU, in the plan's order, and `no_surge_clusters` those
    without capacity for the surge VMs of an upgrade; for `uncertain_surge_clusters` that depends
    on unknown cells, or on the VMs that the platform removes. Then `surge_conditions` has a clause
    for a cluster: `fits only if a-p-3 leaves r1-bm01`, or `fits if ...` if other choices do, too.
    """

    free: int
    free_after_rack_loss: int
    worst_rack: str = ""
    clusters: tuple[str, ...] = ()
    no_surge_clusters: tuple[str, ...] = ()
    maximum_free: int | None = None
    maximum_free_after_rack_loss: int | None = None
    uncertain_surge_clusters: tuple[str, ...] = ()
    surge_conditions: tuple[tuple[str, str], ...] = ()

    @property
    def free_interval(self) -> Interval:
        """Minimum and maximum number of further VMs.

        They are equal if all NUMA cells are known.
        """
        return Interval(self.free, self.free if self.maximum_free is None else self.maximum_free)

    @property
    def free_interval_after_rack_loss(self) -> Interval:
        """Minimum and maximum number of further VMs with any one rack lost.

        Both are equal if all NUMA cells are known.
        """
        minimum = self.free_after_rack_loss
        maximum = self.maximum_free_after_rack_loss
        return Interval(minimum, minimum if maximum is None else maximum)


class SiteSkuCapacity(Struct, frozen=True):
    """Capacity of one site for one VM SKU of `cells` NUMA cells.

    `before` or `after` is None if the site does not exist then. Machine actions run one after
    another; `missing_meanwhile` VMs fewer than `after` fit during one of them.
    """

    site_id: str
    site: str
    sku: str
    cells: int
    before: SpareCapacity | None = None
    after: SpareCapacity | None = None
    missing_meanwhile: int = 0

    @property
    def new_no_surge_clusters(self) -> frozenset[str]:
        """Clusters without surge capacity after the plan only."""
        if self.after is None:
            return frozenset()
        before = self.before.no_surge_clusters if self.before is not None else ()
        return frozenset(self.after.no_surge_clusters).difference(before)


def select_largest_sku_rows(
    rows: Iterable[SiteSkuCapacity],
) -> list[tuple[SiteSkuCapacity, SpareCapacity]]:
    """Return the row of the largest VM SKU of each remaining site.

    It is the site's first row, with the capacity after the plan.
    """
    largest_rows: dict[str, tuple[SiteSkuCapacity, SpareCapacity]] = {}
    for row in rows:
        if row.after is not None:
            largest_rows.setdefault(row.site_id, (row, row.after))
    return list(largest_rows.values())


class MachineVmCount(Struct, frozen=True):
    """VMs on one machine.

    The count is None on a side without the machine. `is_closed` machines take no new VM. With
    `may_lose` the platform chooses whether VMs leave: `after` is the maximum.
    """

    before: int | None
    after: int | None
    is_closed: bool
    may_lose: bool = False


class RackVmCounts(Struct, frozen=True):
    """Rack with its machines by slot; `removed_count` VMs of before the plan leave it."""

    site: str
    name: str
    machines: tuple[MachineVmCount, ...]
    removed_count: int

    @property
    def existed_before(self) -> bool:
        """Whether the rack has a machine before the plan."""
        return any(machine.before is not None for machine in self.machines)


class OutOfService(Struct, frozen=True):
    """Compute machine of a site, closed to new VMs."""

    site_id: str
    site: str
    machine: str
    status: MachineStatus
    # At least one.
    reasons: tuple[UnschedulableReason, ...]

    @property
    def main_reason(self) -> UnschedulableReason:
        """Reason with the lowest rank."""
        return min(self.reasons, key=lambda reason: reason.rank)


def list_out_of_service(sites: Iterable[SiteVms]) -> Iterator[OutOfService]:
    """Yield the machines out of service after the plan, by site and rack.

    Planned racks are left out.
    """
    for site in sites:
        planned_racks = {rack.name for rack in site.racks if rack.is_planned}
        for machine in site.machines:
            facts = machine.facts
            if not machine.exists_after or facts.rack in planned_racks:
                continue
            # A machine in service has no status.
            if facts.status is not None:
                yield OutOfService(
                    site.id, site.name, facts.name, facts.status, facts.unschedulable_reasons
                )


def list_changed_racks(
    sites: Iterable[SiteVms], shrunk_pools: AbstractSet[tuple[str, str]] = frozenset()
) -> tuple[RackVmCounts, ...]:
    """Return the racks with added or removed VMs.

    The racks with the most removed VMs come first, then they are ordered by name. The
    platform chooses the VMs to remove of `shrunk_pools` (address, name), so each of their
    racks may lose some.
    """
    racks = chain.from_iterable(_list_site_changes(site, shrunk_pools) for site in sites)
    return tuple(
        sorted(
            racks,
            key=lambda rack: (-rack.removed_count, rack.site, compute_natural_sort_key(rack.name)),
        )
    )


def _list_site_changes(
    site: SiteVms, shrunk_pools: AbstractSet[tuple[str, str]]
) -> list[RackVmCounts]:
    """Return the racks of a site with added or removed VMs.

    The numbers of VMs on each of their machines are returned as well.
    """
    unchanged, removed, added, possibly_removed = _count_vms_by_machine(site, shrunk_pools)
    racks = []
    for rack, members in group_by(site.machines, lambda machine: machine.facts.rack).items():
        names = [machine.facts.name for machine in members]
        if any(removed[name] or added[name] or possibly_removed[name] for name in names):
            members.sort(
                key=lambda machine: (
                    machine.facts.slot,
                    compute_natural_sort_key(machine.facts.name),
                )
            )
            counts = []
            for machine in members:
                name = machine.facts.name
                staying = unchanged[name] + possibly_removed[name]
                before = staying + removed[name] if machine.exists_before else None
                after = staying + added[name] if machine.exists_after else None
                counts.append(
                    MachineVmCount(
                        before,
                        after,
                        bool(machine.facts.unschedulable_reason),
                        may_lose=possibly_removed[name] > 0,
                    )
                )
            removed_count = sum(removed[name] for name in names)
            racks.append(RackVmCounts(site.name, rack, tuple(counts), removed_count))
    return racks


def _count_vms_by_machine(
    site: SiteVms, shrunk_pools: AbstractSet[tuple[str, str]]
) -> tuple[Counter[str], Counter[str], Counter[str], Counter[str]]:
    """Count unchanged, removed, added and possibly removed VMs by machine.

    Unmanaged VMs on a deleted machine count as removed.
    """
    unchanged = Counter[str]()
    removed = Counter[str]()
    added = Counter[str]()
    possibly_removed = Counter[str]()
    for vm in site.unmanaged_vms:
        counter = removed if vm.is_lost else unchanged
        counter[vm.placement.machine] += 1
    for pool in site.pools:
        added.update(_list_machine_of_each_vm(pool.added))
        if (str(pool.address), pool.pool) in shrunk_pools:
            # A moved VM leaves its machine for certain.
            moved = {vm.name for vm in pool.added}
            staying = [vm for vm in pool.before if vm.name not in moved]
            leaving = [vm for vm in pool.removed if vm.name in moved]
            possibly_removed.update(_list_machine_of_each_vm(staying))
            removed.update(_list_machine_of_each_vm(leaving))
            continue
        unchanged.update(_list_machine_of_each_vm(pool.unchanged))
        removed.update(_list_machine_of_each_vm(pool.removed))
    return unchanged, removed, added, possibly_removed


def select_without_new_sharing(sites: Iterable[SiteVms]) -> frozenset[str]:
    """Return the addresses of resources without added VMs on shared machines.

    After the plan, no added VM has another VM of the resource on its machine. Two unchanged VMs on
    one machine do not count.
    """
    # VMs by resource, and by site and machine.
    vms_after: dict[str, Counter[tuple[str, str]]] = {}
    # Site and machine of added VMs, by resource.
    added: dict[str, set[tuple[str, str]]] = {}
    for site in sites:
        for pool in site.pools:
            address = str(pool.address)
            arrivals = [(site.id, machine) for machine in _list_machine_of_each_vm(pool.added)]
            unchanged = [(site.id, machine) for machine in _list_machine_of_each_vm(pool.unchanged)]
            vms_after.setdefault(address, Counter()).update([*arrivals, *unchanged])
            added.setdefault(address, set()).update(arrivals)
    return frozenset(
        address
        for address, machines in added.items()
        if all(vms_after[address][machine] <= 1 for machine in machines)
    )


def _list_machine_of_each_vm(vms: Iterable[PlacedVm]) -> list[str]:
    """Return the machines of VMs, one entry per VM."""
    return [vm.placement.machine for vm in vms]


def add_recorded_vms(
    inventory: PlanInventory,
    kind: ResourceType,
    attributes: Mapping[str, Any],
    note: Mapping[str, Any] | None,
) -> None:
    """Add the unmanaged VMs recorded in the note of a rack or machine to the inventory.

    The note is private data in state.
    """
    for site_id, unmanaged_vm in read_recorded_vms(kind, attributes, note):
        inventory.unmanaged.setdefault(site_id, []).append(unmanaged_vm)


def add_unread_facts(
    inventory: PlanInventory, attributes: Mapping[str, Any], note: Mapping[str, Any] | None
) -> None:
    """Add the unread facts recorded in the note of a site to the inventory."""
    rows = get_list(note, UNREAD_KEY)
    if rows:
        facts = inventory.unread.setdefault(str(attributes["id"]), [])
        facts += read_doubt_rows(rows)


def build_unread_note(facts: Iterable[Doubt]) -> Mapping[str, Any]:
    """Build the note of a site with its unread facts, private data in state; empty without any."""
    rows = build_doubt_rows(facts)
    return {UNREAD_KEY: rows} if rows else {}


def read_recorded_vms(
    resource_type: ResourceType, attributes: Mapping[str, Any], note: Mapping[str, Any] | None
) -> list[tuple[str, OccupiedCapacity]]:
    """Return (site id, VM) for each unmanaged VM in the note of a rack or machine, else [].

    The note is private data in state.
    """
    rows = [*get_list(note, UNMANAGED_KEY), *get_list(note, FORGOTTEN_KEY)]
    if not rows or resource_type.kind not in {PlanningKind.RACK, PlanningKind.MACHINE}:
        return []
    rack_id = str(attributes.get("id" if resource_type.kind is PlanningKind.RACK else "rack_id"))
    site_id = rack_id.partition("/")[0]  # of SITE/RACK
    # A row has the first fields of OccupiedCapacity, then a list of cell numbers, if known:
    # tuple(*[]) is ().
    return [
        (site_id, replace(OccupiedCapacity(*row[:_FIELDS]), cell_numbers=tuple(*row[_FIELDS:])))
        for row in rows
    ]


def build_unmanaged_vms_note(vms: Iterable[OccupiedCapacity]) -> Mapping[str, Any]:
    """Build the note of a rack or machine with its unmanaged VMs, a row for each one.

    The note is private data in state. A row has the first six fields of OccupiedCapacity; the list
    of its cells follows, unless they are unknown. Example: `{"unmanaged": [["bm01", "vm1", 8, 32,
    100, 2, [0, 1]]]}` is a VM of 8 cores, 32 GiB of memory and 100 GiB of disk in the cells 0 and
    1 of bm01.
    """
    rows: list[list[Any]] = []
    for vm in vms:
        row = list(astuple(vm)[:_FIELDS])
        if vm.cell_numbers:
            row.append(list(vm.cell_numbers))
        rows.append(row)
    return {UNMANAGED_KEY: rows}


# Of such a row, before the numbers of the cells.
_FIELDS: Final = 6


class VmOwnerKind(StrEnum):
    """Kind of the owner of VMs: an NKS cluster, a plain VM, or another group of VMs (a VNF)."""

    NKS = "nks"
    VM = "vm"
    GROUP = "group"


# Kinds of owners by resource type; other types own a group.
_OWNER_KINDS: Final = {
    "nexus_kubernetes_cluster": VmOwnerKind.NKS,
    "nexus_agent_pool": VmOwnerKind.NKS,
    "nexus_virtual_machine": VmOwnerKind.VM,
}


def get_owner_kind(resource_type: str) -> VmOwnerKind:
    """Return the kind of the owner of the VMs of a resource type."""
    return _OWNER_KINDS.get(resource_type, VmOwnerKind.GROUP)


class PoolAvailability(Struct, frozen=True):
    """Pool with VMs down.

    `already_down` is the number of its VMs on other machines that are down now. `position` is that
    of the pool among all pools of the site, in order of creation.
    """

    cluster_id: str
    cluster: str
    kind: VmOwnerKind
    pool: str
    address: Address
    is_control_plane: bool
    total: int
    down_vms: tuple[PlacedVm, ...]
    already_down: int = 0
    position: int = 0

    @property
    def quorum(self) -> int:
        """Number of VMs that must be up; 0 unless it is a control plane."""
        return compute_quorum(self.total) if self.is_control_plane else 0

    @property
    def down_count(self) -> int:
        """Number of VMs down at once."""
        return len(self.down_vms) + self.already_down

    @property
    def remaining_count(self) -> int:
        """Number of VMs up."""
        return self.total - self.down_count

    @property
    def is_lost(self) -> bool:
        """Whether availability is lost: no quorum, or no remaining node of the pool.

        A plain VM has no redundancy by nature: its outage is reported, but is no finding.
        """
        return self.kind is not VmOwnerKind.VM and self.remaining_count < max(self.quorum, 1)


class Outage(Struct, frozen=True):
    """Machines of a site that are down together; `pools` have VMs on them, in order of creation.

    `name` is the name of the outage in reports, `number` its order from 1.
    """

    site_id: str
    number: int
    name: str
    machines: tuple[str, ...]
    pools: tuple[PoolAvailability, ...]


class PoolOutcome(StrEnum):
    """Result of outages for a pool."""

    KEPT = "kept"
    INTERRUPTED = "interrupted"
    LOST = "lost"


class PoolOutages(Struct, frozen=True):
    """Outages with VMs of one pool down; `pools` has the pool in each of them."""

    outages: tuple[Outage, ...]
    pools: tuple[PoolAvailability, ...]

    @property
    def worst(self) -> PoolAvailability:
        """The pool in the first outage with the fewest VMs up."""
        return min(self.pools, key=lambda pool: pool.remaining_count)

    @property
    def losses(self) -> tuple[Outage, ...]:
        """Outages in which the pool is lost."""
        rows = zip(self.outages, self.pools, strict=True)
        return tuple(outage for outage, pool in rows if pool.is_lost)

    @property
    def outcome(self) -> PoolOutcome:
        """Result for the pool.

        A VM outside of clusters is never lost: an outage interrupts it.
        """
        if self.losses:
            return PoolOutcome.LOST
        is_plain_vm = self.worst.kind is VmOwnerKind.VM
        return PoolOutcome.INTERRUPTED if is_plain_vm else PoolOutcome.KEPT


def group_outages_by_pool(outages: Iterable[Outage]) -> tuple[PoolOutages, ...]:
    """Return the outages of each pool with VMs down, pools of a site in order of creation."""
    rows = [(outage, pool) for outage in outages for pool in outage.pools]
    rows.sort(key=lambda row: (row[0].site_id, row[1].position))
    groups = group_by(rows, lambda row: (row[0].site_id, row[1].position))
    return tuple(
        PoolOutages(
            outages=tuple(outage for outage, _ in group), pools=tuple(pool for _, pool in group)
        )
        for group in groups.values()
    )


def group_vms_down_by_cluster(pools: Iterable[PoolAvailability]) -> dict[str, list[PlacedVm]]:
    """Return the VMs of these pools that are down, by cluster id."""
    down: dict[str, list[PlacedVm]] = {}
    for pool in pools:
        down.setdefault(pool.cluster_id, []).extend(pool.down_vms)
    return down
