"""Why a pool's VMs or one pod are where they are, as answers: of a pool the table, the racks and whom to ask
about; of a pod where, how certain, and what every node's rules say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nexusform.domains.fleet.workflow.reasons import Coming, PodReason, PoolReason
from nexusform.domains.pods.planning.rows import REASONS
from nexusform.domains.pods.scheduling.explanation import NodeVerdict
from nexusform.domains.pods.scheduling.workloads import PodState
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.json.json_placements import table_document
from nexusform.rendering.report.placement_rows import table_row
from nexusform.words import counted, listed, natural

_WITHOUT: Final = {
    PodState.PENDING: "stays Pending",
    PodState.GATED: "is not looked at: SchedulingGated",
    PodState.FAILED: "is Failed: kubelet refuses it",
}


def pod_outline(reason: PodReason) -> Outline:
    """One pod on one cluster."""
    outcome = reason.outcome
    zone = f"zone {reason.zone}" if reason.zone else ""
    place = " / ".join(text for text in (outcome.node, reason.machine, zone) if text)
    sections = []
    if any(verdict.total is not None for verdict in reason.nodes):
        sections.append(_points(reason))
    if any(verdict.refusals for verdict in reason.nodes):
        sections.append(_refusals(reason.nodes))
    return Outline(
        f"{outcome.name} ({outcome.workload}) on {reason.cluster}",
        f"runs on {place}" if outcome.node else _WITHOUT[outcome.state],
        not outcome.node,
        tuple(_facts(reason)),
        tuple(sections),
    )


def _facts(reason: PodReason) -> Iterable[str]:
    """Why the pod is where it is, in sentences."""
    outcome = reason.outcome
    if outcome.trigger:
        because = REASONS.get(outcome.trigger, outcome.trigger)
        if outcome.preempted_by:
            because = f"{outcome.preempted_by}, of higher priority, takes its place"
        yield f"This plan decides it ({outcome.trigger}): {because}."
    elif reason.recorded and not outcome.node:
        yield "An earlier nexusform foretold it, and nothing has changed on its cluster since."
    elif outcome.pending:
        yield "It was Pending before and is still: the rules are asked again in every plan."
    else:
        yield "It stands and stays: rules are not asked again while a pod runs."
    if outcome.victims:
        victims = ", ".join(f"{pod.name} (priority {pod.spec.priority})" for pod in outcome.victims)
        yield f"No node was free, so it evicts {victims}: what follows are the nodes before that."
    if reason.today:
        yield "What follows is what the rules say of every node today."
    elif outcome.node and outcome.certain:
        yield "Certain: every run of the scheduler would choose this node."
    elif outcome.node:
        yield _by_lot(reason)
    if not outcome.node and outcome.reason:
        yield outcome.reason


def _by_lot(reason: PodReason) -> str:
    """What was drawn by lot on the way to this place, in a sentence."""
    feasible = sum(verdict.total is not None for verdict in reason.nodes)
    if reason.outcome.victims:
        return "One possible outcome: of nodes or victims that matter equally, some are drawn by lot."
    if feasible > 1:
        return f"One possible outcome: {feasible} nodes would do, and equal ones are drawn by lot."
    return "One possible outcome: the only node left, after lots were drawn for pods before it."


def _points(reason: PodReason) -> Section:
    """Points by rule of the nodes that would do."""
    fitting = [verdict for verdict in reason.nodes if verdict.total is not None]
    rules: dict[str, None] = {}
    for verdict in fitting:
        rules.update(dict.fromkeys(verdict.points))
    rows = tuple(_points_row(verdict, rules, chosen=reason.outcome.node) for verdict in fitting)
    figures = frozenset(range(1, len(rules) + 2))
    return Section("Nodes that would do, by points", table=Table(("node", *rules, "total"), rows, figures))


def _points_row(verdict: NodeVerdict, rules: Iterable[str], *, chosen: str) -> Row:
    name = f"{verdict.node} (chosen)" if verdict.node == chosen else verdict.node
    points = [str(verdict.points.get(rule, 0)) for rule in rules]
    return Row((name, *points, str(verdict.total)))


def _refusals(nodes: Sequence[NodeVerdict]) -> Section:
    """A row per node and rule that refuses the pod there."""
    rows: list[Row] = []
    for verdict in nodes:
        rows += [Row((verdict.node, refusal.rule, refusal.reason)) for refusal in verdict.refusals]
    return Section("Nodes that are refused", table=Table(("node", "rule", "reason"), tuple(rows)))


def pod_document(reason: PodReason) -> dict[str, Any]:
    """Why a pod is where it is, as JSON data."""
    outcome = reason.outcome
    return {
        "address": reason.address,
        "object": outcome.name,
        "kind": "pod",
        "workload": outcome.workload,
        "cluster": reason.cluster,
        "node": outcome.node or None,
        "machine": reason.machine or None,
        "availability_zone": reason.zone or None,
        "trigger": outcome.trigger,
        "certain": None if reason.today else outcome.certain,
        "reason": outcome.reason,
        "today": reason.today,
        "nodes": [_node_document(verdict) for verdict in reason.nodes],
    }


def _node_document(verdict: NodeVerdict) -> dict[str, Any]:
    return {
        "node": verdict.node,
        "total": verdict.total,
        "points": dict(verdict.points),
        "refusals": [{"rule": refusal.rule, "reason": refusal.reason} for refusal in verdict.refusals],
    }


_HEADS = ("pool", "SKU", "count", "racks", "VMs per rack")
_RULE = (
    'A rack is chosen by the fewest VMs of the pool (with rack_spread = "cluster": of the cluster first), '
    "then a machine by the fewest VMs of the cluster."
)


def pools_outline(address: str, pools: Sequence[PoolReason]) -> Outline:
    """One or several pools at an address. The first object of each is named as one to ask about."""
    several = len({pool.address for pool in pools}) > 1
    heads = ("cluster", *_HEADS) if several else _HEADS
    rows = tuple(_row(pool, several) for pool in pools)
    table = Table(heads, rows, frozenset({heads.index("count")}))
    sections = [Section("How its pools spread (expected / actual)", table=table)]
    sections += [_pool_section(pool, several) for pool in pools]
    examples = listed([pool.objects[0] for pool in pools if pool.objects], 4)
    ask = (
        f"Why one stands where it does, rule by rule: nexusform explain '{address}' OBJECT, such as "
        f"{examples}."
    )
    falls_short = any(pool.missing for pool in pools)
    return Outline(address, _verdict(pools), falls_short, (_RULE, ask), tuple(sections))


def _verdict(pools: Sequence[PoolReason]) -> str:
    """`24 VMs on 8 racks`, or how many of them stand."""
    racks: set[str] = set()
    for pool in pools:
        racks |= pool.table.actual_vms_per_rack.keys()
    total = sum(pool.table.total_count for pool in pools)
    missing = sum(pool.missing for pool in pools)
    vms = f"{total - missing:,} of {counted(total, 'VM')}" if missing else counted(total, "VM")
    return f"{vms} on {counted(len(racks), 'rack')}"


def _row(pool: PoolReason, several: bool) -> Row:
    """The figures of a pool, its cluster first where there are several."""
    row = table_row(pool.table)
    cluster, name, sku, count, racks, actual_racks, vms, actual_vms = row
    cells = (name, sku, count, f"{racks} / {actual_racks}", f"{vms} / {actual_vms}")
    return Row((cluster, *cells) if several else cells, pool.missing > 0)


def _pool_section(pool: PoolReason, several: bool) -> Section:
    """Racks, zones, causes and objects of one pool."""
    counts = pool.table.actual_vms_per_rack
    racks = ", ".join(f"{rack} {counts[rack]}" for rack in sorted(counts, key=natural))
    zones = ", ".join(sorted(pool.zones, key=natural)) if pool.zones else "all"
    lines = [f"Racks: {racks or 'none'}.", f"Availability zones: {zones}."]
    if pool.came:
        lines.append(f"Why they came: {'; '.join(_came(coming) for coming in pool.came)}.")
    lines.append(f"Objects: {listed(pool.objects, 5)}.")
    name = f"{pool.table.cluster}/{pool.table.pool}" if several else pool.table.pool
    return Section(name, tuple(lines))


def _came(coming: Coming) -> str:
    """`scale_out (3 VMs at serial 7)`."""
    when = "by this plan" if coming.serial is None else f"at serial {coming.serial}"
    return f"{coming.trigger} ({counted(coming.count, 'VM')} {when})"


def pools_document(address: str, pools: Sequence[PoolReason]) -> dict[str, Any]:
    """The pools of an object, as JSON data."""
    return {"address": address, "kind": "pools", "pools": [_pool_document(pool) for pool in pools]}


def _pool_document(pool: PoolReason) -> dict[str, Any]:
    return {
        "address": str(pool.address),
        **table_document(pool.table),
        "availability_zones": None if pool.zones is None else list(pool.zones),
        "came": [_coming_document(coming) for coming in pool.came],
        "objects": list(pool.objects),
    }


def _coming_document(coming: Coming) -> dict[str, Any]:
    return {"trigger": coming.trigger, "serial": coming.serial, "count": coming.count}
