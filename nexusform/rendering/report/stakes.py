"""What a plan puts at stake although it may be applied: a quorum, a last replica, a separation rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct, field

from nexusform.demands import number_order
from nexusform.placement_kinds.kinds import KINDS, VM
from nexusform.plans.impact.effects import DISTURBING, Effect, Node, effect_of, node_of, told_nodes
from nexusform.plans.plan import Action, PlacementChange, Plan
from nexusform.words import counted, form, listed

_CONTROL_PLANE: Final = "control-plane"
_RULE: Final = "nexus_separation_rule"
# These go on one after the other: most of what they touch is up at any time.
_ROLLING: Final = ("kubernetes_version_changed", "template_changed", "override_changed")
_GONE: Final = (Action.DELETE, Action.FORGET)
_MOST_FRAGILE: Final = 2  # control-plane VMs, of which none may be missing
# What runs to an end is not up or down.
_JOB: Final = "/Job/"


def endangered(plan: Plan) -> Iterator[str]:
    """Forgotten VMs that lose their machine, control planes that lose their quorum while the plan is applied,
    pools without any node, and workloads without any replica.
    """
    yield from lost_clauses(plan)
    yield from _quorums(plan)
    yield from _empty_pools(plan)
    yield from _last_replicas(plan)


def lost_clauses(plan: Plan) -> list[str]:
    """`3 forgotten VMs lose their machine`, where some do: no row tells of them."""
    lost = plan.forgotten_and_lost
    loses = form(lost, "loses its machine", "lose their machine")
    return [f"{counted(lost, 'forgotten VM')} {loses}"] if lost else []


def _quorums(plan: Plan) -> Iterator[str]:
    down: Counter[tuple[str, str]] = Counter()
    grown: Counter[tuple[str, str]] = Counter()
    for row in plan.placements:
        if row.kind != VM or row.pool != _CONTROL_PLANE:
            continue
        cluster, effect = (row.site_id, row.cluster), effect_of(row)
        down[cluster] += effect in DISTURBING and row.trigger not in _ROLLING
        grown[cluster] += (effect is Effect.PLACED) - (effect in (Effect.REMOVED, Effect.LOST))
    for table in plan.placement_tables:
        cluster = (table.site_id, table.cluster)
        lost, after = down[cluster], table.total_count
        before = after - grown[cluster]
        if table.pool != _CONTROL_PLANE or not after:
            continue
        if lost and lost * 2 >= after:
            yield f"{table.cluster} loses its quorum: {lost} of {after} control-plane VMs at once"
        elif after <= _MOST_FRAGILE < before:
            left = f"{counted(after, 'control-plane VM')} of {before}"
            yield f"{table.cluster} keeps {left}: its quorum survives no lost machine from now on"


def _empty_pools(plan: Plan) -> Iterator[str]:
    """Pools of which no node is up at some moment; a control plane lost its quorum then."""
    for upgrade in plan.upgrades:
        for pool in upgrade.pools:
            if pool.pool != _CONTROL_PLANE and pool.vms and not pool.fewest_up:
                which = form(pool.vms, "its only node is", f"all {pool.vms:,} are")
                yield f"{upgrade.cluster}/{pool.pool} has no node for a while: {which} made anew at once"


# --- workloads -----------------------------------------------------------------------------------

# When a node goes: the batch of its pool's upgrade, or with everything else that goes at once.
_Moment: TypeAlias = tuple[str, str, str, int]
_AT_ONCE: Final[_Moment] = ("", "", "", 0)


class _Replicas(Struct):
    """The pods of a workload on one cluster: how many are up throughout, when the others go, and what becomes
    of those. `removed` go for good, `new` ones come.
    """

    up: int = 0
    removed: int = 0
    new: int = 0
    moments: set[_Moment] = field(default_factory=set)
    effects: Counter[Effect] = field(default_factory=Counter)


def _last_replicas(plan: Plan) -> Iterator[str]:
    """Workloads of which no pod is up at some time, or ever after."""
    moments = _moments(plan)
    workloads: dict[tuple[str, str], _Replicas] = {}
    for row in plan.placements:
        if KINDS[row.kind].on_vms and _JOB not in row.pool:
            _count(workloads.setdefault((str(row.address), row.pool), _Replicas()), row, moments)
    kept_up = {f"{upgrade.cluster}/{name}" for upgrade in plan.upgrades for name in upgrade.kept_up}
    for (_, name), replicas in workloads.items():
        if not replicas.up and replicas.removed and replicas.new and not replicas.effects:
            what = form(
                replicas.removed, "its only replica is", f"all of its {replicas.removed:,} replicas are"
            )
            yield f"{name} is down for a while: {what} made anew"
        if replicas.up or not replicas.effects:
            continue
        text = _what_becomes(replicas.effects)
        if not (replicas.effects[Effect.MOVED] or replicas.effects[Effect.AGAIN]):
            yield f"{name} has no replica left: {text}"
        elif len(replicas.moments) == 1 and not (name in kept_up and _AT_ONCE not in replicas.moments):
            yield f"{name} is down for a while: {text}"


def _count(replicas: _Replicas, pod: PlacementChange, moments: Mapping[Node, _Moment]) -> None:
    effect = effect_of(pod)
    if effect in (Effect.KEPT, Effect.UPDATED) or (pod.trigger in _ROLLING and effect is not Effect.UNPLACED):
        replicas.up += 1
    elif effect is Effect.REMOVED:
        replicas.removed += 1
    elif effect is Effect.PLACED:
        replicas.new += 1
    elif effect in DISTURBING:
        replicas.moments.add(moments.get(node_of(pod), _AT_ONCE))
        replicas.effects[effect] += 1


def _moments(plan: Plan) -> dict[Node, _Moment]:
    """When each node of an upgrade goes that takes them batch by batch."""
    sizes = {
        (upgrade.site_id, upgrade.cluster, pool.pool): max(pool.batch or pool.at_once, 1)
        for upgrade in plan.upgrades
        for pool in upgrade.pools
        if upgrade.rolls
    }
    gone: Counter[tuple[str, str, str]] = Counter()
    batches: dict[int, _Moment] = {}
    nodes = {node: row for node, row in told_nodes(plan).items() if row.trigger in _ROLLING}
    rows = {id(row): row for row in nodes.values()}
    for row in sorted(rows.values(), key=lambda row: number_order(row.number)):
        pool = (row.site_id, row.cluster, row.pool)
        batches[id(row)] = (*pool, gone[pool] // sizes[pool])
        gone[pool] += 1
    return {node: batches[id(row)] for node, row in nodes.items()}


_VERBS: Final = {
    Effect.MOVED: ("moves", "move"),
    Effect.AGAIN: ("is made anew", "are made anew"),
    Effect.UNPLACED: ("loses its node", "lose their nodes"),
    Effect.LOST: ("loses its node", "lose their nodes"),
}


def _what_becomes(effects: Mapping[Effect, int]) -> str:
    """`its only replica moves`, `all of its 3 replicas move`, `1 of its 3 replicas moves and 2 lose ...`."""
    verbs: Counter[tuple[str, str]] = Counter()
    for effect, count in effects.items():
        verbs[_VERBS[effect]] += count
    total = sum(verbs.values())
    if len(verbs) == 1:
        ((verb, plural),) = verbs
        return form(total, f"its only replica {verb}", f"all of its {counted(total, 'replica')} {plural}")
    texts = [f"{count:,} {form(count, *verb)}" for verb, count in verbs.items()]
    return f"of its {counted(total, 'replica')} {listed(texts)}"


def ending_rules(plan: Plan) -> Iterator[str]:
    """Separation rules that are taken away, or that only warn from now on."""
    for change in plan.changes:
        if change.address.type != _RULE:
            continue
        before, after = change.before or {}, change.after or {}
        if change.action in _GONE:
            yield f"Separation rule {change.address} ends"
        elif before.get("enforcement") == "deny" and after.get("enforcement") == "warn":
            yield f"Separation rule {change.address} only warns from now on"
