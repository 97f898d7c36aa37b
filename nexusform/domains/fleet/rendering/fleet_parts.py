"""Fleet as a matrix of placements and clusters, and the pods affected by a plan.

Complete without scripts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.phrases import compute_natural_sort_key, format_count
from nexusform.domains.fleet.binding_kind import BINDING
from nexusform.domains.fleet.planning.placement_records import read_status
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.pods.pod_kind import POD
from nexusform.json_data.plain_data import get_text, get_value_at_path, has_unknown_part
from nexusform.placement_kinds.placement_kind import format_location_text
from nexusform.plans.impact.object_effects import (
    Effect,
    compute_effect,
    describe_state,
    format_effect_verb,
)
from nexusform.plans.plan import PlacementAction, PlacementChange, Plan
from nexusform.rendering.notation.markup import (
    Markup,
    Part,
    build_breakable_name,
    build_element,
    build_svg_element,
    join_markup,
)
from nexusform.rendering.page.page_data import DomainPageParts
from nexusform.rendering.page.page_elements import build_section, build_table
from nexusform.rendering.page.svg_map import (
    MARGIN,
    MAX_BYTES,
    render_document,
    render_text,
    translate_parts,
)
from nexusform.rendering.report.folding import fold_instances, format_instances

_SIGNS: Final = {
    PlacementAction.PLACE: "+",
    PlacementAction.MOVE: "~",
    PlacementAction.REMOVE: "\N{MINUS SIGN}",
    PlacementAction.UPDATE: "~",
    PlacementAction.LOSE: "!",
    PlacementAction.FORGET: ".",
    PlacementAction.KEEP: "",
}
_MAX_ROWS: Final = 2000
MAX_GRID_COLUMNS: Final = 40
# Up to this number, the grid includes clusters that are not picked.
_FEW_CLUSTERS: Final = 12
_SCORES: Final = {"affinity_score": "affinity", "topology_spread_score": "spread"}


class MatrixCell(Struct, frozen=True):
    """Cell of a placement and a cluster.

    The binding, or the reason for its absence ("" if unknown).
    """

    binding: PlacementChange | None = None
    rule: str = ""
    rejection: str = ""

    @property
    def reason(self) -> str:
        """Reason for the pick or rejection of the cluster; "" without any.

        For a binding: the trigger and the reason of its change, such as "overrides_changed:
        overrides changed; nothing is rescheduled".
        """
        row = self.binding
        if row is None:
            return self.rejection
        # Not the same text twice.
        reason = row.reason if row.reason != row.trigger else ""
        return ": ".join(filter(None, (row.trigger, reason)))

    @property
    def rejection_title(self) -> str:
        """Short text about a cluster not picked; "" if the plan has no reason."""
        if not self.rejection:
            return ""
        return f"rejected: {self.rule}" if self.rule else "not picked"


class FleetMatrix(Struct, frozen=True):
    """Matrix of placements and their clusters, changed ones first.

    `clusters` is empty if there are too many for a grid; `unpicked` are many clusters without any
    placement. `notes` describe changes of a cluster itself.
    """

    placements: tuple[str, ...]
    clusters: tuple[str, ...]
    cells: Mapping[tuple[str, str], MatrixCell]
    notes: Mapping[str, str] = {}
    unpicked: tuple[str, ...] = ()

    def get_cell(self, placement: str, cluster: str) -> MatrixCell:
        """Return the cell of a placement and a cluster.

        An empty one without a binding or rejection.
        """
        return self.cells.get((placement, cluster), MatrixCell())


def _list_bindings(plan: Plan) -> list[PlacementChange]:
    return [row for row in plan.placements if row.kind == BINDING]


def build_fleet_matrix(plan: Plan) -> FleetMatrix:
    """Build the matrix of the placements (rows) and clusters (columns) of a plan.

    Placements with changed bindings come first.

    Clusters picked by no placement are columns only in a small fleet. With too many columns there
    is no grid.
    """
    # `address`: of the placement, `object`: the cluster.
    bindings = _list_bindings(plan)
    # By placement and cluster, also of rejected ones.
    cells = _build_cells(bindings, plan)
    # An ordered set.
    all_placements: dict[str, None] = {}
    changed_placements: set[str] = set()
    picked_clusters: set[str] = set()
    changed_clusters: set[str] = set()
    for row in bindings:
        all_placements[str(row.address)] = None
        picked_clusters.add(row.object)
        if row.action is not PlacementAction.KEEP:
            changed_placements.add(str(row.address))
            changed_clusters.add(row.object)
    # changed ones first.
    placements = sorted(all_placements, key=lambda placement: placement not in changed_placements)
    # cluster ids by name.
    members = dict(list_fleet_members(plan))
    all_clusters = {cluster for _, cluster in cells}.union(members)
    unpicked = sorted(all_clusters - picked_clusters, key=compute_natural_sort_key)
    columns = sorted(
        picked_clusters,
        key=lambda name: (name not in changed_clusters, compute_natural_sort_key(name)),
    )
    # show all as columns.
    if len(all_clusters) <= _FEW_CLUSTERS:
        columns = [*columns, *unpicked]
        unpicked = []
    # too many: no grid.
    grid_columns = tuple(columns) if len(columns) <= MAX_GRID_COLUMNS else ()
    return FleetMatrix(tuple(placements), grid_columns, cells, unpicked=tuple(unpicked))


def render_fleet_part(plan: Plan) -> Part:
    """Render the section of bindings; None without any."""
    bindings = _list_bindings(plan)
    if not bindings:
        return None
    matrix = build_fleet_matrix(plan)
    # empty if there are too many for a grid.
    if matrix.clusters:
        content = render_placement_grid(
            matrix, "Placements by cluster, with the scores of picked ones"
        )
    else:
        content = render_binding_list(bindings)
    unpicked = None
    if matrix.unpicked:
        title = f"{format_count(len(matrix.unpicked), 'cluster')} not picked by any placement"
        names = build_element("p", ", ".join(matrix.unpicked))
        unpicked = build_element(
            "details", build_element("summary", title), names, class_="reasons"
        )
    hint = None
    # The plan has no rejections by rules.
    if _has_only_bindings(matrix.cells):
        flag = build_element("code", "-placements=all")
        command = build_element("code", "nexusform explain")
        text = ["To see why a cluster was not picked, plan with ", flag, " or run ", command, "."]
        hint = build_element("p", text, class_="quiet")
    return build_section("fleet", "Fleet", content, unpicked, hint, render_reasons(matrix.cells))


def list_fleet_members(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield name and cluster id of the members after the plan, with or without placements.

    "" for none.
    """
    for change in plan.changes:
        # sensitive ones are hidden.
        if change.address.type == "fleet_member_cluster" and not change.sensitive_after:
            name = get_text(change.after, "name")
            # "" after a removal.
            if name:
                yield name, get_text(change.after, "kubernetes_cluster_id")


def _build_cells(rows: Iterable[PlacementChange], plan: Plan) -> dict[tuple[str, str], MatrixCell]:
    """Return the cells of placements with bindings, by (placement, cluster).

    A cell has the first of: the binding, the rejection by a rule, the rejection by the scheduler,
    the message in the placement's status.
    """
    cells: dict[tuple[str, str], MatrixCell] = {}
    placements: set[str] = set()
    for row in rows:
        placements.add(str(row.address))
        cells[str(row.address), row.object] = MatrixCell(row)
    for row in rows:
        for rejection in row.rejections:
            cell = MatrixCell(rule=rejection.rule, rejection=rejection.reason)
            cells.setdefault((str(row.address), rejection.candidate), cell)
    for rejected in plan.rejected_clusters:
        cells.setdefault(
            (str(rejected.address), rejected.cluster), MatrixCell(rejection=rejected.reason)
        )
    for change in plan.changes:
        placement = str(change.address)
        # sensitive values are hidden.
        if placement in placements and not change.sensitive_after:
            for cluster, message in _list_unscheduled_clusters(change.after):
                cells.setdefault((placement, cluster), MatrixCell(rejection=message))
    return cells


def _list_unscheduled_clusters(attributes: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield the clusters not scheduled in the status of a placement, each with the message.

    None if it is not known.
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


def render_placement_grid(matrix: FleetMatrix, caption: str) -> Part:
    """Render a row for each group of equal placements.

    There is a column per cluster, with the binding in each cell.
    """
    placements_by_cells: dict[Markup, list[str]] = {}
    for placement in matrix.placements:
        cells = []
        for cluster in matrix.clusters:
            note = matrix.notes.get(cluster, "")
            title = f"{cluster} ({note})" if note else cluster
            cells.append(_render_cell(title, matrix.get_cell(placement, cluster)))
        placements_by_cells.setdefault(join_markup(cells), []).append(placement)
    rows = [
        _render_row(placements, cells)
        for cells, placements in islice(placements_by_cells.items(), _MAX_ROWS)
    ]
    heads = []
    for name in ("Placement", *matrix.clusters):
        note = matrix.notes.get(name, "")
        small_note = build_element("div", note, class_="small") if note else None
        heads.append(build_element("th", name, small_note, scope="col"))
    inner = build_element(
        "table",
        build_element("caption", caption, class_="quiet"),
        build_element("thead", build_element("tr", heads)),
        build_element("tbody", rows),
        class_="matrix" if len(matrix.clusters) <= _FEW_CLUSTERS else "matrix wide",
    )
    box = build_element(
        "div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption
    )
    return [_render_limit_note(len(placements_by_cells)), box]


def _render_row(placements: Sequence[str], cells: Markup) -> Markup:
    """Render the row of placements with equal cells; instances of a block share one name."""
    names = list(map(_render_address, fold_instances(placements)))
    parts = names[:1] + [build_element("div", name) for name in names[1:]]
    return build_element("tr", build_element("th", parts, scope="row"), cells)


def _render_address(placement: str) -> Part:
    """Render a placement's address: the name in bold below the small prefix."""
    kind, dot, name = placement.partition("_placement.")
    # No placement type with this ending.
    if not dot:
        return build_element("code", build_breakable_name(placement), class_="name")
    front = build_element("code", build_breakable_name(kind + dot), class_="quiet small front")
    return [front, build_element("code", build_breakable_name(name), class_="name")]


def _render_cell(cluster: str, cell: MatrixCell) -> Markup:
    """Render one cell; `data-tip` is its tooltip, `data-head` its heading in a narrow layout."""
    content: Part = cell.rejection_title or "\N{EN DASH}"
    css_class = "not"
    if cell.binding is not None:
        content = _render_binding(cell.binding)
        css_class = f"picked {cell.binding.action.value}"
    return build_element(
        "td", content, class_=css_class, data_tip=cell.reason or None, data_head=cluster
    )


def _render_binding(row: PlacementChange) -> Part:
    """Render the state and scores of a binding."""
    scores = format_binding_scores(row)
    return [
        build_element("span", format_binding_change(row), class_=f"mark-{row.action.value}"),
        build_element("div", scores, class_="quiet small") if scores else None,
    ]


def format_binding_change(row: PlacementChange) -> str:
    """Format the change of a binding: `+ Bound`."""
    # Only the former one if it is removed.
    location = row.target or row.source
    state = str(location.state) if isinstance(location, Binding) else row.action.value
    return f"{_SIGNS[row.action]} {state}".strip()


def format_binding_scores(row: PlacementChange) -> str:
    """Format the scores: `affinity 20, spread 0`; "" without scores."""
    return ", ".join(
        f"{_SCORES.get(name, name)} {score}" for name, score in sorted(row.scores.items())
    )


def render_binding_list(rows: Sequence[PlacementChange]) -> Part:
    """Render bindings as lists in place of a grid: changed ones, then kept ones folded.

    None without bindings.
    """
    changed_rows = [row for row in rows if row.action is not PlacementAction.KEEP]
    kept_rows = [row for row in rows if row.action is PlacementAction.KEEP]
    changed_part = None  # renders nothing
    if changed_rows:
        changed_table = _render_binding_table(changed_rows, "Placements by cluster")
        changed_part = [_render_limit_note(len(changed_rows)), changed_table]
    if not kept_rows:
        return changed_part
    summary = build_element("summary", f"{format_count(len(kept_rows), 'binding')} kept")
    kept_table = _render_binding_table(kept_rows, "Kept bindings")
    return [
        changed_part,
        build_element(
            "details", summary, _render_limit_note(len(kept_rows)), kept_table, class_="reasons"
        ),
    ]


def _render_binding_table(rows: Sequence[PlacementChange], caption: str) -> Part:
    lines = [(str(row.address), row.object, _render_binding(row)) for row in rows[:_MAX_ROWS]]
    return build_table(caption, ("Placement", "Cluster", "Binding"), lines)


def _render_limit_note(count: int) -> Part:
    """Render a note if only the first rows are listed; None if all are."""
    return (
        build_element("p", f"The first {_MAX_ROWS:,} of {count:,} are listed.")
        if count > _MAX_ROWS
        else None
    )


def _has_only_bindings(cells: Mapping[tuple[str, str], MatrixCell]) -> bool:
    """Return True if every known cell has a binding, so no rejection is known."""
    return all(cell.binding is not None for cell in cells.values())


def render_reasons(cells: Mapping[tuple[str, str], MatrixCell]) -> Part:
    """Render the reasons for picks and rejections, folded; None without any."""
    # By cluster, rule and reason.
    placements_by_reason: dict[tuple[str, str, str], list[str]] = {}
    for (placement, cluster), cell in cells.items():
        if cell.reason:
            rule = cell.rule or ("picked" if cell.binding is not None else "not picked")
            placements_by_reason.setdefault((cluster, rule, cell.reason), []).append(placement)
    lines = [
        (format_instances(placements), *columns)
        for columns, placements in placements_by_reason.items()
    ]
    if not lines:
        return None
    heads = ("Placement", "Cluster", "Rule", "Reason")
    reason_table = build_table("Reasons by cluster", heads, lines[:_MAX_ROWS])
    scope = "picked" if _has_only_bindings(cells) else "picked or not"
    summary = build_element(
        "summary", f"Why each cluster is {scope} ({format_count(len(lines), 'reason')})"
    )
    return [
        _render_limit_note(len(lines)),
        build_element("details", summary, reason_table, class_="reasons"),
    ]


def render_pods_part(plan: Plan) -> Part:
    """Render the pods affected by the plan; None without any.

    The pods are those of fleets and of sites without one.
    """
    return render_pods([row for row in plan.placements if row.kind == POD])


def render_pods(rows: Sequence[PlacementChange], title: str = "Pods") -> Part:
    """Render a table of pods and their nodes; None without pods."""
    if not rows:
        return None
    heads = ("Pod", "Workload", "Action", "From", "To", "Trigger")
    lines = []
    for row in rows[:_MAX_ROWS]:
        # More exact than the action.
        effect = compute_effect(row)
        verb = (
            format_effect_verb(effect, describe_state(row), 1)
            if effect in _SPECIAL_EFFECTS
            else row.action.value
        )
        action = f"{_SIGNS[row.action]} {verb}".strip()
        origin = format_location_text(row.source) if row.source else ""
        target = format_location_text(row.target) if row.target else ""
        lines.append((row.object, row.pool, action, origin, target, row.trigger))
    table = build_table("Pods and their nodes", heads, lines, is_unwrapped=True)
    return build_section("pods", title, _render_limit_note(len(rows)), table)


# Effects that the action alone would report as placed, moved or kept.
_SPECIAL_EFFECTS: Final = frozenset(
    {Effect.RECREATED, Effect.UNPLACED, Effect.WAITING, Effect.STILL_WAITING}
)


_ACTION_COLOURS: Final = {
    PlacementAction.PLACE: "#dafbe1",
    PlacementAction.KEEP: "#f3f4f6",
    PlacementAction.REMOVE: "#ffebe9",
}
_CELL_WIDTH: Final = 132
_CELL_HEIGHT: Final = 40
_LETTER_WIDTH: Final = 7.4  # pixels, about
# Positions of texts in pixels: heading and names of clusters below the margin, first row, text in a
# cell.
_LABEL_GAP: Final = 16
_HEADING_OFFSET = 16
_COLUMN_OFFSET = 42
_ROWS_OFFSET = 50
_ROW_TEXT_OFFSET: Final = 22
_CELL_GAP: Final = 4
_CELL_INDENT: Final = 8
_CHANGE_OFFSET = 16
_SCORES_OFFSET = 30
# bytes reserved for parts outside the lines.
_FRAME_BYTES: Final = 200_000
_LINE_OVERHEAD: Final = 60


def render_fleet_svg(plan: Plan, verdict: str) -> str:
    """Render placements as rows and clusters as columns, with the changes of bindings.

    "" without clusters.
    """
    matrix = build_fleet_matrix(plan)
    if not matrix.clusters:
        return ""
    # width of the names of placements.
    label = round(max(map(len, matrix.placements)) * _LETTER_WIDTH) + _LABEL_GAP
    columns = {
        name: MARGIN + label + position * _CELL_WIDTH
        for position, name in enumerate(matrix.clusters)
    }
    lines = _render_lines(matrix, columns)
    notes: list[str] = []
    # The picture has a maximum size.
    if len(lines) < len(matrix.placements):
        counts_text = f"{len(lines):,} of {len(matrix.placements):,} placements are shown"
        notes.append(f"{counts_text}, changed ones first: the whole picture would exceed 5 MB.")
    if matrix.unpicked:
        notes.append(
            f"{format_count(len(matrix.unpicked), 'cluster')} without a placement: not shown."
        )
    note = " ".join(notes)
    parts = [
        render_text(
            MARGIN, MARGIN + _HEADING_OFFSET, f"Fleet. {note}" if note else "Fleet", "heading"
        )
    ]
    for name, offset in columns.items():
        parts.append(render_text(offset + _CELL_GAP, MARGIN + _COLUMN_OFFSET, name, "rack"))
    top = MARGIN + _ROWS_OFFSET
    for line in lines:
        parts.append(translate_parts([line], 0, top))
        top += _CELL_HEIGHT
    binding_count = sum(cell.binding is not None for cell in matrix.cells.values())
    counts = (
        format_count(len(matrix.placements), "placement"),
        format_count(len(matrix.clusters), "cluster"),
        format_count(binding_count, "binding"),
    )
    width = label + len(columns) * _CELL_WIDTH
    description = " ".join(filter(None, (f"{', '.join(counts)}.", note)))
    return render_document("Fleet", description, parts, width, top + MARGIN, verdict)


def _render_lines(matrix: FleetMatrix, cluster_offsets: Mapping[str, int]) -> list[Markup]:
    """Render a line per placement in order.

    If not all fit into MAX_BYTES, changed placements have priority.
    """
    changed = {
        placement
        for (placement, _), cell in matrix.cells.items()
        if cell.binding is not None and cell.binding.action is not PlacementAction.KEEP
    }
    lines: dict[str, Markup] = {}
    remaining_bytes = MAX_BYTES - _FRAME_BYTES
    # changed ones first.
    for placement in sorted(matrix.placements, key=lambda name: name not in changed):
        cells = [
            translate_parts(_render_svg_cell(matrix.get_cell(placement, cluster)), offset, 0)
            for cluster, offset in cluster_offsets.items()
        ]
        line = join_markup(render_text(MARGIN, _ROW_TEXT_OFFSET, placement, "rack"), cells)
        remaining_bytes -= len(line) + _LINE_OVERHEAD
        if remaining_bytes < 0:
            break
        lines[placement] = line
    return [lines[placement] for placement in matrix.placements if placement in lines]


def _render_svg_cell(cell: MatrixCell) -> list[Markup]:
    """Render one cell: coloured by the change of the binding, or white.

    A white cell has no binding and shows the rejection.
    """
    row = cell.binding
    fill = "#ffffff" if row is None else _ACTION_COLOURS.get(row.action, "#fff8c5")
    width = _CELL_WIDTH - _CELL_GAP
    height = _CELL_HEIGHT - _CELL_GAP
    parts = [build_svg_element("title", cell.reason)] if cell.reason else []
    parts.append(
        build_svg_element("rect", class_="cell", width=width, height=height, style=f"fill:{fill}")
    )
    if row is not None:
        parts.append(render_text(_CELL_INDENT, _CHANGE_OFFSET, format_binding_change(row), "rack"))
        parts.append(render_text(_CELL_INDENT, _SCORES_OFFSET, format_binding_scores(row), "slim"))
    elif cell.rejection_title:
        parts.append(render_text(_CELL_INDENT, _ROW_TEXT_OFFSET, cell.rejection_title, "slim"))
    return parts


PARTS: Final = DomainPageParts(
    render_fleet_part, render_pods_part, list_fleet_members, render_fleet_svg
)
