"""Fleet of a plan as a matrix of placements and clusters, with the reasons of its cells."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from nexusform.diagnostics.phrases import compute_natural_sort_key, format_count, join_texts
from nexusform.domains.fleet.binding_kind import BINDING
from nexusform.domains.fleet.planning.placement_records import read_status
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.json_data.plain_data import get_text, get_value_at_path, has_unknown_part
from nexusform.plans.plan import PlacementAction, PlacementChange, Plan
from nexusform.rendering.report.domain_sections import ACTION_SIGNS, limit_rows
from nexusform.rendering.report.folding import format_instances
from nexusform.rendering.report.plan_sentences import format_uncertainty_mark
from nexusform.rendering.report.report_tree import (
    ActionText,
    Item,
    ItemGroup,
    Row,
    Section,
    Style,
    Table,
)

MAX_MATRIX_COLUMNS: Final = 40
# Up to this number, the matrix includes clusters that are not picked.
_FEW_CLUSTERS: Final = 12
_SCORES: Final = {"affinity_score": "affinity", "topology_spread_score": "spread"}
_REJECTED: Final = "rejected: "
_NO_CELL: Final = ActionText("", Style.ACTION)
_HINT: Final = (
    "To see why a cluster was not picked, plan with `-placements=all` or run `nexusform explain`."
)

# By placement and cluster: the binding, or the reason for its absence.
_Cells: TypeAlias = Mapping[tuple[str, str], ActionText]


def build_fleet_section(plan: Plan) -> Section:
    """Build the section of bindings; it has no content without any.

    A fleet with too many clusters for a matrix is a table of bindings.
    """
    # `address`: of the placement, `object`: the cluster.
    bindings = [row for row in plan.placements if row.kind == BINDING]
    members = tuple(list_fleet_members(plan))
    if not bindings:
        return Section("Fleet", cluster_names=members)
    cells = _build_cells(bindings, plan)
    clusters, unpicked = _select_clusters(bindings, cells, [name for name, _ in members])
    if len(clusters) <= MAX_MATRIX_COLUMNS:
        tables = [_build_matrix(bindings, cells, clusters)]
        limits: list[str] = []
    else:
        tables, limits = _build_binding_tables(bindings)
    reasons, reason_limit = _build_reason_table(cells)
    names = Item("", "", ", ".join(unpicked))
    title = f"{format_count(len(unpicked), 'cluster')} not picked by any placement"
    hint = (_HINT,) if _has_only_bindings(cells) else ()
    return Section(
        "Fleet",
        lines=(*limits, *reason_limit, *hint),
        tables=(*tables, *reasons),
        groups=(ItemGroup(title, (names,)),) if unpicked else (),
        name="fleet",
        cluster_names=members,
    )


def list_fleet_members(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield name and cluster id of the members after the plan, with or without placements.

    The id is "" for a member without a cluster.
    """
    for change in plan.changes:
        # sensitive ones are hidden.
        if change.address.type == "fleet_member_cluster" and not change.sensitive_after:
            name = get_text(change.after, "name")
            # "" after a removal.
            if name:
                yield name, get_text(change.after, "kubernetes_cluster_id")


def _select_clusters(
    bindings: Sequence[PlacementChange], cells: _Cells, members: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Return the clusters of the matrix, changed ones first, and the other ones.

    Clusters picked by no placement are columns only in a small fleet.
    """
    picked = {row.object for row in bindings}
    changed = {row.object for row in bindings if row.action is not PlacementAction.KEEP}
    all_clusters = {cluster for _, cluster in cells}.union(members)
    unpicked = sorted(all_clusters - picked, key=compute_natural_sort_key)
    columns = sorted(picked, key=lambda name: (name not in changed, compute_natural_sort_key(name)))
    return (
        ([*columns, *unpicked], []) if len(all_clusters) <= _FEW_CLUSTERS else (columns, unpicked)
    )


def _build_cells(rows: Iterable[PlacementChange], plan: Plan) -> _Cells:
    """Return the cells of placements with bindings, by (placement, cluster).

    A cell has the first of: the binding, the rejection by a rule, the rejection by the scheduler,
    the message in the placement's status.
    """
    cells: dict[tuple[str, str], ActionText] = {}
    placements: set[str] = set()
    for row in rows:
        placements.add(str(row.address))
        cells[str(row.address), row.object] = _build_binding_text(row)
    for row in rows:
        for rejection in row.rejections:
            cell = _build_rejection_text(rejection.reason, rejection.rule)
            cells.setdefault((str(row.address), rejection.candidate), cell)
    for rejected in plan.workloads.rejected_clusters:
        cell = _build_rejection_text(rejected.reason)
        cells.setdefault((str(rejected.address), rejected.cluster), cell)
    for change in plan.changes:
        placement = str(change.address)
        # sensitive values are hidden.
        if placement in placements and not change.sensitive_after:
            for cluster, message in _list_unscheduled_clusters(change.after):
                cells.setdefault((placement, cluster), _build_rejection_text(message))
    return cells


def _build_binding_text(row: PlacementChange) -> ActionText:
    """Return the change of a binding, such as `+ Bound`, with its scores.

    Its reason is the trigger and the reason of the change: "overrides_changed: overrides changed;
    nothing is rescheduled".
    """
    # Only the former one if it is removed.
    location = row.target or row.source
    state = str(location.state) if isinstance(location, Binding) else row.action.value
    scores = (f"{text} {row.scores[name]}" for name, text in _SCORES.items() if name in row.scores)
    # Not the same text twice.
    reason = row.reason if row.reason != row.trigger else ""
    return ActionText(
        f"{ACTION_SIGNS[row.action]} {state}".strip(),
        Style.ACTION,
        action=row.action.value,
        detail=join_texts((*scores, format_uncertainty_mark(row)), ", "),
        reason=join_texts((row.trigger, reason), ": "),
    )


def _build_rejection_text(reason: str, rule: str = "") -> ActionText:
    """Return the text of a cluster that is not picked; "" if the plan has no reason."""
    text = f"{_REJECTED}{rule}" if rule else "not picked"
    return ActionText(text if reason else "", Style.ACTION, reason=reason)


def _list_unscheduled_clusters(attributes: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield the clusters not scheduled in the status of a placement, each with the message.

    There are none if the status is not known.
    """
    statuses = {"placement_statuses": get_value_at_path(attributes, "placement_statuses")}
    if has_unknown_part(statuses):
        return
    for status in read_status(statuses).clusters:
        if not status.cluster or not status.conditions:
            # A position without a cluster, or an unknown status.
            continue
        # The first condition is Scheduled.
        scheduled = status.conditions[0]
        if scheduled.status == "False":
            yield status.cluster, scheduled.message


def _build_matrix(
    bindings: Sequence[PlacementChange], cells: _Cells, clusters: Sequence[str]
) -> Table:
    """Build a row for each placement, changed ones first, with a column for each cluster."""
    changed = {str(row.address) for row in bindings if row.action is not PlacementAction.KEEP}
    placements = list(dict.fromkeys(str(row.address) for row in bindings))
    placements.sort(key=lambda placement: placement not in changed)
    rows = (
        Row((placement, *(cells.get((placement, cluster), _NO_CELL) for cluster in clusters)))
        for placement in placements
    )
    counts = (
        format_count(len(placements), "placement"),
        format_count(len(clusters), "cluster"),
        format_count(sum(bool(cell.action) for cell in cells.values()), "binding"),
    )
    return Table(
        ("Placement", *clusters),
        tuple(rows),
        caption="Placements by cluster, with the scores of picked ones",
        is_matrix=True,
        summary=f"{', '.join(counts)}.",
    )


def _build_binding_tables(bindings: Sequence[PlacementChange]) -> tuple[list[Table], list[str]]:
    """Build the tables of changed bindings, and of kept ones; and what they do not list."""
    changed = [row for row in bindings if row.action is not PlacementAction.KEEP]
    kept = [row for row in bindings if row.action is PlacementAction.KEEP]
    kept_title = f"{format_count(len(kept), 'binding')} kept"
    tables: list[Table] = []
    limits: list[str] = []
    for bindings_of_table, caption, fold_title in (
        (changed, "Placements by cluster", ""),
        (kept, "Kept bindings", kept_title),
    ):
        rows, limit = limit_rows(
            [
                Row((str(row.address), row.object, _build_binding_text(row)))
                for row in bindings_of_table
            ]
        )
        if rows:
            headers = ("Placement", "Cluster", "Binding")
            tables.append(Table(headers, rows, caption=caption, fold_title=fold_title))
            limits += limit
    return tables, limits


def _has_only_bindings(cells: _Cells) -> bool:
    """Return True if every known cell has a binding, so no rejection is known."""
    return all(cell.action for cell in cells.values())


def _build_reason_table(cells: _Cells) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Build the folded reasons for picks and rejections, () without any; and what is not listed."""
    # By cluster, rule and reason.
    placements_by_reason: dict[tuple[str, str, str], list[str]] = {}
    for (placement, cluster), cell in cells.items():
        if cell.reason:
            rule = "picked" if cell.action else cell.text.removeprefix(_REJECTED)
            placements_by_reason.setdefault((cluster, rule, cell.reason), []).append(placement)
    if not placements_by_reason:
        return (), ()
    rows, limit = limit_rows(
        [
            Row((format_instances(placements), *columns))
            for columns, placements in placements_by_reason.items()
        ]
    )
    scope = "picked" if _has_only_bindings(cells) else "picked or not"
    reason_count = format_count(len(placements_by_reason), "reason")
    table = Table(
        ("Placement", "Cluster", "Rule", "Reason"),
        rows,
        caption="Reasons by cluster",
        fold_title=f"Why each cluster is {scope} ({reason_count})",
    )
    return (table,), limit
