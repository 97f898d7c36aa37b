"""Whether the placement rows of a plan are what its changes do to the VMs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from nexusform.address import Address
from nexusform.demands import PlacedVm
from nexusform.placement_kinds.placement_kind import VM
from nexusform.plain_data import has_unknown
from nexusform.planning.conclusion.placements import OBSERVED_ELSEWHERE, REASONS
from nexusform.planning.conclusion.step_graph import MachineUse
from nexusform.planning.plan import Action, Change, PlacementAction, PlacementChange, Plan
from nexusform.planning.vms.vm_object import ROLLING
from nexusform.ports import Kind, ResourceType
from nexusform.scheduling.racks.vms import Placement

_FRESH = frozenset({"new", "scale_out"})  # triggers of VMs that were not there before
_GOES = PlacementAction.REMOVE
_WITHOUT_TARGET = (PlacementAction.REMOVE, PlacementAction.LOSE)
# No step of a plan does anything to these.
_STAYING = (PlacementAction.KEEP, PlacementAction.LOSE, PlacementAction.FORGET)
_COMES = (PlacementAction.PLACE, PlacementAction.MOVE)


class ChangedVms(Struct, frozen=True):
    """The VMs of one change before and after it, by name, and the rows about them. The sites are those
    that the ids of the object begin with. `waiting` stand without a machine before it.
    """

    change: Change
    before: Mapping[str, PlacedVm]
    after: Mapping[str, PlacedVm]
    rows: Sequence[PlacementChange]
    waiting: frozenset[str] = frozenset()

    @property
    def site_before(self) -> str:
        """The site of the VMs that stood."""
        return _site_of(self.change.before)

    @property
    def site_after(self) -> str:
        """The site of the VMs that will stand."""
        return _site_of(self.change.after)

    def makes_room(self) -> bool:
        """Whether VMs leave, or are placed anew, before anything takes their room."""
        return any(_leaves_early(row) for row in self.rows)

    def use(self, makers: Mapping[tuple[str, str, str], str]) -> MachineUse:
        """The machines of these VMs; `makers` are the addresses of what offers (site, rack, machine), of a
        rack as such under the machine "".
        """
        held = set()
        left_early = set()
        for vm in self.before.values():
            held.add((self.site_before, vm.placement.rack, vm.placement.machine))
        for row in self.rows:
            if isinstance(row.source, Placement) and _leaves_early(row):
                left_early.add((self.site_before, row.source.machine))
        taken = set()
        made_by = set()
        for row in self.rows:
            if isinstance(row.target, Placement) and row.action in _COMES:
                rack, machine = row.target.rack, row.target.machine
                taken.add((self.site_after, machine))
                # A machine without a resource of its own is made by its rack.
                maker_of_rack = makers.get((self.site_after, rack, ""), "")
                made_by.add(makers.get((self.site_after, rack, machine), maker_of_rack))
        create_first = self.change.action is Action.REPLACE_CREATE_FIRST
        return MachineUse(
            frozenset(held), frozenset(left_early), frozenset(taken), frozenset(made_by), create_first
        )


def _leaves_early(row: PlacementChange) -> bool:
    """Whether the VM of a row stands and leaves before the new ones come: a rolling one leaves later."""
    return row.action not in _STAYING and row.trigger not in (*_FRESH, ROLLING)


def _site_of(values: Mapping[str, Any] | None) -> str:
    """The site that the id of an object begins with, "" where it has none."""
    return str((values or {}).get("id", "")).partition("/")[0]


def changed_vms(plan: Plan, types: Mapping[str, ResourceType]) -> dict[Address, ChangedVms]:
    """The VMs of every change of a type that has some."""
    rows: dict[Address, list[PlacementChange]] = {}
    for row in plan.placements:
        if row.kind == VM:
            rows.setdefault(row.address, []).append(row)
    changed = {}
    for change in plan.changes:
        family = types[change.address.type].vms
        if family is None or change.deposed:
            continue
        before = {vm.name: vm for vm in family.standing(change.before or {})}
        after = {vm.name: vm for vm in family.standing(change.after or {})}
        waiting = frozenset(str(each.get("name")) for each in family.unplaced(change.before or {}).values())
        own_rows = rows.get(change.address, ())
        changed[change.address] = ChangedVms(change, before, after, own_rows, waiting)
    return changed


def makers_of_machines(plan: Plan, types: Mapping[str, ResourceType]) -> dict[tuple[str, str, str], str]:
    """The addresses of racks and machines after the plan, by (site, rack, machine or "")."""
    makers = {}
    for change in plan.changes:
        if change.after is not None and types[change.address.type].kind in (Kind.RACK, Kind.MACHINE):
            site, _, inside_site = str(change.after.get("id")).partition("/")
            rack, _, machine = inside_site.partition("/")
            makers[site, rack, machine] = str(change.address)
    return makers


def row_problems(plan: Plan, changed: Mapping[Address, ChangedVms]) -> Iterator[str]:
    """What is wrong with the rows, a sentence each."""
    for row in plan.placements:
        if row.kind == VM and row.address not in changed:
            yield f'A VM "{row.object}" is shown at {row.address}, which has none.'
    for vms in changed.values():
        if vms.change.action is Action.FORGET:
            continue
        if has_unknown([_place(vm) for vm in vms.after.values()]):
            yield f"The places of the VMs of {vms.change.address} are not known."
            continue
        for row in vms.rows:
            yield from _row_problems(vms, row)
        yield from _missing_rows(vms)


def _place(vm: PlacedVm) -> list[Any]:
    """What a row says of where a VM is; any of it may be unknown."""
    place = vm.placement
    return [vm.pool, vm.number, place.machine, place.rack, place.availability_zone, list(place.cells)]


def _row_problems(vms: ChangedVms, row: PlacementChange) -> Iterator[str]:
    """Where a row does not say of its VM what the change does with it."""
    where = f'the VM "{row.object}" of {row.address}'
    if row.action is PlacementAction.UPDATE:
        yield f"What happens to {where} is not what happens to VMs."
        return
    yield from _misplaced(vms, row, where)
    goes = row.action in _WITHOUT_TARGET
    vm = vms.before.get(row.object) if goes else vms.after.get(row.object)
    if vm is not None and (row.pool, row.number) != (vm.pool, vm.number):
        yield f"It shows {where} in another pool or under another number."
    if row.site_id != (vms.site_before if goes else vms.site_after):
        yield f"It shows {where} on another site."
    has_trigger = row.action is not PlacementAction.KEEP or _tells_elsewhere(row)
    if row.reason != REASONS.get(row.trigger, "") or bool(row.trigger) != has_trigger:
        yield f"It gives another reason for {where} than its trigger."


def _misplaced(vms: ChangedVms, row: PlacementChange, where: str) -> Iterator[str]:
    """Where a row shows its VM coming from, or going to, another place than it does."""
    before, after = vms.before.get(row.object), vms.after.get(row.object)
    has_source = row.action in (*_WITHOUT_TARGET, PlacementAction.MOVE, PlacementAction.KEEP)
    has_target = row.action not in _WITHOUT_TARGET
    source = before.placement if before is not None and has_source else None
    target = after.placement if after is not None and has_target else None
    source_differs = row.source != source and not _tells_elsewhere(row)
    nowhere = has_source and source is None and row.object not in vms.waiting
    if source_differs or nowhere:
        yield f"It says of {where} that it stood elsewhere."
    if row.target != target or (has_target and target is None):
        yield f"It shows {where} elsewhere than it is placed."


def _tells_elsewhere(row: PlacementChange) -> bool:
    """Whether it tells that a VM stands elsewhere than state has it."""
    return row.action is PlacementAction.KEEP and row.trigger == OBSERVED_ELSEWHERE


def _missing_rows(vms: ChangedVms) -> Iterator[str]:
    """VMs that come or go, or do so twice, without a row that shows it."""
    goes = [row.object for row in vms.rows if row.action is _GOES]
    comes = [row.object for row in vms.rows if row.action in _COMES]
    moved = {row.object for row in vms.rows if row.action is PlacementAction.MOVE}
    yield from _twice(vms, goes)
    yield from _twice(vms, comes)
    anew = vms.change.action in (Action.REPLACE, Action.REPLACE_CREATE_FIRST)
    leaving = vms.before if anew else _not_among(vms.before, vms.after)
    for name in leaving:
        if name not in goes and name not in moved:
            yield f'It does not show that the VM "{name}" of {vms.change.address} leaves.'
    coming = vms.after if anew else _not_among(vms.after, vms.before)
    for name in coming:
        if name not in comes:
            yield f'It does not show that the VM "{name}" of {vms.change.address} is placed.'


def _not_among(vms: Mapping[str, PlacedVm], vms_across: Mapping[str, PlacedVm]) -> list[str]:
    """The names of VMs that do not stand, or stand elsewhere, on the other side of the plan."""
    return [name for name, vm in vms.items() if name not in vms_across or _elsewhere(vm, vms_across[name])]


def _twice(vms: ChangedVms, names: Iterable[str]) -> Iterator[str]:
    """Which of these names of VMs, one of each row, stand in more rows than one."""
    shown = set()
    for name in names:
        if name in shown:
            yield f'It shows the VM "{name}" of {vms.change.address} twice.'
        shown.add(name)


def _elsewhere(vm: PlacedVm, across: PlacedVm) -> bool:
    """Whether a VM stands on another machine, or in other cells, than `across`: itself on the other side of
    the plan. Rack and zone do not count: they may change around a machine.
    """
    place, place_across = vm.placement, across.placement
    return (place.machine, place.cells) != (place_across.machine, place_across.cells)
