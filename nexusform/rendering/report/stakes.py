"""What a plan puts at stake although it may be applied: a quorum, a last replica, a separation rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS
from nexusform.plans.effects import DISTURBING, Effect, effect_of
from nexusform.plans.plan import Action, Plan
from nexusform.words import counted, form

_CONTROL_PLANE: Final = "control-plane"
_RULE: Final = "nexus_separation_rule"
# These go on one after the other: most of what they touch is up at any time.
_ROLLING: Final = ("kubernetes_version_changed", "template_changed", "override_changed")
_GONE: Final = (Action.DELETE, Action.FORGET)


def endangered(plan: Plan) -> Iterator[str]:
    """Control planes that lose their quorum while the plan is applied, and workloads without any replica."""
    yield from _quorums(plan)
    yield from _last_replicas(plan)


def _quorums(plan: Plan) -> Iterator[str]:
    down: Counter[str] = Counter()
    for row in plan.placements:
        at_once = row.kind == VM and row.pool == _CONTROL_PLANE and row.trigger not in _ROLLING
        if at_once and effect_of(row) in DISTURBING:
            down[row.cluster] += 1
    for table in plan.placement_tables:
        if table.pool == _CONTROL_PLANE and down[table.cluster] * 2 >= table.total_count:
            lost, all_of_them = down[table.cluster], table.total_count
            if lost:
                yield f"{table.cluster} loses its quorum: {lost} of {all_of_them} control-plane VMs at once"


def _last_replicas(plan: Plan) -> Iterator[str]:
    """Workloads of which every pod that runs is disturbed."""
    up: Counter[tuple[str, str]] = Counter()
    disturbed: Counter[tuple[str, str]] = Counter()
    for row in plan.placements:
        if not KINDS[row.kind].on_vms:
            continue
        effect, workload = effect_of(row), (str(row.address), row.pool)
        if effect in (Effect.KEPT, Effect.UPDATED) or row.trigger in _ROLLING:
            up[workload] += 1
        elif effect in DISTURBING:
            disturbed[workload] += 1
    for workload, count in disturbed.items():
        if not up[workload]:
            replica = form(count, "its only replica moves", f"all of its {counted(count, 'replica')} move")
            yield f"{workload[1]} is down for a while: {replica}"


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
