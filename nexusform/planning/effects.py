"""What a plan does to what runs, as somebody sees it who runs it: counted, and said in words.

The actions of a plan say what is asked of a platform: a VM that is made anew moves, wherever it comes to. Its
effects say what comes of it: it stands elsewhere, or where it stood; a pod may have no node afterwards.
Guard rails and reports say the same of the same plan because both read this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from nexusform.planning.plan import Place, PlacementAction, PlacementChange, PodPlace
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import counted, form, listed


class Effect(StrEnum):
    """What becomes of one VM, binding or pod.

    `again`: made anew where it stood. `unplaced`: it had a place and has none. `waiting`: it comes, or is
    looked at again, and has no place; `still_waiting`: it had none before. `lost`: what it stands on goes and
    nothing is done for it. `forgotten`: it runs on, and nobody manages it any more.
    """

    PLACED = "placed"
    MOVED = "moved"
    AGAIN = "again"
    UNPLACED = "unplaced"
    WAITING = "waiting"
    STILL_WAITING = "still_waiting"
    REMOVED = "removed"
    LOST = "lost"
    FORGOTTEN = "forgotten"
    UPDATED = "updated"
    KEPT = "kept"


# What runs is interrupted, or gone.
DISTURBING: Final = (Effect.LOST, Effect.MOVED, Effect.AGAIN, Effect.UNPLACED)
# Out of the state.
DISMISSED: Final = (Effect.REMOVED, Effect.FORGOTTEN)
LEAVING: Final = (*DISTURBING, *DISMISSED)


def effect_of(row: PlacementChange) -> Effect:
    """What becomes of the object of a row."""
    runs_before, runs_after = _runs(row.kind, row.source), _runs(row.kind, row.target)
    match row.action:
        case PlacementAction.REMOVE:
            return Effect.REMOVED
        case PlacementAction.LOSE:
            return Effect.LOST
        case PlacementAction.FORGET:
            return Effect.FORGOTTEN
        case PlacementAction.UPDATE:
            return Effect.UPDATED
        case PlacementAction.KEEP:
            return Effect.KEPT if runs_after else Effect.STILL_WAITING
        case PlacementAction.PLACE:
            return Effect.PLACED if runs_after else Effect.WAITING
    if not runs_after:
        return Effect.UNPLACED if runs_before else Effect.WAITING
    if not runs_before:
        return Effect.PLACED
    spot = _spot(row.target)
    return Effect.AGAIN if spot and spot == _spot(row.source) else Effect.MOVED


def _runs(kind: str, place: Place | None) -> bool:
    """Whether an object runs there: of all kinds only a pod may be there without a place."""
    return kind != "pod" or (isinstance(place, PodPlace) and bool(place.node))


def _spot(place: Place | None) -> tuple[str | None, ...]:
    """What is equal where an object stands as it stood. A VM may come to another cell of its machine."""
    if isinstance(place, Placement):
        return (place.rack, place.machine)
    if isinstance(place, PodPlace):
        return (place.cluster, place.node, place.machine)
    return (place.cluster,) if place is not None else ()


_WITHOUT_TARGET: Final = (PlacementAction.REMOVE, PlacementAction.LOSE, PlacementAction.FORGET)


def state_of(row: PlacementChange) -> str:
    """What a pod that runs nowhere is: `Pending`, `SchedulingGated`, `Failed`; "" for whatever runs."""
    if _runs(row.kind, row.target) or row.action in _WITHOUT_TARGET:
        return ""
    return row.target.word if isinstance(row.target, PodPlace) else "Pending"


class EffectCount(Struct, frozen=True):
    """How many objects of a kind ("vm", "binding", "pod") something becomes of; `state` of those that run
    nowhere.
    """

    kind: str
    effect: Effect
    state: str
    count: int


def effect_counts(rows: Iterable[PlacementChange]) -> tuple[EffectCount, ...]:
    """Every effect that some row has, by effect and kind."""
    counts = Counter((row.kind, effect_of(row), state_of(row)) for row in rows)
    listed_counts = [EffectCount(*key, count) for key, count in counts.items()]
    return tuple(sorted(listed_counts, key=_order))


_KINDS: Final = ("vm", "binding", "pod")
_EFFECTS: Final = tuple(Effect)
_NOUNS: Final = {"vm": "VM", "binding": "fleet binding", "pod": "pod"}
_VERBS: Final[Mapping[Effect, tuple[str, str]]] = {
    Effect.PLACED: ("is placed", "are placed"),
    Effect.MOVED: ("moves", "move"),
    Effect.AGAIN: ("is re-created in place", "are re-created in place"),
    Effect.UNPLACED: ("loses its node", "lose their nodes"),
    Effect.REMOVED: ("is removed", "are removed"),
    Effect.LOST: ("loses its machine", "lose their machine"),
    Effect.FORGOTTEN: ("is forgotten", "are forgotten"),
    Effect.KEPT: ("stays", "stay"),
    Effect.UPDATED: ("is updated", "are updated"),
}


def _order(effect: EffectCount) -> tuple[int, int, str]:
    return _EFFECTS.index(effect.effect), _kind_order(effect.kind), effect.state


def _kind_order(kind: str) -> int:
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def number_of(counts: Iterable[EffectCount], *effects: Effect) -> int:
    """How many objects have one of these effects."""
    return sum(each.count for each in counts if each.effect in effects)


def effect_clauses(counts: Sequence[EffectCount], effects: Iterable[Effect]) -> list[str]:
    """`2 VMs are re-created on other machines`, `1 VM and 3 pods are removed`: a clause for each of these
    effects that there is, in this order.
    """
    clauses = []
    for effect in effects:
        rows = [each for each in counts if each.effect is effect]
        if effect is Effect.MOVED:
            clauses += [_elsewhere(each) for each in rows if each.kind == "vm"]
            rows = [each for each in rows if each.kind != "vm"]
        clauses += _clauses(effect, rows)
    return clauses


def _elsewhere(vms: EffectCount) -> str:
    where = form(vms.count, "another machine", "other machines")
    return f"{counted(vms.count, 'VM')} {form(vms.count, 'is', 'are')} re-created on {where}"


def _clauses(effect: Effect, rows: Sequence[EffectCount]) -> list[str]:
    """Objects of all kinds with one effect in a clause; of pods that run nowhere one for each state."""
    if effect in (Effect.WAITING, Effect.STILL_WAITING):
        return [f"{_subject(each)} {waiting_verb(each.state, each.count)}" for each in rows]
    total = sum(each.count for each in rows)
    by_kind: Counter[str] = Counter()
    for each in rows:
        by_kind[each.kind] += each.count
    kinds = sorted(by_kind, key=_kind_order)
    subjects = [counted(by_kind[kind], _NOUNS.get(kind, kind)) for kind in kinds]
    return [f"{listed(subjects)} {form(total, *_VERBS[effect])}"] if rows else []


def _subject(each: EffectCount) -> str:
    return counted(each.count, _NOUNS.get(each.kind, each.kind))


def waiting_verb(state: str, count: int) -> str:
    """`stays Pending`, `fail`."""
    if state == "Failed":
        return form(count, "fails", "fail")
    return f"{form(count, 'stays', 'stay')} {state}"


def verb_of(effect: Effect, state: str, count: int) -> str:
    """What is said of so many objects: `are re-created in place`."""
    if effect in (Effect.WAITING, Effect.STILL_WAITING):
        return waiting_verb(state, count)
    return form(count, *_VERBS[effect])
