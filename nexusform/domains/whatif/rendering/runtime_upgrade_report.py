"""Report of `simulate runtime-upgrade`.

The module also renders workloads with lost pods for the reports of upgrades, failures and drains.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.diagnostics.phrases import enclose, format_count, format_list, select_word_form
from nexusform.domains.whatif.questions.pod_outage import (
    WorkloadImpact,
    WorkloadOutcome,
    WorkloadVerdict,
)
from nexusform.domains.whatif.questions.runtime_upgrade import (
    DRAIN_MINUTES,
    UNHEALTHY_MINUTES,
    RuntimeUpgrade,
    UpgradeStrategy,
    UpgradeWave,
)
from nexusform.plans.site_capacity.occupancy import PoolOutages, PoolOutcome
from nexusform.plans.site_capacity.site_resource_capacity import RuntimeVersion
from nexusform.rendering.answers.explanation_text import format_spans
from nexusform.rendering.report.loss_sections import build_pool_table, get_pool_name
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_WORKLOADS: Mapping[str, str] = {"True": "workloads are affected", "False": "workloads run on"}
_WAVE_HEADS: Final = ("wave", "rack", "machines", "VMs down", "")
# Number of columns of the timeline.
_MAX_WAVES = 24


def build_runtime_upgrade_report(upgrades: Sequence[RuntimeUpgrade], origin: str) -> Report:
    """Build the report of all sites, one after another."""
    sections: list[Section] = []
    facts: list[str] = []
    for upgrade in upgrades:
        prefix = f"{upgrade.site_id}: " if len(upgrades) > 1 else ""
        facts += [f"{prefix}{fact}" for fact in _describe_upgrade(upgrade)]
        if upgrade.workloads:
            sections.append(build_verdict_section(upgrade.workloads, prefix))
        rows = tuple(map(_build_verdict_row, upgrade.pools))
        heads = ("cluster", "pool", "VMs", "min up", "down in waves", "verdict")
        table = Table(heads, rows, number_columns=frozenset({2, 3}))
        sections.append(
            Section(
                f"{prefix}Verdict by pool",
                table=table,
                is_finding=upgrade.is_availability_lost,
                name="pools",
            )
        )
        if upgrade.waves:
            sections.append(_build_wave_list_section(upgrade, prefix))
        # The table has a column for each.
        if 0 < len(upgrade.waves) <= _MAX_WAVES:
            sections.append(_build_vms_up_section(upgrade, prefix))
        for wave in upgrade.waves:
            sections.append(_build_wave_section(wave, prefix))
            if wave.workloads:
                table = build_workload_table(wave.workloads, is_drained=upgrade.options.drain)
                lines = tuple(build_pending_lines(wave.workloads))
                title = f"{prefix}Wave {wave.outage.number}: pods"
                sections.append(
                    Section(
                        title,
                        lines,
                        table=table,
                        is_folded=True,
                        is_finding=table.has_findings,
                        name="wave_workloads",
                    )
                )
    names = format_list(upgrade.site_id for upgrade in upgrades)
    has_findings = any(upgrade.has_findings for upgrade in upgrades)
    title = f"Runtime upgrade of {names} ({origin})"
    return Report(
        title, _build_summary(upgrades), has_findings, facts=tuple(facts), sections=tuple(sections)
    )


def _build_summary(upgrades: Sequence[RuntimeUpgrade]) -> str:
    """Build the summary: losses of pools and workloads, or else Pending pods.

    Predicted stops of upgrades follow.
    """
    losses: list[str] = []
    workloads: list[WorkloadVerdict] = []
    stops: list[str] = []
    for upgrade in upgrades:
        stop = upgrade.stop
        if stop is not None:
            names = format_list((f"{name} ({reason})" for name, reason in stop.unhealthy), 4)
            number = len(stop.unhealthy)
            stops.append(
                f"It would stop now at {stop.rack}, after wave {stop.waves}: {number} of its "
                f"{format_count(stop.machines, 'machine')} {select_word_form(number, 'is', 'are')} "
                f"unhealthy and not expected back; {stop.max_failed} may stay down: {names}."
            )
        losses += [risk.text for risk in upgrade.plan.impact.consequences if risk.is_risk]
        workloads += upgrade.workloads
    for workload in workloads:
        if workload.outcome is WorkloadOutcome.LOST:
            losses.append(
                f"no pod of {workload.workload} runs in wave {format_spans(workload.waves)}"
            )
    stop_text = enclose(" ", " ".join(stops))
    if losses:
        return f"Availability is lost: {format_list(losses, 4)}.{stop_text}"
    text = "every control plane keeps its quorum, and every pool keeps nodes, in every wave"
    pending = [
        f"up to {format_count(workload.maximum_pending, 'pod')} of {workload.workload} Pending"
        for workload in workloads
        if workload.maximum_pending
    ]
    return (
        "Availability is kept: "
        f"{'; '.join([text, format_list(pending, 4)] if pending else [text])}.{stop_text}"
    )


def _describe_upgrade(upgrade: RuntimeUpgrade) -> Iterable[str]:
    """Build sentences about the upgrade."""
    yield from _describe_versions(upgrade.runtime)
    options = upgrade.options
    batch_text = "all machines of a rack at once"
    if options.max_unavailable is not None:
        batch_text = f"at most {format_count(options.max_unavailable, 'machine')} of a rack at once"
    yield (
        f"{format_count(len(upgrade.racks), 'rack')} by name (byte order), {batch_text}: "
        f"{format_count(len(upgrade.waves), 'wave')}. The next wave starts when every machine is "
        f"back. Azure allows up to {upgrade.hours} hours."
    )
    if options.is_from_site:
        yield "The site's update_strategy applies, except where flags override it."
    if options.wait_minutes:
        yield f"After each rack it waits {format_count(options.wait_minutes, 'minute')}."
    yield from _describe_abort_conditions(upgrade)
    if upgrade.unexpected_order:
        earlier, later = upgrade.unexpected_order
        yield f"Rack order: {earlier} is before {later}, because names are compared byte by byte."
    if options.strategy is UpgradeStrategy.PAUSE_AFTER_RACK:
        # Describe the pauses and the command to continue.
        # A rack's first wave is set last.
        first_waves = {wave.rack: wave.outage.number for wave in reversed(upgrade.waves)}
        racks = [f"wave {first_waves[rack]} ({rack})" for rack in upgrade.racks]
        before = enclose(": before ", format_list(racks), ", and after the last rack")
        yield (
            "PauseAfterRack: the upgrade waits before the first rack and after every "
            f"rack{before}. Continue it each time with `az networkcloud cluster "
            "continue-update-version --name CLUSTER --resource-group GROUP`."
        )
    yield _describe_drain(is_drained=options.drain)
    yield ("No new NKS VM is created meanwhile. Each VM restarts on its machine when that is back.")
    if not upgrade.workloads:
        yield ("Pods are unknown, so they are not simulated.")


def _describe_versions(runtime: RuntimeVersion | None) -> Iterable[str]:
    """Describe current version and offered upgrades."""
    # The site does not state versions.
    if runtime is None:
        return
    if runtime.version:
        yield f"The machines run version {runtime.version}."
    if not runtime.offers:
        yield "Azure offers no newer version."
    for offer in runtime.offers:
        # Each text, and the value without which it is omitted.
        parts = (
            (f"expected to take {offer.duration}", offer.duration),
            (
                _WORKLOADS.get(offer.workload_impact, f"workloads: {offer.workload_impact}"),
                offer.workload_impact,
            ),
            (f"supported until {offer.supported_until}", offer.supported_until),
            (offer.impact.rstrip("."), offer.impact),
        )
        details = "; ".join(text for text, value in parts if value)
        yield f"Azure offers version {offer.version}{enclose(' (', details, ')')}."


def _describe_abort_conditions(upgrade: RuntimeUpgrade) -> Iterable[str]:
    """Describe the conditions of an abort."""
    options = upgrade.options
    # Number of machines by rack.
    sizes: dict[str, int] = {}
    for wave in upgrade.waves:
        sizes[wave.rack] = sizes.get(wave.rack, 0) + len(wave.outage.machines)
    max_failed_by_rack = {rack: options.compute_max_failed(size) for rack, size in sizes.items()}
    limits = sorted({number for number in max_failed_by_rack.values() if number is not None})
    # The site's threshold is not known.
    if not limits:
        return
    unit = " per cent" if options.is_percentage else ""
    limit_text = (
        limits[0] if len(limits) == 1 else f"{limits[0]} to {limits[-1]}, by the size of the rack,"
    )
    yield (
        f"The upgrade stops at a rack where fewer than {options.threshold}{unit} of the machines "
        f"return: {limit_text} {select_word_form(limits[-1], 'machine')} of a rack may stay down. "
        "Upgraded racks keep the new version, later racks the old one."
    )


def _describe_drain(*, is_drained: bool) -> str:
    """Describe the handling of pods before a machine shutdown."""
    if is_drained:
        return (
            "Nodes are cordoned and drained before their machine goes down, for at most "
            f"{DRAIN_MINUTES} minutes each; PodDisruptionBudgets are respected until then. Pods "
            "that fit on no other node stay Pending."
        )
    return (
        "-drain=false: machines are powered off without a drain. After "
        f"{format_count(UNHEALTHY_MINUTES, 'minute')} without contact their pods are unhealthy. "
        "They are re-created where other nodes have capacity."
    )


def _build_verdict_row(outages: PoolOutages) -> Row:
    """Build the row of a pool: VMs, fewest VMs up, waves with VMs down, and the result."""
    pool = outages.worst
    result = outages.outcome.value
    is_lost = outages.outcome is PoolOutcome.LOST
    if pool.is_control_plane:
        result = f"quorum {result} (needs {pool.quorum})"
    elif is_lost:
        result = f"{result}: no node left"
    waves = format_spans(outage.number for outage in outages.outages)
    counts = (f"{pool.total:,}", str(pool.remaining_count))
    cells = (pool.cluster, get_pool_name(pool), *counts, waves, result)
    return Row(cells, is_finding=is_lost)


def _build_vms_up_section(upgrade: RuntimeUpgrade, prefix: str) -> Section:
    """Build the section of VMs up by pool and wave.

    `.` means all of them, and `!` a lost quorum or pool.
    """
    rows = []
    for outages in upgrade.pools:
        counts = ["."] * len(upgrade.waves)
        for outage, pool in zip(outages.outages, outages.pools, strict=True):
            mark = "!" if pool.is_lost else ""
            counts[outage.number - 1] = f"{pool.remaining_count:,}{mark}"
        pool = outages.worst
        cells = (pool.cluster, get_pool_name(pool), f"{pool.total:,}", *counts)
        rows.append(Row(cells, is_finding=outages.outcome is PoolOutcome.LOST))
    heads = ("cluster", "pool", "VMs", *(str(wave.outage.number) for wave in upgrade.waves))
    legend = (
        ". = all up; ! = quorum lost, or no node left."
        if upgrade.is_availability_lost
        else ". = all up."
    )
    table = Table(heads, tuple(rows), number_columns=frozenset(range(2, len(heads))))
    return Section(f"{prefix}VMs up in each wave", (legend,), table=table, name="vms_up")


def _build_wave_list_section(upgrade: RuntimeUpgrade, prefix: str) -> Section:
    """Build a row per wave: its rack, the numbers of its machines and of VMs down."""
    rows = tuple(
        Row(
            (
                str(wave.outage.number),
                wave.rack,
                f"{len(wave.outage.machines):,}",
                f"{wave.vm_count:,}",
                f"part {wave.batch} of {wave.batches}" if wave.batches > 1 else "",
            ),
            is_finding=wave.is_lost,
        )
        for wave in upgrade.waves
    )
    table = Table(_WAVE_HEADS, rows, number_columns=frozenset({0, 2, 3}))
    return Section(f"{prefix}Waves", table=table, is_folded=True, name="waves")


def _build_wave_section(wave: UpgradeWave, prefix: str) -> Section:
    """Build the section of pools with VMs down in one wave."""
    outage = wave.outage
    batch_text = "" if wave.batches == 1 else f", part {wave.batch} of {wave.batches}"
    counts_text = (
        f"{format_count(len(outage.machines), 'machine')}, {format_count(wave.vm_count, 'VM')} down"
    )
    title = f"{prefix}Wave {outage.number}: {wave.rack}{batch_text}, {counts_text}"
    lines = []
    if wave.unmanaged_vms:
        lines.append(f"Outside nexusform: {format_list(wave.unmanaged_vms)} down.")
    table = build_pool_table(outage.pools) if outage.pools else None
    return Section(
        title, tuple(lines), table=table, is_folded=True, is_finding=wave.is_lost, name="wave"
    )


def build_workload_table(impacts: Iterable[WorkloadImpact], *, is_drained: bool) -> Table:
    """Build a row per workload: pods before, at once, meanwhile, and pending.

    `build_pending_lines` explains the mark of uncertain outcomes.
    """
    rows = []
    for impact in impacts:
        outcome = impact.determine_outcome(is_drained=is_drained)
        figures = (impact.before, impact.at_once, impact.running, impact.pending)
        cluster_name = impact.cluster_id.rpartition("/")[2]  # of <site>/<name>
        outcome_text = outcome.value if impact.is_certain else f"{outcome.value} *"
        cells = (cluster_name, impact.workload, *map(str, figures), outcome_text)
        rows.append(Row(cells, is_finding=outcome is WorkloadOutcome.LOST))
    heads = ("cluster", "workload", "ran", "at once", "then", "Pending", "")
    return Table(heads, tuple(rows), number_columns=frozenset({2, 3, 4, 5}))


def build_pending_lines(impacts: Sequence[WorkloadImpact]) -> list[str]:
    """Build a line about uncertain outcomes, and one per workload and reason of pending pods.

    The latter names the cluster if there are several.
    """
    lines: list[str] = []
    if not all(impact.is_certain for impact in impacts):
        lines.append(f"* {ONE_OUTCOME}")
    has_several_clusters = len({impact.cluster_id for impact in impacts}) > 1
    for impact in impacts:
        workload = impact.workload
        if has_several_clusters:
            # The id is <site>/<name>
            workload = f"{impact.cluster_id.rpartition('/')[2]}: {workload}"
        pods_by_reason: dict[str, list[str]] = {}
        for move in impact.moves:
            if not move.node:
                pods_by_reason.setdefault(move.reason, []).append(move.pod)
        lines += [
            f"{workload}: {format_list(pods, 4)}: {reason}"
            for reason, pods in pods_by_reason.items()
        ]
    return lines


def build_verdict_section(verdicts: Sequence[WorkloadVerdict], prefix: str) -> Section:
    """Build the section of workloads, with the result of each over all waves."""
    rows = []
    for verdict in verdicts:
        pods = (
            verdict.replicas,
            verdict.minimum_at_once,
            verdict.minimum_running,
            verdict.maximum_pending,
        )
        outcome_text = verdict.outcome.value if verdict.is_certain else f"{verdict.outcome.value} *"
        cluster_name = verdict.cluster_id.rpartition("/")[2]  # of <site>/<name>
        cells = (cluster_name, verdict.workload, *map(str, pods))
        is_lost = verdict.outcome is WorkloadOutcome.LOST
        rows.append(
            Row((*cells, format_spans(verdict.waves) or "-", outcome_text), is_finding=is_lost)
        )
    heads = ("cluster", "workload", "pods", "at once", "then", "Pending", "waves", "verdict")
    table = Table(heads, tuple(rows), number_columns=frozenset({2, 3, 4, 5}))
    lines = [_COLUMN_NOTE]
    if not all(verdict.is_certain for verdict in verdicts):
        lines.append(f"* {ONE_OUTCOME}")
    lines += [
        f"{format_list(verdict.blocking_budgets)} cannot be respected for {verdict.workload}: "
        "drains time out, then "
        "the pods lose power."
        for verdict in verdicts
        if verdict.blocking_budgets
    ]
    return Section(
        f"{prefix}Verdict by workload",
        tuple(lines),
        table=table,
        is_finding=table.has_findings,
        name="workloads",
    )


ONE_OUTCOME: Final = (
    "One possible outcome: kube-scheduler picks randomly among equal nodes, or a fact of the "
    "cluster is not known."
)
_COLUMN_NOTE = (
    "Minimum over all waves. At once: pods running when the nodes go down; then: after "
    "replacements. Pending pods restart when their nodes return."
)
