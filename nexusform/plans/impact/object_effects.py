"""Effects of a plan on running objects, counted and described in text.

Actions of a plan are requests to a platform: a re-created VM has the action `move` for any target.
Effects are their results: the object runs elsewhere or at the same location, or a pod has no node
afterwards. Guard rails and reports agree because both use this module.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count, format_list, group_by, select_word_form
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS, get_kind_noun, get_kind_order
from nexusform.plans.maintenance import Upgrade
from nexusform.plans.plan import (
    ContentChange,
    ContentEffect,
    PlacementAction,
    PlacementChange,
    PlacementTable,
    Plan,
)
from nexusform.resources.address import Address


class Effect(StrEnum):
    """Effect on one VM, binding or pod.

    `again`: it is re-created at the same location. `unplaced`: it had a location and loses it.
    `waiting`: it is new or re-evaluated, and has no location; `still_waiting`: it had none before.
    `lost`: its host is removed and no step handles it. `forgotten`: it keeps running unmanaged.
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
    """Return the effect of the plan on one object (VM, binding or pod).

    RECREATED is that of a VM re-created on its machine.

    Some actions have one effect each. For the others, it depends on whether the object runs
    before and after. `row.source` is its location before, `row.target` after; None if it has
    none, or an unknown one.
    """
    if row.action in _EFFECTS_BY_ACTION:
        return _EFFECTS_BY_ACTION[row.action]
    kind = KINDS[row.kind]
    runs_after = kind.is_running(row.target)
    if row.action is PlacementAction.KEEP:
        # The object does not exist before or after.
        if row.source is None and row.target is None:
            return Effect.NOT_CREATED
        return Effect.UNCHANGED if runs_after else Effect.STILL_WAITING
    # The action is PLACE or MOVE. A placed object did not run before, and neither did a VM without
    # a machine, although `is_running` is true for every VM.
    is_unplaced_vm = row.kind == VM and row.source is None
    runs_before = (
        row.action is PlacementAction.MOVE and kind.is_running(row.source) and not is_unplaced_vm
    )
    if not runs_before:
        return Effect.PLACED if runs_after else Effect.WAITING
    if not runs_after:
        return Effect.UNPLACED
    # It runs, but at an unknown location.
    if row.source is None or row.target is None:
        return Effect.MOVED
    # The identity is the part of a location that changes with a move: rack and machine of a VM.
    identity_before = kind.get_identity(row.source)
    identity_after = kind.get_identity(row.target)
    return Effect.RECREATED if identity_before == identity_after else Effect.MOVED


PREDICTED: Final = "predicted"
# The platform schedules such a VM like a new one: the same machine is only a prediction.
_RESCHEDULING_TRIGGERS: Final = ("cluster_replaced", "requested", "heal")
_ACTIONS_WITHOUT_TARGET: Final = (
    PlacementAction.REMOVE,
    PlacementAction.LOSE,
    PlacementAction.FORGET,
)


def describe_state(row: PlacementChange) -> str:
    """Return the state of an object after the plan, if it needs a word.

    A VM rescheduled by the platform is `predicted`. A pod without a node has a state such as
    `Pending`. Return "" for a running or removed object.
    """
    kind = KINDS[row.kind]
    is_rescheduled = row.trigger in _RESCHEDULING_TRIGGERS and row.provenance == PREDICTED
    if is_rescheduled and compute_effect(row) is Effect.RECREATED:
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
    """Count the rows per effect, kind and state, sorted by effect, kind and state.

    Effects are in the order of `Effect`.
    """
    return _sort_effects(
        Counter((row.kind, compute_effect(row), describe_state(row)) for row in rows)
    )


def count_content_effects(
    counts: Iterable[EffectCount], changes: Iterable[ContentChange]
) -> tuple[EffectCount, ...]:
    """Return the counts with the pods affected by new content that have no rows of their own."""
    totals = Counter({(row.kind, row.effect, row.state): row.count for row in counts})
    for change in changes:
        if change.pods and not change.has_rows:
            effect = _CONTENT_EFFECTS.get(change.effect, Effect.REMOVED)
            totals[change.pod_kind, effect, ""] += change.pods
    return _sort_effects(totals)


def sum_effects(counts: Iterable[EffectCount]) -> tuple[EffectCount, ...]:
    """Return the sums of counts of several plans per effect, kind and state."""
    totals: Counter[tuple[str, Effect, str]] = Counter()
    for row in counts:
        totals[row.kind, row.effect, row.state] += row.count
    return _sort_effects(totals)


# Of others, the pods are removed.
_CONTENT_EFFECTS: Final[Mapping[ContentEffect, Effect]] = {
    ContentEffect.ROLLED_OUT: Effect.RECREATED,
    ContentEffect.STAYS: Effect.FORGOTTEN,
}


def _sort_effects(counts: Mapping[tuple[str, Effect, str], int]) -> tuple[EffectCount, ...]:
    effects = [
        EffectCount(kind, effect, state, count) for (kind, effect, state), count in counts.items()
    ]
    effects.sort(
        key=lambda counted: (
            _EFFECTS.index(counted.effect),
            get_kind_order(counted.kind),
            counted.state,
        )
    )
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
    pools = [(upgrade, pool.pool) for upgrade in plan.impact.upgrades for pool in upgrade.pools]
    return frozenset(
        (upgrade.site_id, upgrade.cluster, name, upgrade.trigger) for upgrade, name in pools
    )


def is_upgrade_row(row: PlacementChange, pools: frozenset[tuple[str, str, str, str]]) -> bool:
    """Return whether the re-creation of a node belongs to the upgrade of its pool."""
    return (row.site_id, row.cluster, row.pool, row.trigger) in pools


# Site, cluster, name.
Node: TypeAlias = tuple[str, str, str]


def collect_upgrade_nodes(plan: Plan) -> dict[Node, PlacementChange]:
    """Return the rows of nodes re-created by the plan's upgrades.

    The key of a node is its site id, cluster and name; a node has two keys if the platform gives
    it another name.
    """
    pools = list_upgrade_pools(plan)
    nodes: dict[Node, PlacementChange] = {}
    for row in plan.placements:
        if row.kind == VM and is_upgrade_row(row, pools):
            # Its own and, if known, the platform's.
            for name in (row.object, row.platform_name or row.object):
                nodes[row.site_id, row.cluster, name] = row
    return nodes


def get_source_node(row: PlacementChange) -> Node:
    """Return the node that a pod leaves: (site id, cluster, name).

    Cluster and name are "" if it had none.
    """
    cluster, node, _ = (
        KINDS[row.kind].get_link(row.source) if row.source is not None else ("", "", "")
    )
    return row.site_id, cluster, node


def count_plan_effects(plan: Plan) -> tuple[EffectCount, ...]:
    """Count the effects of a plan on all VMs, bindings and pods."""
    return count_content_effects(count_effects(plan.placements), plan.workloads.content_changes)


def select_rows_outside_upgrades(plan: Plan) -> list[PlacementChange]:
    """Return the placements without the nodes re-created by the plan's upgrades.

    The pods leaving these nodes are left out, too.
    """
    nodes = collect_upgrade_nodes(plan)
    pools = list_upgrade_pools(plan)
    outside = []
    for row in plan.placements:
        is_moved_pod = KINDS[row.kind].runs_on_vms and compute_effect(row) in (
            Effect.MOVED,
            Effect.RECREATED,
        )
        is_leaving_node = is_moved_pod and get_source_node(row) in nodes
        if not is_leaving_node and not is_upgrade_row(row, pools):
            outside.append(row)
    return outside


def count_substitutions(rows: Iterable[PlacementChange]) -> dict[str, int]:
    """Count, by kind, the running bindings and pods replaced by new ones.

    Both are of the same placement or workload.

    For each of these owners, it is the lower of two counts: its removed running rows, and
    its added rows.
    """
    removed_counts: Counter[tuple[str, Address, str]] = Counter()
    added_counts: Counter[tuple[str, Address, str]] = Counter()
    for row in rows:
        # A placement, or a workload.
        owner = (row.kind, row.address, row.pool)
        removed_counts[owner] += row.action is PlacementAction.REMOVE and KINDS[
            row.kind
        ].is_running(row.source)
        # True adds 1.
        added_counts[owner] += row.action is PlacementAction.PLACE
    substitutions: Counter[str] = Counter()
    # `&`: the lower count of each owner.
    for (kind, _, _), count in (removed_counts & added_counts).items():
        substitutions[kind] += count
    return {kind: substitutions[kind] for kind in sorted(substitutions, key=get_kind_order)}


def count_objects_with_effects(counts: Iterable[EffectCount], *effects: Effect) -> int:
    """Return the number of objects with one of these effects."""
    return sum(effect_count.count for effect_count in counts if effect_count.effect in effects)


def format_effect_clauses(counts: Sequence[EffectCount], effects: Iterable[Effect]) -> list[str]:
    """Format clauses for the given effects in order: `1 VM and 3 pods are removed`."""
    clauses = []
    for effect in effects:
        rows = [row for row in counts if row.effect is effect]
        rows.sort(key=lambda row: row.state != PREDICTED)  # predictions first
        clauses += [_format_clause(group) for group in group_by(rows, _get_clause_key).values()]
    return clauses


def _get_clause_key(row: EffectCount) -> tuple[str, ...]:
    """Return a key, equal for counts of one effect with a common clause.

    An example of a clause is `1 VM and 3 pods are removed`. Objects without a place yet (waiting)
    or losing their host have a clause per kind and state, because their verbs differ. For the same
    reason, moves of VMs and predicted re-creations have their own clauses.
    """
    if row.effect in (Effect.WAITING, Effect.STILL_WAITING, Effect.LOST):
        return row.kind, row.state
    if _is_vm_move(row):
        return ("moved VMs",)
    return (PREDICTED,) if row.state == PREDICTED else ()


def _is_vm_move(row: EffectCount) -> bool:
    return row.effect is Effect.MOVED and row.kind == VM


def _format_clause(rows: Sequence[EffectCount]) -> str:
    """Format the objects of one clause, with one verb for all."""
    first = rows[0]
    counts: Counter[str] = Counter()  # by kind
    for row in rows:
        counts[row.kind] += row.count
    total = counts.total()
    verb = format_effect_verb(first.effect, first.state, total)
    if _is_vm_move(first):
        verb = select_word_form(
            total, "is re-created on another machine", "are re-created on other machines"
        )
    elif first.effect is Effect.LOST:
        # A machine of VMs, a node of pods.
        host_noun = KINDS[first.kind].host_noun
        verb = f"{select_word_form(total, 'loses its', 'lose their')} {host_noun}"
    return f"{format_kind_counts(counts)} {verb}"


def format_kind_counts(counts: Mapping[str, int]) -> str:
    """Format numbers of objects by kind: `3 VMs and 2 pods`."""
    return format_list(format_count(count, get_kind_noun(kind)) for kind, count in counts.items())


def describe_lost_vms(plan: Plan) -> list[str]:
    """Return `3 forgotten VMs lose their machine` if there are any; such VMs have no row."""
    lost_count = plan.lost_unmanaged_count
    verb = select_word_form(lost_count, "loses its machine", "lose their machine")
    return [f"{format_count(lost_count, 'forgotten VM')} {verb}"] if lost_count else []


def format_effect_verb(effect: Effect, state: str, count: int) -> str:
    """Format the verb phrase of an effect on a number of objects: `are re-created in place`.

    Objects without a place are described by their `state`: `stays Pending`, `fail`.
    """
    if effect in (Effect.WAITING, Effect.STILL_WAITING):
        if state == "Failed":
            return select_word_form(count, "fails", "fail")
        return f"{select_word_form(count, 'stays', 'stay')} {state}"
    if state == PREDICTED:
        return select_word_form(
            count,
            "is re-created, probably on the same machine",
            "are re-created, probably on the same machine",
        )
    return select_word_form(count, *_VERBS[effect])


_ClusterItem: TypeAlias = PlacementTable | PlacementChange | Upgrade


def build_cluster_formatter(items: Iterable[_ClusterItem]) -> Callable[[_ClusterItem], str]:
    """Return a function that formats the cluster of an item.

    The text has the site if several sites have a cluster of that name.
    """
    counts = Counter(cluster for cluster, _ in {(item.cluster, item.site_id) for item in items})
    return lambda item: (
        f"{item.site_id}/{item.cluster}" if counts[item.cluster] > 1 else item.cluster
    )
