"""Report of `simulate failure`, also of a drain (`-node`), as text and as data."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.domains.whatif.questions.failure_simulation import Failure, FailureScope
from nexusform.domains.whatif.questions.pod_outage import NodeDrainEffects
from nexusform.domains.whatif.rendering.runtime_upgrade_report import (
    ONE_OUTCOME,
    build_pending_lines,
    build_pool_document,
    build_pool_table,
    build_workload_document,
    build_workload_table,
)
from nexusform.placements.recreations import RecreatedPool
from nexusform.plans.site_capacity.occupancy import PoolAvailability, VmOwnerKind
from nexusform.rendering.answers.explanation_text import (
    build_replacement_document,
    format_short_location,
)
from nexusform.rendering.json.json_placements import build_consequence_document
from nexusform.rendering.notation.sample_text import (
    build_sampled_capacity,
    describe_sampled_capacity,
)
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.scheduling.racks.vms import Interval

_SCOPES: Final = {FailureScope.OBSERVED: "the machines observed down on"}
_DRAIN_HEADS: Final = ("pod", "workload", "new node")


def build_failure_report(failure: Failure, origin: str) -> Report:
    """Build the report: VMs down and remaining, commands, and re-created VMs."""
    sections: list[Section] = []
    if failure.pools:
        table = build_pool_table(failure.pools)
        sections.append(
            Section("Pools during the failure", table=table, is_finding=table.has_findings)
        )
    if failure.workloads:
        table = build_workload_table(failure.workloads, is_drained=False)
        lines = tuple(build_pending_lines(failure.workloads))
        has_findings = bool(failure.lost_workloads)
        sections.append(
            Section(
                "Workloads before any node returns", lines, table=table, is_finding=has_findings
            )
        )
    if failure.deletions:
        sections.append(_build_node_deletion_section(failure))
    runbook = build_failure_runbook(failure)
    if runbook:
        sections.append(
            Section("Runbook", tuple(f"{number}. {step}" for number, step in enumerate(runbook, 1)))
        )
    if failure.recreations:
        sections += [
            _build_recreation_section(failure),
            *map(_build_location_section, failure.recreations),
        ]
    return Report(
        title=(
            f"Loss of {_SCOPES.get(failure.scope, failure.scope.value)} {failure.lost} ({origin})"
        ),
        verdict=build_failure_summary(failure),
        is_finding=failure.has_findings,
        facts=tuple(_describe_recovery(failure)),
        sections=tuple(sections),
    )


def _build_recreation_section(failure: Failure) -> Section:
    """Build a row per pool: its re-created VMs with capacity elsewhere, and their racks.

    VMs are counted.
    """
    # With samples (layouts of unknown NUMA cells), the number of VMs without capacity has bounds.
    missing_counts = (
        failure.samples.pools if failure.samples is not None else [None] * len(failure.recreations)
    )
    rows: list[Row] = []
    for pool, sampled_count in zip(failure.recreations, missing_counts, strict=True):
        missing = sampled_count or Interval(pool.missing, pool.missing)
        fit = Interval(len(pool.vms) - missing.maximum, len(pool.vms) - missing.minimum)
        vms_by_rack = Counter(vm.placement.rack for vm in pool.vms if vm.placement is not None)
        racks = sorted(vms_by_rack, key=str.encode)
        rack_texts = [
            rack if vms_by_rack[rack] == 1 else f"{vms_by_rack[rack]} in {rack}" for rack in racks
        ]
        cells = (pool.cluster, pool.pool, f"{fit} of {len(pool.vms)}", format_list(rack_texts))
        rows.append(Row(cells, is_finding=missing.maximum > 0))
    reasons = tuple(
        f"{pool.cluster}/{pool.pool}: {pool.reason}" for pool in failure.recreations if pool.reason
    )
    table = Table(("cluster", "pool", "fit", "racks"), tuple(rows), number_columns=frozenset({2}))
    return Section(
        "Re-created VMs (predicted)", reasons, table=table, is_finding=table.has_findings
    )


def build_failure_summary(failure: Failure) -> str:
    """Build the summary: VMs down, losses, and capacity elsewhere."""
    if not failure.vm_count:
        return "Nothing goes down: no VM runs there."
    down_text = (
        f"{format_count(failure.vm_count, 'VM')} {select_word_form(failure.vm_count, 'is', 'are')} "
        "down"
    )
    if failure.scope in {FailureScope.CLUSTER, FailureScope.SITE}:
        return f"{down_text}. None of them is re-created elsewhere automatically."
    losses = [risk.text for risk in failure.risks]
    losses += [f"no pod of {impact.workload} runs" for impact in failure.lost_workloads]
    clauses = [
        down_text,
        format_list(losses, 4) if losses else "every control plane keeps its quorum",
    ]
    if failure.recreations:
        clauses.append(_describe_capacity_elsewhere(failure))
    return "; ".join(clauses) + "."


def _describe_capacity_elsewhere(failure: Failure) -> str:
    """Describe if every re-created node has capacity elsewhere.

    If NUMA cells are unknown, the text also says how certain that is.
    """
    samples = failure.samples
    missing = failure.missing if samples is None else samples.missing_count.maximum
    if not missing:
        return "every node fits elsewhere"
    if samples is None or samples.missing_count.is_exact:
        return (
            f"{format_count(missing, 'VM')} {select_word_form(missing, 'fits', 'fit')} nowhere else"
        )
    return (
        f"{samples.missing_count} VMs fit nowhere else; everything fits in "
        f"{samples.numa_sampling.fitting_count:,} of {samples.numa_sampling.sample_count:,} "
        "samples (NUMA use unknown)"
    )


def _describe_recovery(failure: Failure) -> Iterable[str]:
    """Build sentences about automatic and manual recovery."""
    # The title does not name these machines.
    if failure.scope in {FailureScope.RACK, FailureScope.OBSERVED}:
        yield (
            f"{format_count(len(failure.machines), 'machine')}: {format_list(failure.machines, 4)}."
        )
    if failure.machines_down:
        names = format_list(failure.machines_down, 4)
        verb = select_word_form(len(failure.machines_down), "is", "are")
        yield (
            f"{format_count(len(failure.machines_down), 'other machine')} {verb} down already, "
            f"with all VMs: {names}."
        )
    # NKS nodes to delete.
    if failure.deletions:
        yield (
            "Azure does not re-create VMs on its own. It re-creates one elsewhere once its node is "
            "deleted. That takes up to 30 minutes and may leave racks unbalanced. If the machine "
            "returns first, its VMs start there again."
        )
    # Some NUMA cells are unknown.
    if failure.samples is not None:
        yield f"NUMA cells: {describe_sampled_capacity(failure.samples)}"
    waiting_texts = list(map(_describe_waiting_vms, failure.stay_down))
    if waiting_texts:
        yield f"Down until the machine returns: {format_list(waiting_texts)}."
    if failure.unmanaged_vms:
        yield f"Outside nexusform, down: {format_list(failure.unmanaged_vms)}."


def _describe_waiting_vms(pool: PoolAvailability) -> str:
    """Describe VMs down until their machine returns.

    A command re-creates one (NAME) elsewhere.
    """
    if pool.kind is VmOwnerKind.VM:
        return (
            f"{pool.cluster} (to re-create elsewhere: `nexusform apply -replace='{pool.address}'`)"
        )
    names = format_list((vm.name for vm in pool.down_vms), 3)
    return f"{names} (to re-create elsewhere: `nexusform apply -replace='{pool.address}:NAME'`)"


def _build_node_deletion_section(failure: Failure) -> Section:
    """Build the section of commands for the re-creation of nodes elsewhere."""
    unreachable = failure.unreachable_clusters
    lines = []
    if unreachable:
        names = format_list(unreachable)
        lines.append(
            f"Without quorum the control plane of {names} is down: recover a machine first."
        )
    commands: list[str] = []
    for deletion in failure.deletions:
        note = "" if deletion.is_reachable else ", no quorum"
        commands.append(f"# {deletion.cluster} ({format_count(len(deletion.nodes), 'node')}{note})")
        commands.append(deletion.command)
    title = "Delete these nodes to have Azure re-create them elsewhere"
    return Section(title, tuple(lines), commands=tuple(commands))


def build_failure_runbook(failure: Failure) -> list[str]:
    """Build the steps of an operator, from the failure to the final check.

    There are none if no machine or no VM is lost.
    """
    return list(_build_runbook_steps(failure)) if failure.machines and failure.vm_count else []


def _build_runbook_steps(failure: Failure) -> Iterator[str]:
    """Yield the steps.

    Deleting nodes comes after a check: a machine back soon restarts its VMs.
    """
    machines = format_list(failure.machines, 4)
    verb = select_word_form(len(failure.machines), "is", "are")
    yield (
        f"Check that {machines} {verb} down for good (`az networkcloud baremetalmachine show`: "
        "powerState, readyState). A machine that returns soon restarts its VMs."
    )
    return_text = select_word_form(len(failure.machines), "it returns", "they return")
    yield f"Cordon {machines} to keep new VMs off when {return_text}."
    if failure.unreachable_clusters:
        clusters = format_list(failure.unreachable_clusters)
        yield f"Recover a machine for {clusters} first. Without quorum its nodes cannot be deleted."
    if failure.missing:
        pools = ", ".join(
            f"{pool.cluster}/{pool.pool}" for pool in failure.recreations if pool.missing
        )
        yield (
            f"{format_count(failure.missing, 'VM')} ({pools}) will not fit. Free capacity first "
            "(`nexusform simulate repack`), or keep their nodes until the machine returns."
        )
    for deletion in failure.deletions:
        if deletion.is_reachable:
            yield (
                f"{deletion.cluster}: delete {format_count(len(deletion.nodes), 'node')} with the "
                "command above."
            )
    for pool in failure.stay_down:
        yield f"Down until the machine returns: {_describe_waiting_vms(pool)}."
    if failure.deletions:
        yield (
            "Wait until the new nodes are Ready (up to 30 minutes). Compare their machines with "
            "the tables below."
        )
    yield (
        "Run `nexusform plan` to see which VMs are not where recorded. Record them with `nexusform "
        "apply -refresh-only`."
    )
    recovery_text = select_word_form(len(failure.machines), "the machine is", "the machines are")
    yield f"When {recovery_text} back, uncordon. No VM moves back automatically."


def _build_location_section(pool: RecreatedPool) -> Section:
    """Build a row per re-created node with its old and new location.

    One without capacity is a finding.
    """
    rows = []
    for replacement in pool.vms:
        vm = replacement.vm
        location = replacement.placement
        location_text = format_short_location(location) if location is not None else "no capacity"
        rows.append(
            Row(
                (vm.name, format_short_location(vm.placement), location_text),
                is_finding=location is None,
            )
        )
    table = Table(("node", "was on", "re-created on"), tuple(rows))
    return Section(
        f"{pool.cluster}/{pool.pool}", table=table, is_folded=True, is_finding=pool.missing > 0
    )


def build_failure_document(failure: Failure) -> dict[str, Any]:
    """Build a failure as JSON data."""
    return {
        "site_id": failure.site_id,
        "scope": failure.scope.value,
        "lost": failure.lost,
        "machines": list(failure.machines),
        "vms_down": failure.vm_count,
        "risks": [build_consequence_document(risk) for risk in failure.risks],
        "pools": [build_pool_document(pool) for pool in failure.pools],
        "vms_that_stay_down": [
            {"address": str(item.address), "vms": [down_vm.name for down_vm in item.down_vms]}
            for item in failure.stay_down
        ],
        "outside_vms_down": list(failure.unmanaged_vms),
        "workloads": [
            build_workload_document(workload, is_drained=False) for workload in failure.workloads
        ],
        "runbook": build_failure_runbook(failure),
        "delete_nodes": [
            {
                "cluster_id": deletion.cluster_id,
                "machines": list(deletion.machines),
                "command": deletion.command,
                "nodes": list(deletion.nodes),
                "control_plane_answers": deletion.is_reachable,
            }
            for deletion in failure.deletions
        ],
        "vms_without_capacity": failure.missing,
        "recreations": [
            {
                "cluster_id": recreation.cluster_id,
                "pool": recreation.pool,
                "vm_sku_name": recreation.sku,
                "reason": recreation.reason or None,
                "nodes": [build_replacement_document(vm) for vm in recreation.vms],
            }
            for recreation in failure.recreations
        ],
        "samples": None if failure.samples is None else build_sampled_capacity(failure.samples),
    }


def build_drain_report(drain: NodeDrainEffects, origin: str) -> Report:
    """Build the report: evicted pods with their new nodes, and the workloads."""
    moves = [(impact, move) for impact in drain.workloads for move in impact.moves]
    sections = []
    summary = "No pod to evict runs there."
    if moves:
        rows = tuple(
            Row(
                (
                    move.pod,
                    impact.workload,
                    (move.node or "none") + ("" if move.is_certain else " *"),
                )
            )
            for impact, move in moves
        )
        is_certain = all(move.is_certain for _, move in moves)
        note = () if is_certain else (f"* {ONE_OUTCOME}",)
        sections.append(Section("Evicted pods", note, table=Table(_DRAIN_HEADS, rows)))
        table = build_workload_table(drain.workloads, is_drained=True)
        lines = build_pending_lines(drain.workloads)
        for impact in drain.workloads:
            budgets = zip(impact.blocking_budgets, impact.blocking_reasons, strict=True)
            lines += [
                f"{impact.workload}: PodDisruptionBudget {name}: {reason}"
                for name, reason in budgets
            ]
        is_finding = bool(drain.lost_workloads)
        sections.append(
            Section("Workloads during the drain", tuple(lines), table=table, is_finding=is_finding)
        )
        # Summarize the evicted pods, the losses, and the budgets in the way of the drain.
        placed_count = sum(bool(move.node) for _, move in moves)
        placed_text = f"{placed_count} of them {select_word_form(placed_count, 'gets', 'get')}"
        clauses = [f"{format_count(len(moves), 'pod')} to evict; {placed_text} another node"]
        names = [impact.workload for impact in drain.lost_workloads]
        clauses.append(
            f"capacity drops for {format_list(names, 4)}" if names else "no workload loses capacity"
        )
        if drain.blocking_budgets:
            clauses.append(f"the drain waits for {format_list(drain.blocking_budgets, 4)}")
        summary = "; ".join(clauses) + "."
    return Report(
        title=f"Drain of {drain.node} of {drain.cluster_id} ({origin})",
        verdict=summary,
        is_finding=bool(drain.lost_workloads or drain.blocking_budgets),
        sections=tuple(sections),
    )


def build_drain_document(drain: NodeDrainEffects) -> dict[str, Any]:
    """Build the JSON object of the effects of draining a node."""
    return {
        "cluster_id": drain.cluster_id,
        "node": drain.node,
        "budgets": list(drain.blocking_budgets),
        "workloads": [
            build_workload_document(workload, is_drained=True) for workload in drain.workloads
        ],
    }
