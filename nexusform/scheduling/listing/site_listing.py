"""Racks and machines of a site as its platform lists them, against those of the configuration.

A provider that reads a site records the list in the private note of the site. It is never planned:
the configuration decides what nexusform manages. A difference makes every answer about the site
uncertain, since the platform places VMs on what it lists.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Any, Final

from msgspec import Struct, convert, field, json
from msgspec.structs import replace

from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    enclose,
    format_count,
    format_first_items,
    format_list,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.scheduling.racks.vms import Machine, UnschedulableReason
from nexusform.schemas.value_types import (
    BOOL,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    TupleType,
)

# Key of the list in the note of a site.
LISTING_KEY: Final = "listed"
NOT_CONFIGURED: Final = "not in the configuration"
NOT_LISTED: Final = "not on the site"
COMPUTE_PLANE: Final = "compute-plane"
_MAX_NAMES: Final = 4


class MachineSize(Struct, frozen=True, array_like=True):
    """NUMA cells of a machine, vCPUs and GiB of memory per cell, and GiB of disk."""

    cells: int
    cpus_per_cell: int
    memory_gib_per_cell: int
    disk_gib: int


class ListedVm(Struct, frozen=True, array_like=True):
    """VM on a listed machine: its name, vCPUs, GiB of memory and disk, and number of cells."""

    name: str
    cpu_cores: int
    memory_gib: int
    disk_gib: int
    numa_cells: int


class ListedMachine(Struct, frozen=True, array_like=True):
    """Listed machine.

    `sku_id` is the platform's name of its hardware, `sku` that of the catalogue, "" if unknown;
    `size` is None for unknown hardware. `roles` are short names. `vms` are those of no resource.
    """

    name: str
    rack: str
    slot: int
    sku_id: str = ""
    sku: str = ""
    size: MachineSize | None = None
    roles: tuple[str, ...] = ()
    vms: tuple[ListedVm, ...] = ()

    @property
    def is_compute(self) -> bool:
        """Whether its roles let it run VMs; True for unknown roles."""
        return not self.roles or COMPUTE_PLANE in self.roles


class SiteMaintenance(Struct, frozen=True, array_like=True):
    """Runtime upgrade or another interruption of a site, as its platform reports it.

    `status` is the platform's word. `current_racks` are interrupted now, `next_racks` go next.
    """

    status: str
    message: str = ""
    current_racks: tuple[str, ...] = ()
    next_racks: tuple[str, ...] = ()


class SiteListing(Struct, frozen=True, omit_defaults=True, dict=True):
    """Racks (zones by name) and machines of a site as its platform lists them.

    `is_complete` means that whatever is not listed does not exist, except machines of the
    racks in `incomplete_racks`.
    """

    racks: Mapping[str, str | None] = field(default_factory=dict)
    machines: tuple[ListedMachine, ...] = ()
    is_complete: bool = True
    incomplete_racks: tuple[str, ...] = ()
    maintenance: SiteMaintenance | None = None

    def lacks(self, machine: Machine) -> bool:
        """Return whether a machine is not on the site."""
        if not self.is_complete or machine.rack in self.incomplete_racks:
            return False
        return machine.name not in self._machine_names

    @cached_property
    def _machine_names(self) -> frozenset[str]:
        return frozenset(machine.name for machine in self.machines)


_LISTED_VM: Final = TupleType((STRING, *[NUMBER] * 4))
_LISTED_MACHINE: Final = TupleType(
    (
        STRING,
        STRING,
        NUMBER,
        STRING,
        STRING,
        TupleType((NUMBER,) * 4),
        ListType(STRING),
        ListType(_LISTED_VM),
    )
)
# Of a SiteListing in a note.
LISTING_TYPE: Final = ObjectType.create(
    {
        "racks": MapType(STRING),
        "machines": ListType(_LISTED_MACHINE),
        "is_complete": BOOL,
        "incomplete_racks": ListType(STRING),
        "maintenance": TupleType((STRING, STRING, ListType(STRING), ListType(STRING))),
    }
)


def build_listing_note(listing: SiteListing) -> Mapping[str, Any]:
    """Build the entry of a listing in the note of a site."""
    # Lists instead of tuples, as in a state.
    return {LISTING_KEY: json.decode(json.encode(listing))}


def read_listing(recorded: Any) -> SiteListing | None:
    """Read the listing in the note of a site, which has the type LISTING_TYPE; None without one."""
    if recorded is None:
        return None
    members = {name: member for name, member in recorded.items() if member is not None}
    # False: a whole number may be 2.0.
    return convert(members, SiteListing, strict=False)


class DifferenceKind(StrEnum):
    """Kind of a difference between a site as listed and as configured."""

    NOT_CONFIGURED = "not_configured"
    RENAMED = "renamed"
    NOT_LISTED = "not_listed"
    HARDWARE = "hardware"
    UNKNOWN_HARDWARE = "unknown_hardware"
    ROLES = "roles"
    MAINTENANCE = "maintenance"


# Kinds that change which VMs fit where.
_CAPACITY_KINDS: Final = frozenset(
    {
        DifferenceKind.NOT_CONFIGURED,
        DifferenceKind.RENAMED,
        DifferenceKind.NOT_LISTED,
        DifferenceKind.HARDWARE,
        DifferenceKind.UNKNOWN_HARDWARE,
    }
)


class ListedDifference(Struct, frozen=True):
    """Difference of a site: the sentence `text` is about `racks` and `machines`."""

    kind: DifferenceKind
    text: str
    racks: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()


class ListedSite(Struct, frozen=True):
    """Differences of a site as listed by its platform and as configured.

    `capacity` are clauses on its spare capacity as listed; the last stage of planning adds them.
    """

    site_id: str
    site: str
    differences: tuple[ListedDifference, ...]
    capacity: tuple[str, ...] = ()

    @property
    def changes_capacity(self) -> bool:
        """Whether the platform has other machines than the configuration."""
        return any(difference.kind in _CAPACITY_KINDS for difference in self.differences)

    @property
    def lacks_hardware(self) -> bool:
        """Whether the hardware of a listed machine is unknown."""
        kinds = {difference.kind for difference in self.differences}
        return DifferenceKind.UNKNOWN_HARDWARE in kinds

    def list_doubts(self) -> Iterator[Doubt]:
        """Yield the doubts about the hosts of VMs and about the capacity of the site."""
        doubt = Doubt("site", self.site_id, site_id=self.site_id)
        if self.changes_capacity:
            reason = "the site is listed with differences"
            yield replace(doubt, may_change=Influence.CHOICE, reason=reason)
        if self.lacks_hardware:
            reason = "the hardware of a listed machine is unknown"
            yield replace(doubt, may_change=Influence.CAPACITY, reason=reason)


LISTED_TITLE: Final = "The site as Azure lists it"


def describe_listed_sites(sites: Iterable[ListedSite]) -> Iterator[str]:
    """Yield a line per difference, and one on the capacity of a site as listed."""
    for site in sites:
        for sentence in list_site_sentences(site):
            yield f"{site.site}: {sentence}"


def list_site_sentences(site: ListedSite) -> Iterator[str]:
    """Yield a sentence per difference of a site, and those on its certainty and capacity."""
    for difference in site.differences:
        yield f"{difference.text}."
    if site.changes_capacity:
        condition = "the blocks match"
        if site.lacks_hardware:
            kinds = {difference.kind for difference in site.differences} & _CAPACITY_KINDS
            rest = " and the blocks match" if len(kinds) > 1 else ""
            condition = f"the hardware is known{rest}"
        sentence = f"nothing on this site is exact until {condition}"
        yield f"{'; '.join((*site.capacity, sentence))}."


def compare_listing(
    listing: SiteListing,
    machines: Mapping[str, Machine],
    racks: Collection[str],
    recorded_roles: Mapping[str, Collection[str]],
) -> tuple[ListedDifference, ...]:
    """Compare a listing with the machines (by name) and racks of the plan.

    `recorded_roles` are those in state by machine name. A configuration without any rack or machine
    describes no hardware: then only maintenance is a difference.
    """
    differences: list[ListedDifference] = []
    if machines or racks:
        differences += _compare_machines(listing, machines, racks)
        differences += _compare_hardware(listing, machines)
        differences += _compare_roles(listing, recorded_roles)
    if listing.maintenance is not None:
        differences.append(_describe_maintenance(listing.maintenance))
    return tuple(differences)


def _compare_machines(
    listing: SiteListing, machines: Mapping[str, Machine], racks: Collection[str]
) -> Iterator[ListedDifference]:
    """Yield the differences of existence: renamed, unconfigured and unlisted racks and machines."""
    listed = {machine.name: machine for machine in listing.machines}
    old_names = find_replacements(listing, machines)
    unlisted = {
        name: machine
        for name, machine in machines.items()
        if name not in listed and name not in old_names.values()
    }
    unconfigured = {
        name: machine
        for name, machine in listed.items()
        if name not in machines and name not in old_names
    }
    if old_names:
        yield _describe_replaced([(old, listed[name]) for name, old in old_names.items()])
    new_racks = sorted(listing.racks.keys() - set(racks), key=compute_natural_sort_key)
    if unconfigured or new_racks:
        yield _describe_unconfigured(unconfigured, new_racks)
    unlisted = {name: machine for name, machine in unlisted.items() if listing.lacks(machine)}
    missing_racks = []
    if listing.is_complete:
        missing_racks = sorted(set(racks) - listing.racks.keys(), key=compute_natural_sort_key)
    if unlisted or missing_racks:
        names = sorted(unlisted, key=compute_natural_sort_key)
        subject = _format_machines(names) if names else format_count(len(missing_racks), "rack")
        verb = select_word_form(len(names or missing_racks), "is", "are")
        listed_names = [
            format_first_items(group, _MAX_NAMES) for group in (missing_racks, names) if group
        ]
        yield ListedDifference(
            DifferenceKind.NOT_LISTED,
            f"{subject} {verb} not on the site "
            f"({join_texts(listed_names, ': ')}): remove "
            f"{select_word_form(len(names or missing_racks), 'its block', 'their blocks')}, or "
            "wait until the site lists "
            f"{select_word_form(len(names or missing_racks), 'it', 'them')}",
            tuple(missing_racks),
            tuple(names),
        )


def find_replacements(listing: SiteListing, machines: Mapping[str, Machine]) -> dict[str, str]:
    """Return the name of the configured machine that each listed machine replaces, in its place.

    The configured one is not listed, the listed one is not configured. `machines` are by name.
    """
    listed_names = {machine.name for machine in listing.machines}
    by_place = {
        (machine.rack, machine.slot): name
        for name, machine in machines.items()
        if name not in listed_names
    }
    replacements: dict[str, str] = {}
    for machine in sorted(listing.machines, key=lambda item: compute_natural_sort_key(item.name)):
        # Only one new machine replaces the old one.
        place = (machine.rack, machine.slot)
        if machine.name not in machines and place in by_place:
            replacements[machine.name] = by_place.pop(place)
    return replacements


def _describe_replaced(replaced: Sequence[tuple[str, ListedMachine]]) -> ListedDifference:
    """Describe configured machines with another machine in their place, as (old name, new)."""
    places = [
        (f"{old_name} ({machine.rack}, slot {machine.slot})", machine.name)
        for old_name, machine in replaced
    ]
    if len(places) == 1:
        ((place, name),) = places
        text = f"{place} was replaced by {name}: write that name in its block"
    else:
        pairs = format_first_items(
            [f"{place} by {name}" for place, name in places], _MAX_NAMES, "; "
        )
        text = (
            f"{len(places):,} machines were replaced by others: {pairs}; write those names in "
            "their blocks"
        )
    names = chain.from_iterable((old_name, machine.name) for old_name, machine in replaced)
    return ListedDifference(DifferenceKind.RENAMED, text, machines=tuple(names))


def _format_machines(names: Collection[str]) -> str:
    return format_count(len(names), "machine")


def _describe_unconfigured(
    machines: Mapping[str, ListedMachine], racks: Collection[str]
) -> ListedDifference:
    """Describe machines and racks that the site has and the configuration has not."""
    names = sorted(machines, key=compute_natural_sort_key)
    rack_names = sorted(
        {*racks, *(machine.rack for machine in machines.values())}, key=compute_natural_sort_key
    )
    place = f" ({format_first_items(rack_names, _MAX_NAMES)})"
    vm_count = sum(len(machine.vms) for machine in machines.values())
    vms = format_count(vm_count, "unmanaged VM") if vm_count else ""
    count = len(names) or len(rack_names)
    subject = _format_machines(names) if names else format_count(len(rack_names), "rack")
    blocks = [
        enclose("nexus_rack ", format_first_items(list(racks), _MAX_NAMES)),
        enclose("nexus_bare_metal_machine ", format_first_items(names, _MAX_NAMES)),
    ]
    uses = ""
    if any(machine.is_compute for machine in machines.values()):
        uses = f"; Azure will use {select_word_form(count, 'it', 'them')}"
    return ListedDifference(
        DifferenceKind.NOT_CONFIGURED,
        f"{subject}{place} {select_word_form(count, 'is', 'are')} not in the configuration{uses}"
        f"{enclose('; running there: ', vms)}"
        f"; blocks to add: {join_texts(blocks, '; ')} (`nexusform import` writes them)",
        tuple(racks),
        tuple(names),
    )


def _compare_hardware(
    listing: SiteListing, machines: Mapping[str, Machine]
) -> Iterator[ListedDifference]:
    """Yield the compute machines with other or unknown hardware, those of equal names together.

    A machine with a `machine` block has figures of its own, so it is not compared.
    """
    changed: list[tuple[str, str, str]] = []
    unknown: list[ListedMachine] = []
    for listed in listing.machines:
        machine = machines.get(listed.name)
        has_own_figures = machine is not None and machine.machine_sku is None
        if not listed.is_compute or has_own_figures:
            continue
        if machine is None:
            unknown += [listed] if listed.size is None else []
        elif not listed.sku:
            unknown.append(listed)
        elif machine.machine_sku != listed.sku:
            changed.append((listed.name, str(machine.machine_sku), listed.sku))
    for (configured, sku), rows in group_by(changed, lambda row: row[1:]).items():
        names = tuple(name for name, _, _ in rows)
        yield ListedDifference(
            DifferenceKind.HARDWARE,
            f"{_format_machines(names)} ({format_first_items(names, _MAX_NAMES)}) "
            f"{select_word_form(len(names), 'has', 'have')} other hardware than configured: "
            f'{configured} -> {sku}; write machine_sku = "{sku}"',
            machines=names,
        )
    for sku_id, unknown_machines in group_by(unknown, lambda item: item.sku_id).items():
        names = tuple(item.name for item in unknown_machines)
        yield ListedDifference(
            DifferenceKind.UNKNOWN_HARDWARE,
            f"{_format_machines(names)} ({format_first_items(names, _MAX_NAMES)}) "
            f"{select_word_form(len(names), 'has', 'have')} unknown hardware"
            f"{enclose(' (', sku_id, ')')}, so the capacity is unknown: set machine_sku_by_id in "
            "the provider block",
            machines=names,
        )


def _compare_roles(
    listing: SiteListing, recorded_roles: Mapping[str, Collection[str]]
) -> Iterator[ListedDifference]:
    """Yield one difference with all machines that have other roles than recorded."""
    clauses: list[str] = []
    names: list[str] = []
    for machine in listing.machines:
        before = sorted(recorded_roles.get(machine.name, ()))
        if before and before != sorted(machine.roles):
            roles = format_list(sorted(machine.roles)) or "none"
            clauses.append(f"{machine.name} {format_list(before)} -> {roles}")
            names.append(machine.name)
    if clauses:
        yield ListedDifference(
            DifferenceKind.ROLES,
            f"the roles of {_format_machines(names)} changed: "
            f"{format_first_items(clauses, _MAX_NAMES, '; ')}",
            machines=tuple(names),
        )


_MAINTENANCE: Final[Mapping[str, str]] = {
    "Updating": "a runtime upgrade is in progress",
    "UpdatePaused": "a runtime upgrade is paused",
    "Provisioning": "machines are being provisioned",
    "Disconnected": "the site is disconnected from Azure: what is listed may be old",
}


def _describe_maintenance(maintenance: SiteMaintenance) -> ListedDifference:
    fact = _MAINTENANCE.get(maintenance.status, "the site is not in service")
    clauses = [f"{fact} (status {maintenance.status})"]
    if maintenance.current_racks:
        clauses.append(f"now {format_first_items(maintenance.current_racks, _MAX_NAMES)}")
    if maintenance.next_racks:
        clauses.append(f"next {format_first_items(maintenance.next_racks, _MAX_NAMES)}")
    return ListedDifference(
        DifferenceKind.MAINTENANCE,
        f"{'; '.join(clauses)}{enclose(': ', maintenance.message.rstrip('.'))}",
        (*maintenance.current_racks, *maintenance.next_racks),
    )


def build_unconfigured_machines(
    listing: SiteListing, known_names: Container[str], machines: Iterable[Machine]
) -> Iterator[Machine]:
    """Yield the listed machines without a known name, closed to new VMs.

    Their VMs stay there. One that replaces a machine that is gone, of `machines`, takes its VMs.
    """
    gone = {
        machine.name: machine
        for machine in machines
        if UnschedulableReason(NOT_LISTED) in machine.unschedulable_reasons
    }
    replacements = find_replacements(listing, gone)
    for listed in listing.machines:
        if listed.name in known_names:
            continue
        reasons: tuple[UnschedulableReason, ...] = (UnschedulableReason(NOT_CONFIGURED),)
        if listed.name in replacements:
            reasons = _find_role_reasons(listed)
        yield _build_machine(listed, listing, reasons)


def close_machine_as_listed(
    listing: SiteListing | None, machine: Machine, *, is_recorded: bool
) -> Machine:
    """Return a machine, closed to new VMs if the platform's list says so.

    A machine in state is closed if it is gone: not in a complete list. One that is not in state yet
    has no roles: those of the list count.
    """
    if listing is None:
        return machine
    reasons = machine.unschedulable_reasons
    if is_recorded and listing.lacks(machine):
        reasons = (UnschedulableReason(NOT_LISTED), *reasons)
    elif not is_recorded and not reasons:
        for listed in listing.machines:
            if listed.name == machine.name:
                reasons = _find_role_reasons(listed)
    return replace(machine, unschedulable_reasons=reasons)


def build_listed_machines(listing: SiteListing, machines: Iterable[Machine]) -> tuple[Machine, ...]:
    """Return the machines of a site as listed, for its capacity.

    `machines` are the configured and unconfigured ones. A configured one keeps its facts and gets
    the listed hardware; an unconfigured one takes VMs, if its roles allow it. If the list is
    complete, others are left out.
    """
    listed_machines = {listed.name: listed for listed in listing.machines}
    result: list[Machine] = []
    for machine in machines:
        listed = listed_machines.get(machine.name)
        if listed is None:
            result += [] if listing.lacks(machine) else [machine]
        elif machine.unschedulable_reasons == (UnschedulableReason(NOT_CONFIGURED),):
            result.append(replace(machine, unschedulable_reasons=_find_role_reasons(listed)))
        elif machine.machine_sku is not None and listed.sku not in ("", machine.machine_sku):
            result.append(_set_size(machine, listed))
        else:
            result.append(machine)
    return tuple(result)


def _find_role_reasons(listed: ListedMachine) -> tuple[UnschedulableReason, ...]:
    return () if listed.is_compute else (UnschedulableReason("not a compute-plane machine"),)


def _set_size(machine: Machine, listed: ListedMachine) -> Machine:
    if listed.size is None:
        return machine
    return replace(
        machine,
        machine_sku=listed.sku or None,
        cells=listed.size.cells,
        cpus_per_cell=listed.size.cpus_per_cell,
        memory_gib_per_cell=listed.size.memory_gib_per_cell,
        disk_gib=listed.size.disk_gib,
    )


def _build_machine(
    listed: ListedMachine, listing: SiteListing, reasons: tuple[UnschedulableReason, ...]
) -> Machine:
    """Build a listed machine; one of unknown hardware has no capacity."""
    size = listed.size or MachineSize(1, 0, 0, 0)
    return Machine(
        name=listed.name,
        rack=listed.rack,
        availability_zone=listing.racks.get(listed.rack) or listed.rack,
        slot=listed.slot,
        machine_sku=listed.sku or None,
        cells=size.cells,
        cpus_per_cell=size.cpus_per_cell,
        memory_gib_per_cell=size.memory_gib_per_cell,
        disk_gib=size.disk_gib,
        unschedulable_reasons=reasons,
        roles=listed.roles,
    )


def collect_recorded_roles(
    objects: Iterable[tuple[str, Mapping[str, Any]]],
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the recorded roles of machines by site and name.

    `objects` are the types and attributes in state.
    """
    roles: dict[str, dict[str, tuple[str, ...]]] = {}
    for resource_type, attributes in objects:
        if resource_type == "nexus_bare_metal_machine":
            site_id = str(attributes.get("id")).partition("/")[0]
            roles.setdefault(site_id, {})[str(attributes.get("name"))] = tuple(
                attributes.get("roles") or ()
            )
    return roles
