"""The inventory as a plan sees it: sites, racks and their machines, SKUs.

Resource types put in what they offer; the planner turns it into one scheduler per site. A machine
is (site, name), whoever describes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from nexusform.scheduling.racks.vms import DEFAULT_SEED, Machine, RackSpread, VmSku


class UpdateStrategy(Struct, frozen=True):
    """How the platform upgrades a site's machines: whether it waits for a word after each rack, how many
    machines of a rack are down at once (None: all), the share or number of a rack's machines that must come
    back for it to go on (None: not told), and how long it waits after each rack.
    """

    pauses: bool = False
    max_unavailable: int | None = None
    is_percentage: bool = False
    threshold: int | None = None
    wait_minutes: int = 0


class SiteOffer(Struct, frozen=True):
    """A site, how its scheduler decides, and how its machines are upgraded where that is told."""

    id: str
    name: str
    spread: RackSpread = RackSpread.POOL
    seed: int = DEFAULT_SEED
    update_strategy: UpdateStrategy | None = None


class RackOffer(Struct, frozen=True):
    """A rack: `planned` racks take no VM yet; machines by name."""

    id: str
    site_id: str
    name: str
    availability_zone: str
    planned: bool
    machines: tuple[Machine, ...]
    evacuating: frozenset[str] = frozenset()


class Occupied(Struct, frozen=True):
    """Capacity of a machine held by a VM outside nexusform. `cells` is how many it spans;
    `cell_numbers` () = nobody told which.
    """

    machine: str
    name: str
    cpu_cores: int
    memory_gib: int
    disk_gib: int = 0
    cells: int = 1
    cell_numbers: tuple[int, ...] = ()


class MachineOffer(Struct, frozen=True):
    """A machine described on its own: it replaces the one its rack makes in that slot, or adds one."""

    rack_id: str
    machine: Machine
    evacuating: bool = False
    occupied: tuple[Occupied, ...] = ()


class Inventory(Struct):
    """What phases 1 to 3 of a plan offer, by address of the resource that offers it (text).

    `taken` says which address has a name: (kind, where, name) -> address. The types that offer keep
    it, so that duplicates and references are found at once. `unmanaged` are the VMs that a provider saw on
    machines of a site (by its id) and that nothing stands for.
    """

    sites: dict[str, SiteOffer] = field(default_factory=dict)
    racks: dict[str, RackOffer] = field(default_factory=dict)
    machines: dict[str, MachineOffer] = field(default_factory=dict)
    skus: dict[str, VmSku] = field(default_factory=dict)
    taken: dict[tuple[str, str, str | int], str] = field(default_factory=dict)
    unmanaged: dict[str, list[Occupied]] = field(default_factory=dict)

    def site_ids(self) -> frozenset[str]:
        """Ids of all sites on offer."""
        return frozenset(s.id for s in self.sites.values())


class MachineClash(Struct, frozen=True):
    """Two descriptions of one machine name (or slot) on one site."""

    site_id: str
    name: str
    first: str
    second: str
    what: str = "name"


def site_machines(
    site_id: str, racks: Iterable[RackOffer], machines: Mapping[str, MachineOffer]
) -> tuple[tuple[Machine, ...], tuple[MachineClash, ...]]:
    """The machines of one site in order of rack name, slot and name, and the clashes among them.

    `machines` are the separately described ones by address.
    """
    racks_of_site = {rack.id: rack for rack in racks if rack.site_id == site_id}
    # Each machine with what describes it: its own resource (an address) or its rack (an id).
    by_name: dict[str, tuple[Machine, str]] = {}
    clashes: list[MachineClash] = []
    described: dict[tuple[str, int], tuple[Machine, str]] = {}
    for address, offer in sorted(machines.items()):
        rack = racks_of_site.get(offer.rack_id)
        if rack is None:
            continue
        slot = (rack.id, offer.machine.slot)
        if slot in described:
            clashes.append(MachineClash(site_id, offer.machine.name, described[slot][1], address, "slot"))
            continue
        described[slot] = (offer.machine, address)
    for rack in sorted(racks_of_site.values(), key=lambda r: r.name):
        of_rack = [
            (machine, rack.id) for machine in rack.machines if (rack.id, machine.slot) not in described
        ]
        described_alone = [entry for (rack_id, _), entry in described.items() if rack_id == rack.id]
        for machine, source in of_rack + described_alone:
            if machine.name in by_name:
                clashes.append(MachineClash(site_id, machine.name, by_name[machine.name][1], source))
                continue
            by_name[machine.name] = (machine, source)
    in_order = [machine for machine, _ in by_name.values()]
    in_order.sort(key=lambda machine: (machine.rack, machine.slot, machine.name))
    return tuple(in_order), tuple(clashes)
