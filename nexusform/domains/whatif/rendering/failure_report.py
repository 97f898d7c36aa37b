"""Report of `simulate failure`, also of a drain (`-node`)."""

from collections.abc import Iterable, Iterator
from typing import Final

from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.domains.whatif.questions.failure_simulation import Failure, FailureScope
from nexusform.domains.whatif.questions.pod_outage import NodeDrainEffects, WorkloadImpact
from nexusform.domains.whatif.rendering.runtime_upgrade_report import (
    ONE_OUTCOME,
    build_pending_lines,
    build_workload_table,
)
from nexusform.rendering.report.loss_sections import (
    build_loss_section,
    build_pool_table,
    describe_waiting_vms,
)
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_SCOPES: Final = {FailureScope.OBSERVED: "the machines observed down on"}
_POD_HEADS: Final = ("pod", "workload", "was on", "new node", "reason")
_BUDGET_HEADS: Final = ("PodDisruptionBudget", "workload", "reason")


def build_failure_report(failure: Failure, origin: str) -> Report:
    """Build the report: the loss, workloads, and the steps of an operator."""
    sections: list[Section] = []
    if failure.scope in {FailureScope.CLUSTER, FailureScope.SITE}:
        table = build_pool_table(failure.pools)
        sections.append(
            Section("Pools during the failure", table=table, is_finding=table.has_findings)
        )
    elif failure.vm_count:
        sections.append(build_loss_section(failure))
    if failure.workloads:
        table = build_workload_table(failure.workloads, is_drained=False)
        lines = tuple(build_pending_lines(failure.workloads))
        has_findings = bool(failure.lost_workloads)
        sections.append(
            Section(
                "Workloads before any node returns",
                lines,
                table=table,
                is_finding=has_findings,
                name="workloads",
            )
        )
        table = _build_move_table(failure.workloads)
        sections.append(Section("Lost pods", table=table, is_folded=True, name="pods"))
    runbook = build_failure_runbook(failure)
    if runbook:
        steps = tuple(f"{number}. {step}" for number, step in enumerate(runbook, 1))
        sections.append(Section("Runbook", steps, name="runbook"))
    return Report(
        title=(
            f"Loss of {_SCOPES.get(failure.scope, failure.scope.value)} {failure.lost} ({origin})"
        ),
        verdict=build_failure_summary(failure),
        is_finding=failure.has_findings,
        sections=tuple(sections),
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
        later = min(failure.missing_until_fix, missing)
        counts = {"only after a change (tested)": later, "nowhere else": missing - later}
        return "; ".join(
            f"{format_count(count, 'VM')} {select_word_form(count, 'fits', 'fit')} {place}"
            for place, count in counts.items()
            if count
        )
    return (
        f"{samples.missing_count} VMs fit nowhere else; everything fits in "
        f"{samples.numa_sampling.fitting_count:,} of {samples.numa_sampling.sample_count:,} "
        "samples (NUMA use unknown)"
    )


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
    for recreated_pool in failure.recreations:
        if recreated_pool.missing:
            remedy = (
                "Apply one of the changes above first"
                if recreated_pool.fixes
                else "Free capacity first (`nexusform simulate repack`)"
            )
            vms = format_count(recreated_pool.missing, "VM")
            yield (
                f"{vms} of {recreated_pool.cluster}/{recreated_pool.pool} will not fit. {remedy}, "
                "or keep the nodes until the machine returns."
            )
    for deletion in failure.deletions:
        if deletion.is_reachable:
            yield (
                f"{deletion.cluster}: delete {format_count(len(deletion.nodes), 'node')} with the "
                "command above."
            )
    for pool in failure.stay_down:
        yield f"Down until the machine returns: {describe_waiting_vms(pool, failure)}."
    if failure.deletions:
        yield (
            "Wait until the new nodes are Ready (up to 30 minutes). Compare their machines with "
            "the table of VMs."
        )
    yield (
        "Run `nexusform plan` to see which VMs are not where recorded. Record them with `nexusform "
        "apply -refresh-only`."
    )
    recovery_text = select_word_form(len(failure.machines), "the machine is", "the machines are")
    yield f"When {recovery_text} back, uncordon. No VM moves back automatically."


def _build_move_table(impacts: Iterable[WorkloadImpact]) -> Table:
    """Build a row per affected pod: its nodes before and meanwhile, and why it has none."""
    rows = tuple(
        Row(
            (
                move.pod,
                impact.workload,
                move.old_node,
                (move.node or "none") + ("" if move.is_certain else " *"),
                move.reason,
            ),
            is_finding=not move.node,
        )
        for impact in impacts
        for move in impact.moves
    )
    return Table(_POD_HEADS, rows)


def build_drain_report(drain: NodeDrainEffects, origin: str) -> Report:
    """Build the report: evicted pods with their new nodes, and the workloads."""
    moves = [move for impact in drain.workloads for move in impact.moves]
    sections = []
    summary = "No pod to evict runs there."
    if moves:
        is_certain = all(move.is_certain for move in moves)
        note = () if is_certain else (f"* {ONE_OUTCOME}",)
        table = _build_move_table(drain.workloads)
        sections.append(Section("Evicted pods", note, table=table, name="pods"))
        table = build_workload_table(drain.workloads, is_drained=True)
        lines = tuple(build_pending_lines(drain.workloads))
        is_finding = bool(drain.lost_workloads)
        sections.append(
            Section("Workloads during the drain", lines, table=table, is_finding=is_finding)
        )
        budgets = tuple(
            Row((name, impact.workload, reason), is_finding=True)
            for impact in drain.workloads
            for name, reason in zip(impact.blocking_budgets, impact.blocking_reasons, strict=True)
        )
        table = Table(_BUDGET_HEADS, budgets)
        sections.append(Section("Blocking budgets", table=table, is_finding=bool(budgets)))
        # Summarize the evicted pods, the losses, and the budgets in the way of the drain.
        placed_count = sum(bool(move.node) for move in moves)
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
        sections=tuple(section for section in sections if section.has_content),
    )
