"""What a plan does to what runs, as somebody sees it who runs it: counted, and said in words.

The actions of a plan say what is asked of a platform: a VM that is made anew moves, wherever it comes to. Its
effects say what comes of it: it stands elsewhere, or where it stood; a pod may have no node afterwards.
Guard rails and reports say the same of the same plan because both read this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.address import Address
from nexusform.placement_kinds.kinds import KINDS, VM, kind_order, noun_of
from nexusform.plans.plan import PlacementAction, PlacementChange, Plan
from nexusform.words import counted, form, listed


class Effect(StrEnum):
    """What becomes of one VM, binding or pod.

    `again`: made anew where it stood. `unplaced`: it had a place and has none. `waiting`: it comes, or is
    looked at again, and has no place; `still_waiting`: it had none before. `lost`: what it stands on goes and
    nothing is done for it. `forgotten`: it runs on, and nobody manages it any more. `not_made`: it is asked
    for, and is not there.
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
    NOT_MADE = "not_made"
    KEPT = "kept"


# What runs is interrupted, or gone.
DISTURBING: Final = (Effect.LOST, Effect.MOVED, Effect.AGAIN, Effect.UNPLACED)
# Out of the state.
DISMISSED: Final = (Effect.REMOVED, Effect.FORGOTTEN)
LEAVING: Final = (*DISTURBING, *DISMISSED)


def effect_of(row: PlacementChange) -> Effect:
    """What becomes of the object of a row."""
    kind = KINDS[row.kind]
    match row.action:
        case PlacementAction.KEEP:
            return _of_kept(row, runs=kind.runs(row.target))
        case PlacementAction.REMOVE:
            return Effect.REMOVED
        case PlacementAction.LOSE:
            return Effect.LOST
        case PlacementAction.FORGET:
            return Effect.FORGOTTEN
        case PlacementAction.UPDATE:
            return Effect.UPDATED
        case PlacementAction.PLACE:
            return Effect.PLACED if kind.runs(row.target) else Effect.WAITING
    runs_before = kind.runs(row.source)
    if not kind.runs(row.target):
        return Effect.UNPLACED if runs_before else Effect.WAITING
    if not runs_before:
        return Effect.PLACED
    if row.source is None or row.target is None:
        return Effect.MOVED
    return Effect.AGAIN if kind.spot(row.target) == kind.spot(row.source) else Effect.MOVED


def _of_kept(row: PlacementChange, *, runs: bool) -> Effect:
    if row.source is None and row.target is None:
        return Effect.NOT_MADE
    return Effect.KEPT if runs else Effect.STILL_WAITING


PREDICTED: Final = "predicted"
# The platform chooses a machine for such a VM as for a new one: that it is the same is foretold, no more.
_CHOSEN_ANEW: Final = ("cluster_replaced", "requested", "heal")
_WITHOUT_TARGET: Final = (PlacementAction.REMOVE, PlacementAction.LOSE, PlacementAction.FORGET)


def state_of(row: PlacementChange) -> str:
    """What something that runs nowhere is (a pod: `Pending`, `SchedulingGated`, `Failed`); "" for whatever
    runs, `predicted` for a VM whose place the platform chooses anew.
    """
    kind = KINDS[row.kind]
    if row.trigger in _CHOSEN_ANEW and row.provenance == PREDICTED and effect_of(row) is Effect.AGAIN:
        return PREDICTED
    if row.target is None or row.action in _WITHOUT_TARGET or kind.runs(row.target):
        return ""
    return kind.waits_as(row.target)


class EffectCount(Struct, frozen=True):
    """How many objects of a kind something becomes of; `state` of those that run
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


_EFFECTS: Final = tuple(Effect)
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
    Effect.NOT_MADE: ("is not made", "are not made"),
}


def _order(effect: EffectCount) -> tuple[int, int, str]:
    return _EFFECTS.index(effect.effect), kind_order(effect.kind), effect.state


def told_pools(plan: Plan) -> frozenset[tuple[str, str, str, str]]:
    """The pools whose re-creation `upgrades` tell: site, cluster, pool, trigger."""
    return frozenset(
        (upgrade.site_id, upgrade.cluster, pool.pool, upgrade.trigger)
        for upgrade in plan.upgrades
        for pool in upgrade.pools
    )


def is_told(row: PlacementChange, told: frozenset[tuple[str, str, str, str]]) -> bool:
    """Whether the re-creation of a node is told with that of its pool."""
    return (row.site_id, row.cluster, row.pool, row.trigger) in told


Node: TypeAlias = tuple[str, str, str]  # site, cluster, name


def told_nodes(plan: Plan) -> dict[Node, PlacementChange]:
    """The rows of nodes whose re-creation `upgrades` tell, by every name that such a node has."""
    told = told_pools(plan)
    nodes: dict[Node, PlacementChange] = {}
    for row in plan.placements if told else ():
        if row.kind == VM and is_told(row, told):
            for name in filter(None, (row.object, row.platform_name)):
                nodes[row.site_id, row.cluster, name] = row
    return nodes


def node_of(row: PlacementChange) -> Node:
    """The node that a pod leaves."""
    cluster, node, _ = KINDS[row.kind].link(row.source) if row.source is not None else ("", "", "")
    return row.site_id, cluster, node


def beside_upgrades(plan: Plan) -> list[PlacementChange]:
    """The rows that `upgrades` do not tell: all but nodes made anew with their pool, and the pods that find
    another place meanwhile.
    """
    nodes = told_nodes(plan)
    if not nodes:
        return list(plan.placements)
    told = told_pools(plan)
    return [
        row
        for row in plan.placements
        if not is_told(row, told)
        and not (
            KINDS[row.kind].on_vms
            and effect_of(row) in (Effect.MOVED, Effect.AGAIN)
            and node_of(row) in nodes
        )
    ]


def made_anew(rows: Iterable[PlacementChange]) -> dict[str, int]:
    """How many bindings and pods go while others come in their stead (of the same placement, of the same
    workload), by kind: their member, or the object that brought them, is made anew, or another cluster is
    picked. Whoever ran there does not run on.
    """
    gone: Counter[tuple[str, Address, str]] = Counter()
    come: Counter[tuple[str, Address, str]] = Counter()
    for row in rows:
        whose = (row.kind, row.address, row.pool)
        gone[whose] += row.action is PlacementAction.REMOVE and KINDS[row.kind].runs(row.source)
        come[whose] += row.action is PlacementAction.PLACE
    anew: Counter[str] = Counter()
    for whose, count in (gone & come).items():
        anew[whose[0]] += count
    return {kind: anew[kind] for kind in sorted(anew, key=kind_order)}


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
            clauses += [_elsewhere(each) for each in rows if each.kind == VM]
            rows = [each for each in rows if each.kind != VM]
        if effect is Effect.AGAIN:
            clauses += _clauses(effect, [each for each in rows if each.state])
            rows = [each for each in rows if not each.state]
        clauses += _clauses(effect, rows)
    return clauses


def _elsewhere(vms: EffectCount) -> str:
    where = form(vms.count, "another machine", "other machines")
    return f"{counted(vms.count, 'VM')} {form(vms.count, 'is', 'are')} re-created on {where}"


def _clauses(effect: Effect, rows: Sequence[EffectCount]) -> list[str]:
    """Objects of all kinds with one effect in a clause; of pods that run nowhere one for each state."""
    if effect in (Effect.WAITING, Effect.STILL_WAITING):
        return [f"{_subject(each)} {waiting_verb(each.state, each.count)}" for each in rows]
    if effect is Effect.LOST:
        return [f"{_subject(each)} {_loses(each)}" for each in rows]
    total = sum(each.count for each in rows)
    by_kind: Counter[str] = Counter()
    for each in rows:
        by_kind[each.kind] += each.count
    kinds = sorted(by_kind, key=kind_order)
    subjects = [counted(by_kind[kind], noun_of(kind)) for kind in kinds]
    return [f"{listed(subjects)} {verb_of(effect, rows[0].state, total)}"] if rows else []


def _subject(each: EffectCount) -> str:
    return counted(each.count, noun_of(each.kind))


def _loses(each: EffectCount) -> str:
    """`lose their machine`; pods lose a node and bindings a member."""
    ground = ground_of(each.kind)
    return form(each.count, f"loses its {ground}", f"lose their {ground}")


def ground_of(kind_name: str) -> str:
    """What objects of a kind stand on, in a word."""
    return KINDS[kind_name].ground


def waiting_verb(state: str, count: int) -> str:
    """`stays Pending`, `fail`."""
    if state == "Failed":
        return form(count, "fails", "fail")
    return f"{form(count, 'stays', 'stay')} {state}"


def verb_of(effect: Effect, state: str, count: int) -> str:
    """What is said of so many objects: `are re-created in place`."""
    if effect in (Effect.WAITING, Effect.STILL_WAITING):
        return waiting_verb(state, count)
    if state == PREDICTED:
        return form(count, "is re-created, predicted in place", "are re-created, predicted in place")
    return form(count, *_VERBS[effect])
