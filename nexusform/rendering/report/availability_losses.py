"""Availability impact of a plan: lost quorums, last replicas and ended separation rules."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct, field

from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.json_data.plain_data import get_text
from nexusform.placement_kinds.placement_kind import KINDS
from nexusform.placements.vm_demands import compute_number_sort_key
from nexusform.plans.impact.object_effects import (
    DISRUPTIVE_EFFECTS,
    Effect,
    Node,
    collect_upgrade_nodes,
    compute_effect,
    describe_lost_vms,
    get_source_node,
)
from nexusform.plans.plan import Action, PlacementChange, Plan
from nexusform.rendering.report.placement_rows import list_vm_rows
from nexusform.rendering.report.plan_sentences import build_cluster_formatter

_CONTROL_PLANE: Final = "control-plane"
_RULE: Final = "nexus_separation_rule"
# Changes in batches: most objects are up at any time.
_ROLLING_TRIGGERS: Final = ("kubernetes_version_changed", "template_changed", "override_changed")
_REMOVALS: Final = (Action.DELETE, Action.FORGET)
# control-plane VMs without redundancy.
_MAX_FRAGILE: Final = 2
# Jobs run to completion, so they are never up or down.
_JOB: Final = "/Job/"


def find_availability_losses(plan: Plan) -> Iterator[str]:
    """Yield a clause for each loss.

    Unmanaged VMs without machine, weak control planes, pools and workloads down.
    """
    yield from describe_lost_vms(plan)
    yield from _describe_control_plane_losses(plan)
    format_cluster = build_cluster_formatter(plan.placement_tables)
    for upgrade in plan.upgrades:
        # control planes have clauses of their own.
        for pool in upgrade.pools:
            if pool.pool != _CONTROL_PLANE and pool.vms and not pool.minimum_up:
                nodes = select_word_form(
                    pool.vms, "its only node is", f"all {pool.vms:,} nodes are"
                )
                name = f"{format_cluster(upgrade)}/{pool.pool}"
                yield f"{name} has no node for some time: {nodes} re-created at once"
    yield from _describe_workload_losses(plan)


def _describe_control_plane_losses(plan: Plan) -> Iterator[str]:
    """Yield a clause per control plane that loses its etcd quorum, or shrinks to one or two VMs.

    With one or two, the loss of a single VM breaks the quorum, because a majority of the VMs must
    be up.
    """
    # control-plane VMs down at once, by (site id, cluster).
    down: Counter[tuple[str, str]] = Counter()
    # added minus removed and lost control-plane VMs, by cluster.
    growth: Counter[tuple[str, str]] = Counter()
    for row in list_vm_rows(plan):
        if row.pool != _CONTROL_PLANE:
            continue
        cluster = (row.site_id, row.cluster)
        effect = compute_effect(row)
        # One VM after another.
        is_rolling = row.trigger in _ROLLING_TRIGGERS
        if effect in DISRUPTIVE_EFFECTS and not is_rolling:
            down[cluster] += 1
        if effect is Effect.PLACED:
            growth[cluster] += 1
        elif effect in (Effect.REMOVED, Effect.LOST):
            growth[cluster] -= 1
    format_cluster = build_cluster_formatter(plan.placement_tables)
    for table in plan.placement_tables:
        # Not for a removed control plane.
        if table.pool != _CONTROL_PLANE or not table.total_count:
            continue
        cluster = (table.site_id, table.cluster)
        down_count = down[cluster]
        after = table.total_count
        before = after - growth[cluster]
        name = format_cluster(table)
        # No majority remains.
        if down_count and down_count * 2 >= after:
            yield (
                f"{name} loses etcd quorum: {down_count} of {after} control-plane VMs down at once"
            )
        elif after <= _MAX_FRAGILE < before:
            yield (
                f"{name} keeps {after} of {before} control-plane VMs; losing one breaks etcd quorum"
            )


# Time of the removal of a node: the upgrade batch of its pool, or immediately.
_RemovalTime: TypeAlias = tuple[str, str, str, int]
_IMMEDIATE: Final[_RemovalTime] = ("", "", "", 0)


class _Replicas(Struct):
    """The pods of a workload on one cluster.

    Pods up throughout, and the removal times and effects of the others. `removed` pods are deleted,
    `new` ones are created.
    """

    up: int = 0
    removed: int = 0
    new: int = 0
    removal_times: set[_RemovalTime] = field(default_factory=set)
    effects: Counter[Effect] = field(default_factory=Counter)


def _describe_workload_losses(plan: Plan) -> Iterator[str]:
    """Yield a clause per workload that has no pod at all for some time, or permanently."""
    removal_times = _compute_removal_times(plan)
    # By (address, workload name).
    workloads: dict[tuple[str, str], _Replicas] = {}
    for row in plan.placements:
        # A pod of a workload (`pool`) other than a job.
        if KINDS[row.kind].runs_on_vms and _JOB not in row.pool:
            _add_pod_effect(
                workloads.setdefault((str(row.address), row.pool), _Replicas()), row, removal_times
            )
    protected_workloads: set[str] = set()
    for upgrade in plan.upgrades:
        protected_workloads |= {f"{upgrade.cluster}/{name}" for name in upgrade.protected_workloads}
    for (_, name), replicas in workloads.items():
        # Otherwise a pod is up at any time.
        if not replicas.up:
            yield from _describe_downtime(name, replicas, is_protected=name in protected_workloads)


def _describe_downtime(name: str, replicas: _Replicas, *, is_protected: bool) -> Iterator[str]:
    """Yield a clause on a workload without any pod for some time or permanently.

    Each of its pods is removed, disrupted or new. Yield nothing if disrupted pods are replaced
    before the next ones stop. With `is_protected` a PodDisruptionBudget lets the drain wait for new
    pods.
    """
    # pods are only removed and created.
    if not replicas.effects:
        # Otherwise the workload is deleted or new.
        if replicas.removed and replicas.new:
            replica_text = select_word_form(
                replicas.removed,
                "its only replica is",
                f"all of its {replicas.removed:,} replicas are",
            )
            yield f"{name} is down for some time: {replica_text} re-created"
        return
    text = _describe_replica_effects(replicas.effects)
    # No pod comes back.
    if replicas.effects.keys().isdisjoint((Effect.MOVED, Effect.RECREATED)):
        yield f"{name} has no replica left: {text}"
    # All pods are down at once: their nodes are lost without a drain, or drained in one batch.
    elif replicas.removal_times == {_IMMEDIATE} or (
        len(replicas.removal_times) == 1 and not is_protected
    ):
        yield f"{name} is down for some time: {text}"


def _add_pod_effect(
    replicas: _Replicas, pod: PlacementChange, removal_times: Mapping[Node, _RemovalTime]
) -> None:
    """Add the effect of the plan on one pod to the counts of its workload (`replicas`).

    Up, removed, new, or disrupted. A pod replaced in a rolling update counts as up. For a disrupted
    pod, add the time when its node is removed.
    """
    effect = compute_effect(pod)
    # An unplaced pod stays down.
    is_rolling = pod.trigger in _ROLLING_TRIGGERS and effect is not Effect.UNPLACED
    if is_rolling or effect in (Effect.UNCHANGED, Effect.UPDATED):
        replicas.up += 1
    elif effect is Effect.REMOVED:
        replicas.removed += 1
    elif effect is Effect.PLACED:
        replicas.new += 1
    elif effect in DISRUPTIVE_EFFECTS:
        # A node outside of rolling upgrades is removed at once.
        replicas.removal_times.add(removal_times.get(get_source_node(pod), _IMMEDIATE))
        replicas.effects[effect] += 1


def _compute_removal_times(plan: Plan) -> dict[Node, _RemovalTime]:
    """Return the removal time of each node in a batched upgrade.

    A node has two keys if the platform gives it another name. A time is not a clock time, but a
    pool (site id, cluster, pool) with the number of a batch. Azure upgrades the nodes of a pool in
    the order of their numbers, one batch at a time.
    """
    batch_sizes: dict[tuple[str, str, str], int] = {}
    for upgrade in plan.upgrades:
        if upgrade.is_rolling:
            for pool in upgrade.pools:
                batch_sizes[upgrade.site_id, upgrade.cluster, pool.pool] = max(
                    pool.batch or pool.concurrent_vms, 1
                )
    # nodes so far, by (site id, cluster, pool).
    removed_counts: Counter[tuple[str, str, str]] = Counter()
    # By identity of the row, because a node has several names.
    batches: dict[int, _RemovalTime] = {}
    nodes = {
        node: row
        for node, row in collect_upgrade_nodes(plan).items()
        if row.trigger in _ROLLING_TRIGGERS
    }
    # Each row once.
    rows = {id(row): row for row in nodes.values()}
    for row in sorted(rows.values(), key=lambda row: compute_number_sort_key(row.number)):
        pool_key = (row.site_id, row.cluster, row.pool)
        # nodes in order of number.
        batches[id(row)] = (*pool_key, removed_counts[pool_key] // batch_sizes[pool_key])
        removed_counts[pool_key] += 1
    return {node: batches[id(row)] for node, row in nodes.items()}


_VERBS: Final = {
    Effect.MOVED: ("moves", "move"),
    Effect.RECREATED: ("is re-created", "are re-created"),
    Effect.UNPLACED: ("loses its node", "lose their nodes"),
    Effect.LOST: ("loses its node", "lose their nodes"),
}


def _describe_replica_effects(effects: Mapping[Effect, int]) -> str:
    """Describe the numbers of disrupted pods of a workload by effect.

    Return `its only replica moves`, `all of its 3 replicas move` or `of its 3 replicas 1 moves and
    2 lose their nodes`.
    """
    verbs: Counter[tuple[str, str]] = Counter()
    for effect, count in effects.items():
        # Two effects share a verb.
        verbs[_VERBS[effect]] += count
    total = sum(verbs.values())
    if len(verbs) == 1:
        ((verb, plural_verb),) = verbs
        return select_word_form(
            total,
            f"its only replica {verb}",
            f"all of its {format_count(total, 'replica')} {plural_verb}",
        )
    texts = [f"{count:,} {select_word_form(count, *verb)}" for verb, count in verbs.items()]
    return f"of its {format_count(total, 'replica')} {format_list(texts)}"


def describe_weakened_rules(plan: Plan) -> Iterator[str]:
    """Yield sentences about separation rules with less effect.

    Deleted ones, and those only warning from now on.
    """
    for change in plan.changes:
        if change.address.type != _RULE:
            continue
        before = get_text(change.before, "enforcement")
        after = get_text(change.after, "enforcement")
        if change.action in _REMOVALS:
            yield f"Separation rule {change.address} is deleted"
        elif (before, after) == ("deny", "warn"):
            yield f"Separation rule {change.address} changes from deny to warn"
