"""Effects of a plan on running objects, counted and described in text. Actions of a plan are requests to a platform: a
re-created VM has the action `move` for any target. Effects are their results: the object runs elsewhere or at the same
location, or a pod has no node afterwards. Guard rails and reports agree because both use this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.placement_kinds.placement_kind import KINDS, VM, get_kind_noun, get_kind_order
from nexusform.plans.plan import PlacementAction, PlacementChange, Plan
from nexusform.resources.address import Address


class Effect(StrEnum):
    """Effect on one VM, binding or pod. `again`: re-created at the same location. `unplaced`: it had a
    location and loses it. `waiting`: it is new or re-evaluated, and has no location; `still_waiting`: it had
    none before. `lost`: its host is removed and no step handles it. `forgotten`: it keeps running unmanaged.
    `not_made`: it is requested and does not exist.
    """

    PLACED = "placed"
    MOVED = "moved"
    RECREATED = "again"
    UNPLACED = "unplaced"
    WAITING = "waiting"
    STILL_WAITING = "still_waiting"
    REMOVED = "removed"
    LOST = "lost"
    FORGOTTEN = "forgotten"
    UPDATED = "updated"
    NOT_CREATED = "not_made"
    UNCHANGED = "kept"


# Running objects are interrupted or removed.
DISRUPTIVE_EFFECTS: Final = (Effect.LOST, Effect.MOVED, Effect.RECREATED, Effect.UNPLACED)
# Objects removed from the state.
REMOVAL_EFFECTS: Final = (Effect.REMOVED, Effect.FORGOTTEN)
LOSS_EFFECTS: Final = (*DISRUPTIVE_EFFECTS, *REMOVAL_EFFECTS)


# Actions with the same effect on every object.
_EFFECTS_BY_ACTION: Final = {
    PlacementAction.REMOVE: Effect.REMOVED,
    PlacementAction.LOSE: Effect.LOST,
    PlacementAction.FORGET: Effect.FORGOTTEN,
    PlacementAction.UPDATE: Effect.UPDATED,
}


def compute_effect(row: PlacementChange) -> Effect:
    """Return the effect on the object of a row (VM, binding or pod), by its action and by the sides with it running."""
    effect = _EFFECTS_BY_ACTION.get(row.action)
    if effect is not None:
        return effect
    kind = KINDS[row.kind]
    if row.action is PlacementAction.KEEP:
        if row.source is None and row.target is None:  # neither before nor after
            return Effect.NOT_CREATED
        return Effect.UNCHANGED if kind.is_running(row.target) else Effect.STILL_WAITING
    if row.action is PlacementAction.PLACE:
        return Effect.PLACED if kind.is_running(row.target) else Effect.WAITING
    # The action is MOVE. For a VM, `is_running` is always true, but without a machine it does not run.
    runs_before = kind.is_running(row.source) and not (row.kind == VM and row.source is None)
    if not kind.is_running(row.target):
        return Effect.UNPLACED if runs_before else Effect.WAITING
    if not runs_before:
        return Effect.PLACED
    if row.source is None or row.target is None:  # running at an unknown location
        return Effect.MOVED
    return Effect.RECREATED if kind.get_identity(row.target) == kind.get_identity(row.source) else Effect.MOVED


PREDICTED: Final = "predicted"
# The platform schedules such a VM like a new one: the same machine is only a prediction.
_RESCHEDULING_TRIGGERS: Final = ("cluster_replaced", "requested", "heal")
_ACTIONS_WITHOUT_TARGET: Final = (PlacementAction.REMOVE, PlacementAction.LOSE, PlacementAction.FORGET)


def describe_state(row: PlacementChange) -> str:
    """Return `predicted` for a VM rescheduled by the platform, "" for a running or removed object, else the state of
    the object (a pod: `Pending`, `SchedulingGated`, `Failed`).
    """
    kind = KINDS[row.kind]
    if (
        row.trigger in _RESCHEDULING_TRIGGERS
        and row.provenance == PREDICTED
        and compute_effect(row) is Effect.RECREATED
    ):
        return PREDICTED
    if row.target is None or row.action in _ACTIONS_WITHOUT_TARGET or kind.is_running(row.target):
        return ""
    return kind.format_waiting_state(row.target)


class EffectCount(Struct, frozen=True):
    """Number of objects of a kind with one effect; `state` is that of objects that do not run."""

    kind: str
    effect: Effect
    state: str
    count: int


def count_effects(rows: Iterable[PlacementChange]) -> tuple[EffectCount, ...]:
    """Count the rows per effect, kind and state, sorted by effect (in the order of `Effect`), kind and state."""
    counts = Counter((row.kind, compute_effect(row), describe_state(row)) for row in rows)
    effects = [EffectCount(kind, effect, state, count) for (kind, effect, state), count in counts.items()]
    effects.sort(key=lambda counted: (_EFFECTS.index(counted.effect), get_kind_order(counted.kind), counted.state))
    return tuple(effects)


_EFFECTS: Final = tuple(Effect)
_VERBS: Final[Mapping[Effect, tuple[str, str]]] = {
    Effect.PLACED: ("is placed", "are placed"),
    Effect.MOVED: ("moves", "move"),
    Effect.RECREATED: ("is re-created in place", "are re-created in place"),
    Effect.UNPLACED: ("loses its node", "lose their nodes"),
    Effect.REMOVED: ("is removed", "are removed"),
    Effect.LOST: ("loses its machine", "lose their machine"),
    Effect.FORGOTTEN: ("is forgotten", "are forgotten"),
    Effect.UNCHANGED: ("stays", "stay"),
    Effect.UPDATED: ("is updated", "are updated"),
    Effect.NOT_CREATED: ("is not created", "are not created"),
}


def list_upgrade_pools(plan: Plan) -> frozenset[tuple[str, str, str, str]]:
    """Return the pools re-created by the plan's upgrades: site, cluster, pool, trigger."""
    return frozenset(
        (upgrade.site_id, upgrade.cluster, pool.pool, upgrade.trigger)
        for upgrade in plan.upgrades
        for pool in upgrade.pools
    )


def is_upgrade_row(row: PlacementChange, pools: frozenset[tuple[str, str, str, str]]) -> bool:
    """Return whether the re-creation of a node belongs to the upgrade of its pool."""
    return (row.site_id, row.cluster, row.pool, row.trigger) in pools


Node: TypeAlias = tuple[str, str, str]  # site, cluster, name


def collect_upgrade_nodes(plan: Plan) -> dict[Node, PlacementChange]:
    """Return the rows of nodes re-created by the plan's upgrades, by every name of the node."""
    pools = list_upgrade_pools(plan)
    nodes: dict[Node, PlacementChange] = {}
    for row in plan.placements if pools else ():
        if row.kind == VM and is_upgrade_row(row, pools):
            for name in filter(None, (row.object, row.platform_name)):  # its own and, if known, the platform's
                nodes[row.site_id, row.cluster, name] = row
    return nodes


def get_source_node(row: PlacementChange) -> Node:
    """Return the node that a pod leaves."""
    cluster, node, _ = KINDS[row.kind].get_link(row.source) if row.source is not None else ("", "", "")
    return row.site_id, cluster, node


def select_rows_outside_upgrades(plan: Plan) -> list[PlacementChange]:
    """Return the placements without the nodes re-created by the plan's upgrades and without the pods leaving them."""
    nodes = collect_upgrade_nodes(plan)
    pools = list_upgrade_pools(plan)

    def is_leaving_upgraded_node(row: PlacementChange) -> bool:
        has_moved = KINDS[row.kind].runs_on_vms and compute_effect(row) in (Effect.MOVED, Effect.RECREATED)
        return has_moved and get_source_node(row) in nodes

    return [row for row in plan.placements if not is_upgrade_row(row, pools) and not is_leaving_upgraded_node(row)]


def count_substitutions(rows: Iterable[PlacementChange]) -> dict[str, int]:
    """Count by kind the running bindings and pods replaced by new ones of the same placement or workload, because their
    member or parent object is re-created, or another cluster is selected.
    """
    removed_counts: Counter[tuple[str, Address, str]] = Counter()
    added_counts: Counter[tuple[str, Address, str]] = Counter()
    for row in rows:
        owner = (row.kind, row.address, row.pool)  # a placement, or a workload
        removed_counts[owner] += row.action is PlacementAction.REMOVE and KINDS[row.kind].is_running(row.source)
        added_counts[owner] += row.action is PlacementAction.PLACE  # True adds 1
    substitutions: Counter[str] = Counter()
    for (kind, _, _), count in (removed_counts & added_counts).items():  # `&`: the lower count of each owner
        substitutions[kind] += count
    return {kind: substitutions[kind] for kind in sorted(substitutions, key=get_kind_order)}


def count_objects_with_effects(counts: Iterable[EffectCount], *effects: Effect) -> int:
    """Return the number of objects with one of these effects."""
    return sum(effect_count.count for effect_count in counts if effect_count.effect in effects)


def format_effect_clauses(counts: Sequence[EffectCount], effects: Iterable[Effect]) -> list[str]:
    """Format clauses for the given effects in order: `1 VM and 3 pods are removed`. VM moves have their own clause."""
    clauses = []
    for effect in effects:
        rows = [row for row in counts if row.effect is effect]
        if effect is Effect.MOVED:
            clauses += [_format_vm_moves(row) for row in rows if row.kind == VM]
            rows = [row for row in rows if row.kind != VM]
        if effect is Effect.RECREATED:  # predictions (with a state) have their own clause, too
            clauses += _format_clauses(effect, [row for row in rows if row.state])
            rows = [row for row in rows if not row.state]
        clauses += _format_clauses(effect, rows)
    return clauses


def _format_vm_moves(vms: EffectCount) -> str:
    target = select_word_form(vms.count, "another machine", "other machines")
    return f"{format_count(vms.count, 'VM')} {select_word_form(vms.count, 'is', 'are')} re-created on {target}"


def _format_clauses(effect: Effect, rows: Sequence[EffectCount]) -> list[str]:
    """Format objects of all kinds with one effect as one clause, [] for none. Objects without a place yet (waiting) or
    losing their host (`2 VMs lose their machine`) get a clause per row, so per kind and state.
    """
    if effect in (Effect.WAITING, Effect.STILL_WAITING):
        return [f"{_format_object_count(row)} {format_waiting_verb(row.state, row.count)}" for row in rows]
    if effect is Effect.LOST:
        verbs = [(row, select_word_form(row.count, "loses its", "lose their")) for row in rows]
        return [f"{_format_object_count(row)} {verb} {get_host_noun(row.kind)}" for row, verb in verbs]
    total = sum(row.count for row in rows)
    by_kind: Counter[str] = Counter()
    for row in rows:
        by_kind[row.kind] += row.count
    subjects = format_kind_counts({kind: by_kind[kind] for kind in sorted(by_kind, key=get_kind_order)})
    return [f"{subjects} {format_effect_verb(effect, rows[0].state, total)}"] if rows else []  # one verb for all


def format_kind_counts(counts: Mapping[str, int]) -> str:
    """Format numbers of objects by kind: `3 VMs and 2 pods`."""
    return format_list(format_count(count, get_kind_noun(kind)) for kind, count in counts.items())


def _format_object_count(row: EffectCount) -> str:
    return format_count(row.count, get_kind_noun(row.kind))


def describe_lost_vms(plan: Plan) -> list[str]:
    """Return `3 forgotten VMs lose their machine` if there are any; such VMs have no row."""
    lost_count = plan.lost_unmanaged_count
    verb = select_word_form(lost_count, "loses its machine", "lose their machine")
    return [f"{format_count(lost_count, 'forgotten VM')} {verb}"] if lost_count else []


def get_host_noun(kind_name: str) -> str:
    """Return the noun of the host of a kind of objects."""
    return KINDS[kind_name].host_noun


def format_waiting_verb(state: str, count: int) -> str:
    """Format `stays Pending`, `fail`."""
    if state == "Failed":
        return select_word_form(count, "fails", "fail")
    return f"{select_word_form(count, 'stays', 'stay')} {state}"


def format_effect_verb(effect: Effect, state: str, count: int) -> str:
    """Format the verb phrase of an effect: `are re-created in place`."""
    if effect in (Effect.WAITING, Effect.STILL_WAITING):
        return format_waiting_verb(state, count)
    if state == PREDICTED:
        return select_word_form(count, "is re-created, predicted in place", "are re-created, predicted in place")
    return select_word_form(count, *_VERBS[effect])
