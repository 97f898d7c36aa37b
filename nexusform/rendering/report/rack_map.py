"""Racks, machines and NUMA cells with their VMs before and after a plan, as drawn by maps.

VMs are numbered per site; machines list VM numbers in order of allocation.
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import compute_natural_sort_key, group_by
from nexusform.placements.vm_demands import PlacedVm, compute_number_sort_key
from nexusform.plans.impact.object_effects import Effect, compute_effect, describe_state
from nexusform.plans.plan import PlacementAction, PlacementChange, Plan
from nexusform.plans.site_capacity.occupancy import PoolVms, SiteMachine, SiteRack, SiteVms
from nexusform.rendering.report.placement_rows import (
    RECREATION_VERBS,
    describe_placement_effect,
    list_vm_rows,
)
from nexusform.scheduling.racks.vms import Machine, Placement, VmSku

# Pseudo cluster on maps: VMs described by `occupied` blocks.
OUTSIDE: Final = "(not managed here)"


class ChangeMark(StrEnum):
    """Change of a VM or machine by the plan.

    CHOICE: the platform chooses whether it removes this VM or another one of the pool.
    """

    KEPT = "kept"
    PLACED = "placed"
    MOVED = "moved"
    REMOVED = "removed"
    CHOICE = "choice"


# Change of a VM with the mark CHOICE.
MAY_BE_REMOVED: Final = "may be removed (Azure picks the VMs of the pool)"


class CertaintyLevel(StrEnum):
    """Certainty of the number of VMs on the rack of a VM over the samples, not of its machine.

    COUNT: the rack gets that many VMs of its pool in every sample. LIKELY: it does in at least half
    of them. UNCERTAIN: it does in fewer. UNKNOWN: no samples, or the plan does not place the VM.
    """

    UNKNOWN = ""
    COUNT = "count"
    LIKELY = "likely"
    UNCERTAIN = "uncertain"


_LIKELY_SHARE: Final = 0.5


class MapVm(Struct, frozen=True):
    """One VM; `row` is its row in the plan, or None.

    `before` and `after` are its locations on each side, or None.
    """

    name: str
    address: str
    cluster: str
    pool: str
    sku: VmSku
    mark: ChangeMark
    before: Placement | None
    after: Placement | None
    provenance: str = ""
    row: PlacementChange | None = None
    certainty: CertaintyLevel = CertaintyLevel.UNKNOWN

    @property
    def is_running_after(self) -> bool:
        """Whether the VM counts after the plan: of possible removals, as many as the plan makes."""
        return self.after is not None and not (self.row is not None and self.row.is_chosen_removal)

    @property
    def trigger(self) -> str:
        """The cause of the change of the VM, such as `scale_out`; "" if it is unchanged."""
        return self.row.trigger if self.row is not None else ""


class MapMachine(Struct, frozen=True):
    """A machine with the numbers of its VMs on each side.

    `mark` is PLACED if the machine is added, REMOVED if it is removed.
    """

    facts: Machine
    mark: ChangeMark
    before: tuple[int, ...]
    after: tuple[int, ...]


class MapRack(Struct, frozen=True):
    """A rack and its machines by slot; `planned` racks accept no VMs yet."""

    name: str
    zone: str
    planned: bool
    machines: tuple[MapMachine, ...]

    @property
    def zone_text(self) -> str:
        """`zone 2`; "" for a zone with the name of the rack."""
        return "" if self.zone == self.name else f"zone {self.zone}"


class SiteMap(Struct, frozen=True):
    """A site with racks in natural order of name and clusters in plan order (unmanaged VMs last).

    `is_current_only` maps show the current placement without a plan.
    """

    id: str
    name: str
    racks: tuple[MapRack, ...]
    vms: tuple[MapVm, ...]
    clusters: tuple[str, ...]
    is_current_only: bool = False

    @property
    def machine_count(self) -> int:
        """The number of machines."""
        return sum(len(rack.machines) for rack in self.racks)

    def count_vms(self, mark: ChangeMark) -> int:
        """Count the VMs with a mark."""
        return sum(vm.mark is mark for vm in self.vms)


def build_rack_maps(plan: Plan) -> tuple[SiteMap, ...]:
    """Build the map of every site in plan order.

    A map has the racks and machines with the VMs before and after the plan. For a plan with errors,
    the maps show the current VMs only, and omit sites without machines.
    """
    if plan.errored:
        current_maps = []
        for site in map(_restore_current_site, plan.site_records.sites):
            if site.machines:
                site_map = _map_site(site, rows={}, certain_racks=frozenset())
                current_maps.append(replace(site_map, is_current_only=True))
        return tuple(current_maps)
    # By resource and VM name.
    rows = group_by(list_vm_rows(plan), lambda row: (str(row.address), row.object))
    certain_racks: set[_PoolRack] = set()
    for table in plan.figures.placement_tables:
        certain_racks |= {(str(table.address), table.pool, rack) for rack in table.certain_racks}
    return tuple(_map_site(site, rows, certain_racks) for site in plan.site_records.sites)


def build_short_names(clusters: Sequence[str]) -> dict[str, str]:
    """Return a short name by cluster, for the boxes of its VMs.

    Its name without the prefix of all names. If one is empty or too long, use numbers instead. The
    entry OUTSIDE, for unmanaged VMs, has a dot.
    """
    names = [name for name in clusters if name != OUTSIDE]
    common_prefix = posixpath.commonprefix(names) if len(names) > 1 else ""
    # Only whole words are removed, up to the last separator: cluster-a10 and cluster-a11 give a10
    # and a11. 0 without a separator.
    prefix_length = max(common_prefix.rfind(separator) + 1 for separator in "-_. /")
    keys = {name: name[prefix_length:] for name in names}
    if not all(1 <= len(key) <= _MAX_KEY_LENGTH for key in keys.values()):
        keys = {name: str(number) for number, name in enumerate(keys, start=1)}
    if OUTSIDE in clusters:
        keys[OUTSIDE] = "\N{MIDDLE DOT}"
    return keys


_MAX_KEY_LENGTH: Final = 4


_VmKey: TypeAlias = tuple[str, str]  # address, name
# Address, pool, rack.
_PoolRack: TypeAlias = tuple[str, str, str]
_RowsByVm: TypeAlias = Mapping[_VmKey, list[PlacementChange]]


def _restore_current_site(site: SiteVms) -> SiteVms:
    """Return a site as it was before the plan.

    A plan with errors shows only this placement.
    """
    machines = []
    machine_names = set()
    rack_names = set()
    for machine in site.machines:
        if machine.exists_before:
            machines.append(replace(machine, exists_after=True))
            machine_names.add(machine.facts.name)
            rack_names.add(machine.facts.rack)
    # The VMs of a pool before the plan count as unchanged.
    pools = [
        replace(pool, unchanged=tuple(pool.before), removed=(), added=()) for pool in site.pools
    ]
    unmanaged_vms = [
        replace(vm, is_lost=False)
        for vm in site.unmanaged_vms
        if vm.placement.machine in machine_names
    ]
    return replace(
        site,
        racks=tuple(rack for rack in site.racks if rack.name in rack_names),
        machines=tuple(machines),
        pools=tuple(pools),
        unmanaged_vms=tuple(unmanaged_vms),
    )


def build_site_map(
    site_id: str,
    name: str,
    racks: Iterable[SiteRack],
    machines: Iterable[SiteMachine],
    vms: Sequence[MapVm],
) -> SiteMap:
    """Build the map of one site, with racks in natural order, and machines by slot.

    Racks may be known from their machines only. A machine has the positions in `vms` of its VMs
    before and after.
    """
    # Positions in `vms` by machine name.
    before = _index_vms_by_machine(vm.before for vm in vms)
    after = _index_vms_by_machine(vm.after for vm in vms)
    racks_by_name = {rack.name: rack for rack in racks}
    machines_by_rack: dict[str, list[MapMachine]] = {rack: [] for rack in racks_by_name}
    for machine in machines:
        machine_mark = ChangeMark.KEPT
        if not machine.exists_after:
            machine_mark = ChangeMark.REMOVED
        elif not machine.exists_before:
            machine_mark = ChangeMark.PLACED
        facts = machine.facts
        vms_on_sides = tuple(before.get(facts.name, ())), tuple(after.get(facts.name, ()))
        machines_by_rack.setdefault(facts.rack, []).append(
            MapMachine(facts, machine_mark, *vms_on_sides)
        )
    map_racks: list[MapRack] = []
    for rack_name in sorted(machines_by_rack, key=compute_natural_sort_key):
        # "": unknown zone.
        rack = racks_by_name.get(rack_name, SiteRack(rack_name, zone=""))
        by_slot = sorted(
            machines_by_rack[rack_name],
            key=lambda machine: (machine.facts.slot, machine.facts.name),
        )
        map_racks.append(MapRack(rack.name, rack.zone, rack.is_planned, tuple(by_slot)))
    return SiteMap(
        site_id, name, tuple(map_racks), tuple(vms), tuple(dict.fromkeys(vm.cluster for vm in vms))
    )


def _index_vms_by_machine(placements: Iterable[Placement | None]) -> dict[str, list[int]]:
    """Return the positions of the placements by machine.

    A placement is None if the VM does not exist on this side.
    """
    numbers: dict[str, list[int]] = {}
    for number, placement in enumerate(placements):
        if placement is not None:
            numbers.setdefault(placement.machine, []).append(number)
    return numbers


def _map_site(site: SiteVms, rows: _RowsByVm, certain_racks: AbstractSet[_PoolRack]) -> SiteMap:
    """Build the map of a site, with unmanaged VMs.

    On `certain_racks`, a pool has one number of VMs in all samples.
    """
    # VMs of a newly read inventory existed before, so none of them is placed.
    unmanaged = [
        MapVm(
            name=vm.name,
            address="",
            cluster=OUTSIDE,
            pool="",
            sku=vm.sku,
            mark=ChangeMark.REMOVED if vm.is_lost else ChangeMark.KEPT,
            before=vm.placement,
            after=None if vm.is_lost else vm.placement,
        )
        for vm in site.unmanaged_vms
    ]
    vms = [*_list_managed_vms(site, rows, certain_racks), *unmanaged]
    return build_site_map(site.id, site.name, site.racks, site.machines, vms)


def _list_managed_vms(
    site: SiteVms, rows: _RowsByVm, certain_racks: AbstractSet[_PoolRack]
) -> Iterator[MapVm]:
    """Yield each VM existing before or after the plan once, by pool and number.

    The certainty of its location is yielded with it. `rows` are the placement changes of a VM by
    its key (address and name); a kept VM may have none. In `certain_racks` a pool has the same
    number of VMs in every sample.
    """
    # Each VM before the plan, with its pool.
    old: dict[_VmKey, tuple[PoolVms, PlacedVm]] = {}
    # After the plan.
    new: dict[_VmKey, tuple[PoolVms, PlacedVm]] = {}
    for pool in site.pools:
        old.update((_build_vm_key(pool, vm), (pool, vm)) for vm in pool.before)
        new.update((_build_vm_key(pool, vm), (pool, vm)) for vm in pool.after)
    # A VM that is both removed and added has two keys.
    keys: list[_VmKey] = []
    for pool in site.pools:
        vms = (*pool.unchanged, *pool.removed, *pool.added)
        ordered_vms = sorted(vms, key=lambda pool_vm: compute_number_sort_key(pool_vm.number))
        keys += [_build_vm_key(pool, pool_vm) for pool_vm in ordered_vms]
    # Of pools (address, name) the platform chooses the VMs to remove.
    shrunk_pools = {
        (address, row.pool)
        for (address, _), vm_rows in rows.items()
        for row in vm_rows
        if row.chosen_by
    }
    for key in dict.fromkeys(keys):
        vm = _build_vm(old.get(key), new.get(key), rows.get(key, ()))
        is_possibly_removed = vm.mark in (ChangeMark.KEPT, ChangeMark.REMOVED)
        if (vm.address, vm.pool) in shrunk_pools and is_possibly_removed:
            # Which VMs leave is unknown, so each one stays on the map.
            vm = replace(vm, mark=ChangeMark.CHOICE, after=vm.before)
        yield replace(vm, certainty=_compute_location_certainty(vm, certain_racks))


def _compute_location_certainty(vm: MapVm, certain_racks: AbstractSet[_PoolRack]) -> CertaintyLevel:
    """Compute the certainty of the new location of a VM, from repeated runs of the placement.

    These runs are samples. `certain_racks` have the same number of VMs of a pool in every sample:
    then the level is COUNT. Otherwise the share of samples with this number on its rack decides.
    The level is UNKNOWN if the plan does not place it, or has no samples.
    """
    if vm.row is None or vm.row.certainty is None or vm.after is None or vm.mark is ChangeMark.KEPT:
        return CertaintyLevel.UNKNOWN
    if (vm.address, vm.pool, vm.after.rack) in certain_racks:
        return CertaintyLevel.COUNT
    return (
        CertaintyLevel.LIKELY
        if vm.row.certainty.rack_count >= _LIKELY_SHARE
        else CertaintyLevel.UNCERTAIN
    )


def _build_vm_key(pool: PoolVms, vm: PlacedVm) -> _VmKey:
    return str(pool.address), vm.name


_Side: TypeAlias = "tuple[PoolVms, PlacedVm] | None"


def _build_vm(before: _Side, after: _Side, rows: Sequence[PlacementChange]) -> MapVm:
    """Build a VM from its sides before and after, one of them maybe None, and the rows of its name.

    A side is a pool and a VM.
    """
    latest_side = after or before
    assert latest_side is not None, "a VM exists before or after the plan"
    pool, vm = latest_side
    old = before[1].placement if before else None
    new = after[1].placement if after else None
    row = _find_vm_row(rows, old, new)
    return MapVm(
        name=vm.display_name,
        address=str(pool.address),
        cluster=pool.cluster,
        pool=pool.pool,
        sku=pool.sku,
        mark=_compute_mark(old, new, row),
        before=old,
        after=new,
        provenance=vm.provenance,
        row=row,
    )


def _find_vm_row(
    rows: Sequence[PlacementChange], before: Placement | None, after: Placement | None
) -> PlacementChange | None:
    """Find the row of the plan about a VM among all rows with its name; None without any.

    `before` and `after` are its locations, None if it does not exist then.
    """
    # A cluster replaced on another site has two rows per name: one of the removed VM, one of
    # the new VM.
    actions: tuple[PlacementAction, ...] = ()
    if after is None:
        actions = (PlacementAction.REMOVE, PlacementAction.LOSE)
    elif before is None:
        actions = (PlacementAction.PLACE,)
    for row in rows:
        if row.action in actions:
            return row
    return rows[0] if rows else None


def _compute_mark(
    before: Placement | None, after: Placement | None, row: PlacementChange | None
) -> ChangeMark:
    """Compute the mark of a VM: MOVED also if it is re-created at the same location."""
    if before is None:
        return ChangeMark.PLACED
    if after is None:
        return ChangeMark.REMOVED
    if before != after:
        return ChangeMark.MOVED
    is_recreated = row is not None and row.action in (PlacementAction.MOVE, PlacementAction.PLACE)
    return ChangeMark.MOVED if is_recreated else ChangeMark.KEPT


def describe_vm_outcome(vm: MapVm) -> str:
    """Return the effect of the plan on a VM, such as `host lost`.

    Return "" if its mark on the map is enough.
    """
    if vm.mark is ChangeMark.CHOICE:
        return MAY_BE_REMOVED
    # The VM is unchanged or unmanaged; an unmanaged VM can only lose its host.
    if vm.row is None:
        return _EFFECT_TEXTS[Effect.LOST] if vm.mark is ChangeMark.REMOVED else ""
    effect = compute_effect(vm.row)
    # A forgotten VM stays, too.
    if vm.mark is ChangeMark.KEPT and effect is not Effect.FORGOTTEN:
        return ""
    # In place, but with the mark of a move.
    if effect is Effect.RECREATED:
        return describe_placement_effect(effect, describe_state(vm.row))
    # Such a change re-creates all VMs of a pool.
    if effect is Effect.MOVED and vm.row.trigger in RECREATION_VERBS:
        return _RECREATED_WITH_POOL
    return _EFFECT_TEXTS.get(effect, "")


_RECREATED_WITH_POOL: Final = "re-created with its pool"
# Effects without a mark of their own.
_EFFECT_TEXTS: Final = {Effect.LOST: "host lost", Effect.FORGOTTEN: "forgotten, still runs"}
