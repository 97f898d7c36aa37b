"""Inventory of a plan: sites, racks, machines and SKUs.

Resource types add their entries; the planner builds one scheduler per site. A machine is identified
by (site, name), whichever resource describes it.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.doubts.doubt import Doubt
from nexusform.scheduling.listing.site_listing import LISTING_KEY, SiteListing
from nexusform.scheduling.racks.profile import SchedulerProfile
from nexusform.scheduling.racks.vms import DEFAULT_SEED, Machine, RackSpread, VmSku

# Key of the observed facts of machines in the note of a rack (by machine name) or machine.
OBSERVED_KEY: Final = "observed"


class MachineUpgradeStrategy(Struct, frozen=True):
    """Upgrade strategy of a site's machines.

    `pauses` means that the platform waits for confirmation after each rack. `max_unavailable` is
    the number of machines of a rack down at once (None: all). `threshold` is the number or
    percentage of a rack's machines to be ready again before the upgrade continues (None: unknown).
    `wait_minutes` is the wait after each rack.
    """

    pauses: bool = False
    max_unavailable: int | None = None
    is_percentage: bool = False
    threshold: int | None = None
    wait_minutes: int = 0


class SiteSettings(Struct, frozen=True):
    """Site with its scheduler settings, and the upgrade strategy of its machines if known."""

    id: str
    name: str
    spread: RackSpread = RackSpread.POOL
    seed: int = DEFAULT_SEED
    profile: SchedulerProfile | None = None
    update_strategy: MachineUpgradeStrategy | None = None


class InventoryRack(Struct, frozen=True):
    """Rack with its machines by name.

    A planned rack (`is_planned`) takes no VM yet.
    """

    id: str
    site_id: str
    name: str
    availability_zone: str
    is_planned: bool
    machines: tuple[Machine, ...]
    evacuating_machines: frozenset[str] = frozenset()


class OccupiedCapacity(Struct, frozen=True):
    """Capacity of a machine used by a VM outside nexusform.

    `cells` is the number of cells it spans; `cell_numbers` are () if unknown. `record` is as in
    VmSku. `platform_id` is its id in inventories of the platform, "" if unknown.
    """

    machine: str
    name: str
    cpu_cores: int
    memory_gib: float
    disk_gib: int = 0
    cells: int = 1
    cell_numbers: tuple[int, ...] = ()
    record: str = ""
    platform_id: str = ""


class InventoryMachine(Struct, frozen=True):
    """Separately described machine: replaces the one its rack creates in that slot, or adds one."""

    rack_id: str
    machine: Machine
    is_evacuating: bool = False
    occupied_capacities: tuple[OccupiedCapacity, ...] = ()


class PlanInventory(Struct):
    """Sites, racks, machines and SKUs of a plan, by the address (text) of their resource.

    `site_skus` are the SKUs that only one site has (by its id), by name: sites may have different
    ones of one name. `addresses_by_name` maps (kind, scope, name) to an address; the resource types
    maintain it, so duplicates and references are found at once. `unmanaged` are the VMs observed by
    a provider on machines of a site (by its id) without a resource. `pending_actions` are ids of
    machines with a pending action. `unread` are the facts of a site (by its id) that its documents
    have and nexusform does not read. `listings` are the racks and machines of a site (by its id) as
    its platform lists them, `recorded_machines` those in state (site id, name).
    """

    sites: dict[str, SiteSettings] = field(default_factory=dict)
    racks: dict[str, InventoryRack] = field(default_factory=dict)
    machines: dict[str, InventoryMachine] = field(default_factory=dict)
    skus: dict[str, VmSku] = field(default_factory=dict)
    site_skus: dict[str, dict[str, VmSku]] = field(default_factory=dict)
    addresses_by_name: dict[tuple[str, str, str | int], str] = field(default_factory=dict)
    unmanaged: dict[str, list[OccupiedCapacity]] = field(default_factory=dict)
    pending_actions: set[str] = field(default_factory=set)
    unread: dict[str, list[Doubt]] = field(default_factory=dict)
    listings: dict[str, SiteListing] = field(default_factory=dict)
    recorded_machines: frozenset[tuple[str, str]] = frozenset()

    def list_site_ids(self) -> frozenset[str]:
        """Return the ids of all sites."""
        return frozenset(site.id for site in self.sites.values())


def add_observed_facts(
    attributes: Mapping[str, Any], note: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return the attributes of a site, rack or machine with observed facts, for the inventory.

    The facts are in its private note.
    """
    if not note:
        return attributes
    facts = {key: note[key] for key in (OBSERVED_KEY, LISTING_KEY) if note.get(key)}
    return {**attributes, **facts} if facts else attributes


class MachineConflict(Struct, frozen=True):
    """Two descriptions of one machine name (or slot) on one site."""

    site_id: str
    name: str
    first: str
    second: str
    attribute: str = "name"


def merge_site_machines(
    site_id: str, racks: Iterable[InventoryRack], machines: Mapping[str, InventoryMachine]
) -> tuple[tuple[Machine, ...], tuple[MachineConflict, ...]]:
    """Return the machines of one site and the conflicts among them.

    Machines are ordered by rack name, slot and name. `machines` have their own resources
    (by address); each replaces the machine of its rack in the same slot. Of conflicting
    ones the first counts.
    """
    racks_of_site = {rack.id: rack for rack in racks if rack.site_id == site_id}
    described_slots, conflicts = _index_described_slots(site_id, racks_of_site, machines)
    # Each machine with its source: its own resource (an address) or its rack (an id).
    by_name: dict[str, tuple[Machine, str]] = {}
    for rack in sorted(racks_of_site.values(), key=lambda rack_of_site: rack_of_site.name):
        slots_of_rack = described_slots.get(rack.id, {})
        rack_machines = [
            (machine, rack.id) for machine in rack.machines if machine.slot not in slots_of_rack
        ]
        for machine, source in (*rack_machines, *slots_of_rack.values()):
            if machine.name in by_name:
                _, first_source = by_name[machine.name]
                conflicts.append(MachineConflict(site_id, machine.name, first_source, source))
            else:
                by_name[machine.name] = (machine, source)
    site_machines = (machine for machine, _ in by_name.values())
    sorted_machines = sorted(
        site_machines, key=lambda machine: (machine.rack, machine.slot, machine.name)
    )
    return tuple(sorted_machines), tuple(conflicts)


def _index_described_slots(
    site_id: str, rack_ids: Container[str], machines: Mapping[str, InventoryMachine]
) -> tuple[dict[str, dict[int, tuple[Machine, str]]], list[MachineConflict]]:
    """Return the machines with resources of their own in racks of the site.

    The result is by rack id and slot, and each machine comes with its address. Return conflicts of
    machines in one slot, too.
    """
    slots_by_rack: dict[str, dict[int, tuple[Machine, str]]] = {}
    conflicts: list[MachineConflict] = []
    for address, entry in sorted(machines.items()):
        if entry.rack_id not in rack_ids:
            continue
        slots = slots_by_rack.setdefault(entry.rack_id, {})
        _, first_address = slots.setdefault(entry.machine.slot, (entry.machine, address))
        if first_address != address:
            conflicts.append(
                MachineConflict(
                    site_id, entry.machine.name, first_address, address, attribute="slot"
                )
            )
    return slots_by_rack, conflicts
