"""Report of `simulate fleet`, as text and as data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_list,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState, ResourceUsage
from nexusform.domains.pods.pod_kind import PodLocation
from nexusform.domains.whatif.questions.fleet_simulation import (
    FleetSimulation,
    MemberCapacity,
    PlacementOutcome,
)
from nexusform.json_data.record_forms import RecordForm, build_row_form
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_RESOURCES: Final = ("cpu", "memory")
_MAX_PODS: Final = 20
# limit for a row per placement.
_MAX_ROWS: Final = 20
_MAX_SENTENCES: Final = 60


def build_fleet_report(simulation: FleetSimulation, origin: str) -> Report:
    """Build the report: placement changes with reasons, pods, and remaining capacity."""
    selected = select_placements(simulation)
    rows = tuple(map(_build_placement_row, selected))
    table = (
        Table(("placement", "policy", "clusters", "added to", "removed from", ""), rows)
        if rows
        else None
    )
    other_lines = _build_other_placements_line(simulation, len(selected))
    section = Section(
        "Placements", lines=other_lines, table=table, is_finding=any(row.is_finding for row in rows)
    )
    sections = [
        section,
        *_build_reason_section(simulation),
        *_build_kept_cluster_sections(simulation),
    ]
    sections += [*_build_pod_section(simulation), *_build_capacity_section(simulation)]
    edits = format_list((edit.text for edit in simulation.edits), 3)
    placements = simulation.placements
    if not placements:
        summary = "Nothing changes: there is no placement."
    else:
        changes_text = f"No placement changes ({len(placements):,} checked)"
        changed_count = sum(map(_has_cluster_changes, placements))
        if changed_count:
            verb = select_word_form(changed_count, "changes", "change")
            changes_text = (
                f"{changed_count:,} of {format_count(len(placements), 'placement')} {verb}"
            )
        summary = f"{'; '.join([changes_text, *_describe_findings(simulation)])}."
    title = f"Fleet: {edits} ({origin})"
    facts = tuple(_build_notes(simulation))
    return Report(
        title, summary, is_finding=simulation.has_findings, facts=facts, sections=tuple(sections)
    )


def _describe_findings(simulation: FleetSimulation) -> Iterator[str]:
    """Describe each finding in a clause."""
    placements = simulation.placements
    unfulfilled = [placement.after.key for placement in placements if placement.falls_short]
    if unfulfilled:
        verb = select_word_form(len(unfulfilled), "falls", "fall")
        yield f"{format_list(unfulfilled, 4)} {verb} short"
    empty = [placement.after.key for placement in placements if placement.loses_all_clusters]
    if empty:
        verb = select_word_form(len(empty), "is", "are")
        yield f"{format_list(empty, 4)} {verb} no longer on any cluster"
    for placement in placements:
        if placement.abort is not None:
            cluster_text = enclose(" at ", placement.abort.cluster)
            yield f"the scheduler stops{cluster_text} for {placement.after.key}"
    pending_count = sum(len(placement.pending) for placement in placements)
    if pending_count:
        verb = select_word_form(pending_count, "finds", "find")
        yield f"{format_count(pending_count, 'pod')} {verb} no node"
    # although it is drained.
    for key, cluster in simulation.remaining:
        yield f"{key} stays on {cluster}"


def _build_notes(simulation: FleetSimulation) -> Iterator[str]:
    """Build sentences about warnings, and about placements waiting for a staged update run.

    Strategy External.
    """
    for warning in simulation.warnings:
        prefix = enclose("", warning.address, ": ")
        yield f"{prefix}{' '.join(warning.detail.split())}"
    waiting_placements: list[str] = []
    for placement in simulation.placements:
        changed_clusters = {*placement.gained, *placement.lost}
        # A staged update run still has to apply a changed binding that is not Bound yet.
        has_unbound_change = any(
            isinstance(row.target, Binding) and row.target.state is not BindingState.BOUND
            for row in placement.rows
            if row.object in changed_clusters
        )
        if placement.after.is_external and has_unbound_change:
            waiting_placements.append(placement.after.key)
    if waiting_placements:
        yield (
            f"{format_list(waiting_placements, 4)}: the strategy is External. Clusters change "
            "only when "
            "a staged update run applies it."
        )


def _has_cluster_changes(placement: PlacementOutcome) -> bool:
    """Return True if clusters are added or removed."""
    return bool(placement.gained or placement.lost)


def select_placements(simulation: FleetSimulation) -> Sequence[PlacementOutcome]:
    """Select all placements, or those with changes or findings if there are many."""
    placements = simulation.placements
    if len(placements) <= _MAX_ROWS:
        return placements
    return [
        placement
        for placement in placements
        if _has_cluster_changes(placement) or placement.has_findings
    ]


def _build_other_placements_line(simulation: FleetSimulation, row_count: int) -> tuple[str, ...]:
    """Build the line about placements without a row; () if every placement has one."""
    other_count = len(simulation.placements) - row_count
    if not other_count:
        return ()
    noun = "other placement" if row_count else "placement"
    text = (
        f"{format_count(other_count, noun)} {select_word_form(other_count, 'stays', 'stay')} as "
        f"{select_word_form(other_count, 'it is', 'they are')}"
    )
    unfulfilled = sum(
        not placement.after.is_fulfilled
        for placement in simulation.placements
        # It has no row.
        if not (_has_cluster_changes(placement) or placement.has_findings)
    )
    if unfulfilled:
        text += f"; {unfulfilled:,} of them not fulfilled, as before"
    return (f"{text}.",)


def _build_placement_row(placement: PlacementOutcome) -> Row:
    """Build the row of a placement.

    Key, policy, number of clusters (`3 -> 2` if some are added or removed), and these clusters. The
    last cell is "", or a note if the placement is not fulfilled.
    """
    count_before = len(placement.before.clusters)
    count_after = len(placement.after.clusters)
    clusters = (
        f"{count_before:,} -> {count_after:,}"
        if _has_cluster_changes(placement)
        else f"{count_after:,}"
    )
    if placement.after.is_fulfilled:
        note = ""
    elif placement.before.is_fulfilled:
        note = "not fulfilled"
    else:
        note = "not fulfilled, as before"
    cells = (
        placement.after.key,
        str(placement.after.kind),
        clusters,
        format_list(placement.gained, 4),
        format_list(placement.lost, 4),
        note,
    )
    return Row(cells, is_finding=placement.has_findings)


def _build_reason_section(simulation: FleetSimulation) -> Iterator[Section]:
    """Build the section of reasons for added, removed and missing clusters."""
    lines: list[str] = []
    for placement in select_placements(simulation):
        key = placement.after.key
        # The change of the placement on each gained or lost cluster, by name.
        verbs = dict.fromkeys(placement.gained, "added to") | dict.fromkeys(
            placement.lost, "removed from"
        )
        for row in (*placement.rows, *placement.unrelated):
            cluster = row.object
            if row.action is not PlacementAction.KEEP and cluster in verbs:
                aside = ", with and without this change" if row in placement.unrelated else ""
                lines.append(f"{key} {verbs[cluster]} {cluster}{aside}: {row.reason}")
        if placement.status is not None and not placement.after.is_fulfilled:
            lines.append(f"{key}: {placement.status.condition.message}")
            lines += [
                f"{decision.cluster}: {decision.reason}"
                for decision in placement.status.unselected_decisions
            ]
    if lines:
        yield Section("Why", _truncate_sentences(lines))


def _truncate_sentences(lines: Sequence[str]) -> tuple[str, ...]:
    """Limit the sentences, with the number of further ones; JSON has all."""
    hidden_count = len(lines) - _MAX_SENTENCES
    # A note about one hidden sentence would be as long as the sentence.
    return (
        tuple(lines)
        if hidden_count <= 1
        else (*lines[:_MAX_SENTENCES], f"and {hidden_count:,} more of these")
    )


def _build_kept_cluster_sections(simulation: FleetSimulation) -> Iterator[Section]:
    """Build sections of clusters kept in spite of a change, and of clusters chosen now.

    Chosen if created now.
    """
    kept_lines: list[str] = []
    fresh_lines: list[str] = []
    for placement in simulation.placements:
        for row in placement.unchanged:
            reason = row.reason.removeprefix("kept: ")
            kept_lines.append(f"{placement.after.key} on {row.object}: {reason}")
        # Describe the difference of a newly created placement.
        gained = placement.fresh.gained_clusters
        lost = placement.fresh.lost_clusters
        clauses = (
            enclose("hold ", format_list(gained, 4)),
            enclose("not hold ", format_list(lost, 4)),
        )
        if any(clauses):
            fresh_lines.append(f"{placement.after.key} would {join_texts(clauses, ' and ')}")
    if kept_lines:
        yield Section("Kept despite a trigger", _truncate_sentences(kept_lines))
    if fresh_lines:
        title = "Changes if the placement were created now (information only)"
        yield Section(title, _truncate_sentences(fresh_lines))


def _build_pod_section(simulation: FleetSimulation) -> Iterator[Section]:
    """Build the section of added, removed and pending pods by workload."""
    rows: list[Row] = []
    reasons: dict[str, None] = {}
    for placement in simulation.placements:
        for pool, pods in group_by(placement.pods, lambda row: row.pool).items():
            # The cluster of the pods, and their workload.
            cluster, _, workload = pool.partition("/")
            # kept pods have no row.
            added = sum(_get_node(row) is not None for row in pods)
            removed = sum(row.target is None for row in pods)
            pending = len(pods) - added - removed
            cells = (cluster, workload, str(added or ""), str(removed or ""), str(pending or ""))
            rows.append(Row(cells, is_finding=pending > 0))
        reasons |= {f"{row.object}: {row.reason}": None for row in placement.pending}
    if rows:
        heads = ("cluster", "workload", "come", "go", "have no node")
        table = Table(heads, tuple(rows), number_columns=frozenset({2, 3, 4}))
        lines = tuple(reasons)[:_MAX_PODS]
        yield Section("Pods", lines, table=table, is_finding=table.has_findings)


def _get_node(row: PlacementChange) -> str | None:
    """Return the new node of a pod, None without one."""
    return row.target.node if isinstance(row.target, PodLocation) else None


def _build_capacity_section(simulation: FleetSimulation) -> Iterator[Section]:
    """Build the section of CPU and memory on changed members.

    Members with an edit, a changed placement or a changed capacity.
    """
    affected = simulation.affected_members
    selected = [
        member
        for member in simulation.members
        if member.name in affected or member.before != member.after
    ]
    unaffected_count = len(simulation.members) - len(selected)
    rows: list[Row] = []
    without_data: list[str] = []
    with_fixed_figures: list[str] = []
    for member in selected:
        row = _build_capacity_row(member)
        # Nothing after the name.
        if not any(row.cells[1:]):
            without_data.append(member.name)
            continue
        rows.append(row)
        # configured instead of computed from nodes.
        if member.after is not None and not member.is_derived:
            with_fixed_figures.append(member.name)
    lines = []
    if with_fixed_figures:
        lines.append(
            f"{format_list(with_fixed_figures, 4)}: configured capacity, not changed by pods. "
            "Without "
            "nodes new pods are not predicted."
        )
    if without_data:
        lines.append(f"CPU and memory are unknown on {format_list(without_data, 4)}.")
    if unaffected_count:
        lines.append(
            f"{format_count(unaffected_count, 'other member')} "
            f"{select_word_form(unaffected_count, 'stays', 'stay')} as before."
        )
    table = Table(("member", "cpu", "memory"), tuple(rows)) if rows else None
    yield Section("Capacity: available of allocatable", tuple(lines), table=table)


def _build_capacity_row(member: MemberCapacity) -> Row:
    """Build the row of a member's resources.

    `30500m -> 28500m of 44`, `28 of 44`, "" if unknown.
    """
    if member.after is None:
        return Row((member.name, "gone", "gone"))
    # {}: the member joins.
    before = member.before.available if member.before is not None else {}
    cells = []
    for resource in _RESOURCES:
        available = member.after.available.get(resource)
        if available is None:
            cells.append("")
            continue
        text = str(available)
        if before.get(resource, available) != available:
            text = f"{before[resource]} -> {available}"
        allocatable = member.after.allocatable.get(resource)
        cells.append(text if allocatable is None else f"{text} of {allocatable}")
    return Row((member.name, *cells))


def _format_amounts(amounts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def _build_usage_document(usage: ResourceUsage) -> Mapping[str, Any]:
    return {
        "allocatable": _format_amounts(usage.allocatable),
        "available": _format_amounts(usage.available),
    }


def _build_pod_key(row: PlacementChange) -> dict[str, Any]:
    cluster, _, workload = row.pool.partition("/")  # <cluster>/<workload>
    return {"cluster": cluster, "workload": workload, "pod": row.object}


_UNSELECTED: Final = RecordForm(Struct, "cluster reason")
_BINDING: Final = RecordForm(
    PlacementChange,
    "cluster=object action trigger? reason? state=target scores",
    state=lambda target: str(BindingState(target.state)) if isinstance(target, Binding) else None,
)
_POD: Final = RecordForm(
    PlacementChange, "*of=. action node=. reason?", record_class=_build_pod_key, node=_get_node
)
_PLACEMENT: Final = RecordForm(
    PlacementOutcome,
    "address=after.address name=after.key placement_type=after.kind strategy=after.is_external "
    "before=before.clusters after=after.clusters gained lost fulfilled_before=before.is_fulfilled "
    "fulfilled=after.is_fulfilled scheduled=status.condition.message unselected=. "
    "stopped=abort.message recreated=fresh bindings=rows pods pods_without_node=.",
    strategy=lambda external: "External" if external else "RollingUpdate",
    unselected=lambda row: (
        list(map(_UNSELECTED, row.status.unselected_decisions)) if row.status is not None else []
    ),
    recreated="gained=gained_clusters lost=lost_clusters",
    bindings=_BINDING,
    pods=_POD,
    pods_without_node=lambda outcome: dict(Counter(str(row.pool) for row in outcome.pending)),
)
# Simulation as JSON data.
FLEET: Final = RecordForm(
    FleetSimulation,
    "changes=edits placements members remaining warnings",
    changes="change=kind member key? value",
    placements=_PLACEMENT,
    members=RecordForm(
        MemberCapacity,
        "name derived=is_derived before after",
        before=_build_usage_document,
        after=_build_usage_document,
    ),
    staying=build_row_form("placement cluster"),
    warnings="id address? detail",
)
