"""A law of conservation: every VM, binding and pod that stood before a plan is accounted for after it.

Each of them stays, moves, is made anew in its place, leaves, loses its machine, or is forgotten. What the
rows of a plan say is held against both sides of its changes: a plan whose sums do not add up would
tell its reader something that is not so, and is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PlacedVm
from nexusform.diagnostics import Diagnostic, error
from nexusform.placement_kinds.kinds import KINDS, VM, kind_order
from nexusform.planning.vms.sites import SitePlan
from nexusform.plans.impact.effects import Effect, effect_of
from nexusform.plans.plan import (
    Action,
    Change,
    PlacementAction,
    PlacementChange,
    PlacementTotal,
)
from nexusform.ports import ResourceType

_DISMISSED: Final = (PlacementAction.REMOVE, PlacementAction.FORGET)

Names: TypeAlias = Counter[str]  # what objects of one kind are called; of several clusters they may repeat
Types: TypeAlias = Mapping[str, ResourceType]
Attributes: TypeAlias = Mapping[str, Any]


class Accounts(Struct, frozen=True):
    """The totals, and what of them does not add up, a sentence each."""

    totals: tuple[PlacementTotal, ...]
    mistakes: tuple[str, ...] = ()


def accounts(
    changes: Iterable[Change],
    rows: Iterable[PlacementChange],
    types: Types,
    sites: Mapping[str, SitePlan] | None = None,
    shown: Mapping[Address, Attributes] | None = None,
) -> Accounts:
    """What becomes of every object. `sites` are those on which VMs stand afterwards, where they are known:
    no VM stays on a machine that is not there. `shown` are attributes that data sources show: the bindings
    there stood, whatever state holds.
    """
    rows_of: dict[tuple[Address, str], list[PlacementChange]] = {}
    for row in rows:
        rows_of.setdefault((row.address, row.kind), []).append(row)
    sums: dict[str, _Sums] = {}
    mistakes: list[str] = []
    for change in changes:
        kind_of_type = types.get(change.address.type)
        if change.deposed or kind_of_type is None:
            continue
        for kind in kinds_held(kind_of_type):
            own_rows = rows_of.pop((change.address, kind), [])
            of_kind = sums.setdefault(kind, _Sums())
            side = change.before
            if shown is not None and KINDS[kind].shown:
                side = shown.get(change.address, side)
            before = names_of(kind, kind_of_type, side)
            mistakes += of_kind.take(change, kind, kind_of_type, own_rows, before)
            if kind == VM and sites is not None:
                mistakes += _ghosts(change, kind_of_type, own_rows, sites)
    mistakes += [f"{address} has rows of kind {kind} and no object of it." for address, kind in rows_of]
    totals = tuple(sums[kind].total(kind) for kind in sorted(sums, key=kind_order) if sums[kind].anything)
    return Accounts(totals, tuple(mistakes))


def imbalance(mistakes: Iterable[str]) -> Iterator[Diagnostic]:
    """The error for a plan that does not account for what stands."""
    for mistake in mistakes:
        detail = (
            f"{mistake} This is a mistake of nexusform, not of the configuration: such a plan would say "
            "something that is not so, and it is not made. Nothing was changed. Please report it with the "
            "configuration and the state."
        )
        yield error("plan-does-not-account-for-everything", detail)
        return


def kinds_held(resource_type: ResourceType) -> tuple[str, ...]:
    """What the objects of a type hold."""
    return (VM,) if resource_type.vms is not None else resource_type.holds


# --- one object --------------------------------------------------------------------------------


class _Sums(Struct):
    # What becomes of the objects of one kind, as far as they are counted.
    before: int = 0
    comes: int = 0
    leaves: int = 0
    lost: int = 0
    forgotten: int = 0
    moves: int = 0
    recreated: int = 0
    stays: int = 0

    @property
    def anything(self) -> bool:
        return bool(self.before or self.comes)

    def total(self, kind: str) -> PlacementTotal:
        after = self.stays + self.moves + self.recreated + self.comes
        return PlacementTotal(
            kind,
            before=self.before,
            stays=self.stays,
            moves=self.moves,
            recreated=self.recreated,
            leaves=self.leaves,
            loses_machine=self.lost,
            forgotten=self.forgotten,
            comes=self.comes,
            after=after,
        )

    def take(
        self,
        change: Change,
        kind: str,
        resource_type: ResourceType,
        rows: list[PlacementChange],
        before: Names,
    ) -> Iterator[str]:
        """Count what one object holds, which held `before`; gives what does not add up."""
        if change.action is Action.NO_OP and not rows:
            self.before += before.total()
            self.stays += before.total()
            return
        after = names_of(kind, resource_type, change.after)
        deeds = _Deeds()
        for row in rows:
            deeds.take(row)
        if change.action is Action.FORGET:
            # What nobody manages any more leaves the state, also where it does not run on.
            deeds.gone += deeds.lost
        self._add(deeds)
        if kind != VM:
            # Pods that kubectl showed and bindings that a hub showed stand, though state has none of them.
            before |= deeds.told
        self.before += before.total()
        # Everything that stood and has no row stays.
        self.stays += before.total() - deeds.told.total()
        for name in sorted({*before, *after, *deeds.told, *deeds.placed}):
            if not deeds.agrees(name, before[name], after[name]):
                yield (
                    f'{change.address}: of {kind} "{name}" there {_is(before[name])} before and '
                    f"{_is(after[name])} after, and the rows of the plan say otherwise."
                )

    def _add(self, deeds: _Deeds) -> None:
        self.comes += deeds.placed.total()
        self.leaves += deeds.left
        self.lost += deeds.lost.total()
        self.forgotten += deeds.forgotten
        self.moves += deeds.moved
        self.recreated += deeds.recreated
        self.stays += deeds.stayed


def _is(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {count}"


class _Deeds(Struct):
    # What the rows of one object say: `told` are the names that stood, `gone` those of them that leave the
    # state, `placed` those that come.
    told: Names = field(default_factory=Counter)
    gone: Names = field(default_factory=Counter)
    lost: Names = field(default_factory=Counter)
    placed: Names = field(default_factory=Counter)
    left: int = 0
    forgotten: int = 0
    moved: int = 0
    recreated: int = 0
    stayed: int = 0

    def take(self, row: PlacementChange) -> None:
        if effect_of(row) is Effect.NOT_MADE:
            return
        name = _name_of(row)
        if row.action is PlacementAction.PLACE:
            self.placed[name] += 1
            return
        self.told[name] += 1
        if row.action in _DISMISSED:
            self.gone[name] += 1
            self.left += row.action is PlacementAction.REMOVE
            self.forgotten += row.action is PlacementAction.FORGET
        elif row.action is PlacementAction.LOSE:
            self.lost[name] += 1
        elif row.action is PlacementAction.MOVE:
            self._move(effect_of(row))
        else:
            self.stayed += 1

    def _move(self, effect: Effect) -> None:
        """A pod that waits before and after stays; one that finds or loses a node moves."""
        if effect is Effect.AGAIN:
            self.recreated += 1
        elif effect is Effect.WAITING:
            self.stayed += 1
        else:
            self.moved += 1

    def agrees(self, name: str, before: int, after: int) -> bool:
        """Whether both sides are what the rows say of a name."""
        return self.told[name] <= before and after == before - self.gone[name] + self.placed[name]


def waiting_pods_told(
    rows: Iterable[PlacementChange], changes: Iterable[Change], types: Types
) -> tuple[PlacementChange, ...]:
    """The rows, with pods that state has without a node as what they are: those do not come. One that gets a
    node moves, one that gets none stays.
    """
    of_objects: dict[Address, list[PlacementChange]] = {}
    for row in rows:
        if KINDS[row.kind].without_place is not None:
            of_objects.setdefault(row.address, []).append(row)
    again = _waiting_before(of_objects, changes, types)
    return tuple(_as_waiting(row) if again.get(id(row)) else row for row in rows)


def _waiting_before(
    of_objects: Mapping[Address, list[PlacementChange]], changes: Iterable[Change], types: Types
) -> dict[int, bool]:
    """The rows (by identity) that place pods which stood in state without a node."""
    again: dict[int, bool] = {}
    for change in changes:
        rows = of_objects.get(change.address, [])
        placing = [row for row in rows if row.action is PlacementAction.PLACE]
        if change.deposed or not placing or change.before is None:
            continue
        before, after = (
            names_of(rows[0].kind, types[change.address.type], side) for side in (change.before, change.after)
        )
        deeds = _Deeds()
        for row in rows:
            deeds.take(row)
        for row in placing:
            name = _name_of(row)
            if after[name] < before[name] - deeds.gone[name] + deeds.placed[name]:
                again[id(row)] = True
                deeds.placed[name] -= 1
    return again


def _as_waiting(row: PlacementChange) -> PlacementChange:
    kind, source = KINDS[row.kind], row.target
    if source is not None and kind.without_place is not None:
        source = kind.without_place(source)
    if row.target is not None and kind.runs(row.target):
        return replace(row, action=PlacementAction.MOVE, source=source)
    return replace(row, action=PlacementAction.KEEP, source=source, trigger="")


def _name_of(row: PlacementChange) -> str:
    """What the object of a row is called on both sides of a change."""
    return KINDS[row.kind].called(row.pool, row.object)


def names_of(kind: str, resource_type: ResourceType, attributes: Attributes | None) -> Names:
    """What one object holds of a kind, by its attributes."""
    if not attributes:
        return Counter()
    return Counter(KINDS[kind].names(resource_type, attributes))


# --- machines that are not there ---------------------------------------------------------------


def _ghosts(
    change: Change, resource_type: ResourceType, rows: list[PlacementChange], sites: Mapping[str, SitePlan]
) -> Iterator[str]:
    """VMs that would stand on machines that are not there, and of which no row says so."""
    family = resource_type.vms
    if family is None or not change.after:
        return
    told = {row.object for row in rows if row.action is PlacementAction.LOSE}
    site = sites.get(str(change.after.get("id", "")).partition("/")[0])
    for vm in family.standing(change.after):
        if not _is_housed(vm, site) and vm.name not in told:
            yield f'{change.address}: the VM "{vm.name}" would stay on {vm.placement.machine}, which is gone.'


def _is_housed(vm: PlacedVm, site: SitePlan | None) -> bool:
    return site is not None and vm.placement.machine in site.machines
