"""The fleet as a matrix of placements and clusters, and the pods that a plan touches: whole without scripts.

What a cell has no room for, why a cluster was picked or not, stands on it as a text for the pointer and in a
list below the matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.fleet.binding_kind import BINDING
from nexusform.domains.fleet.planning.contents import read_status
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.pods.pod_kind import POD
from nexusform.placement_kinds.kinds import place_text
from nexusform.plain_data import has_unknown
from nexusform.plans.impact.effects import Effect, effect_of, state_of, verb_of
from nexusform.plans.plan import PlacementAction, PlacementChange, Plan
from nexusform.rendering.notation.markup import Markup, Part, breakable, element, joined
from nexusform.rendering.page.page_parts import section, table
from nexusform.rendering.report.folding import instance_texts, instances_text
from nexusform.words import counted, natural

_SIGNS: Final = {
    PlacementAction.PLACE: "+",
    PlacementAction.MOVE: "~",
    PlacementAction.REMOVE: "\N{MINUS SIGN}",
    PlacementAction.UPDATE: "~",
    PlacementAction.LOSE: "!",
    PlacementAction.FORGET: ".",
    PlacementAction.KEEP: "",
}
_MOST_ROWS: Final = 2000
WIDEST_GRID: Final = 40
_FEW_CLUSTERS: Final = 12  # that many stand in the grid, picked or not
_MEMBER: Final = "fleet_member_cluster"
_SCORES: Final = {"affinity_score": "affinity", "topology_spread_score": "spread"}


class FleetMember(Struct, frozen=True):
    """A member of the fleet after the plan; `cluster_id` is that of its NKS cluster, "" where it has none."""

    name: str
    cluster_id: str


class Square(Struct, frozen=True):
    """Where a placement and a cluster meet: the binding, or why there is none ("" where nobody says)."""

    binding: PlacementChange | None = None
    rule: str = ""
    why_not: str = ""

    @property
    def why(self) -> str:
        """Why the cluster is picked, or why not."""
        row = self.binding
        if row is None:
            return self.why_not
        reason = row.reason if row.reason != row.trigger else ""
        return ": ".join(text for text in (row.trigger, reason) if text)


class FleetMatrix(Struct, frozen=True):
    """Placements, and the clusters that any of them picks or leaves, where something changes first; and what
    is known of each pair. `clusters` is empty where they are too many for a picture; `others` are those that
    no placement picks, where they are many. `notes` say what happens to a cluster itself.
    """

    placements: tuple[str, ...]
    clusters: tuple[str, ...]
    squares: Mapping[tuple[str, str], Square]
    notes: Mapping[str, str] = {}
    others: tuple[str, ...] = ()

    def square(self, placement: str, cluster: str) -> Square:
        """Where the two meet."""
        return self.squares.get((placement, cluster), Square())


def fleet_matrix(plan: Plan) -> FleetMatrix:
    """The bindings of a plan, and why other clusters have none."""
    bindings = [row for row in plan.placements if row.kind == BINDING]
    squares = _squares(bindings, plan)
    changing = {str(row.address) for row in bindings if row.action is not PlacementAction.KEEP}
    placements = sorted(dict.fromkeys(str(row.address) for row in bindings), key=lambda p: p not in changing)
    picked = {binding_cluster(row) for row in bindings}
    everyone = {cluster for _, cluster in squares}.union(member.name for member in fleet_members(plan))
    not_picked = sorted(everyone - picked, key=natural)
    touched = {binding_cluster(row) for row in bindings if row.action is not PlacementAction.KEEP}
    columns = sorted(picked, key=lambda cluster: (cluster not in touched, natural(cluster)))
    if len(everyone) <= _FEW_CLUSTERS:
        columns, not_picked = [*columns, *not_picked], []
    shown = tuple(columns) if len(columns) <= WIDEST_GRID else ()
    return FleetMatrix(tuple(placements), shown, squares, others=tuple(not_picked))


def fleet_part(plan: Plan) -> Part:
    """The section of bindings; nothing when the plan has none."""
    bindings = [row for row in plan.placements if row.kind == BINDING]
    if not bindings:
        return None
    matrix = fleet_matrix(plan)
    drawn = (
        grid(matrix, "Placements by cluster, with the scores of picked ones")
        if matrix.clusters
        else one_by_one(bindings)
    )
    unpicked = _not_picked(matrix.others)
    return section("fleet", "Fleet", drawn, unpicked, _hint(matrix.squares), reasons(matrix.squares))


def _not_picked(clusters: Sequence[str]) -> Part:
    """The clusters that no placement picks, folded."""
    if not clusters:
        return None
    summary = element("summary", f"{counted(len(clusters), 'cluster')} not picked by any placement")
    return element("details", summary, element("p", ", ".join(clusters)), class_="reasons")


def fleet_members(plan: Plan) -> list[FleetMember]:
    """The members that the fleet has after the plan, whether a placement wants them or not."""
    members: list[FleetMember] = []
    for change in plan.changes:
        if change.address.type != _MEMBER or change.after is None or change.sensitive_after:
            continue
        name, cluster = change.after.get("name"), change.after.get("kubernetes_cluster_id")
        if isinstance(name, str):
            members.append(FleetMember(name, cluster if isinstance(cluster, str) else ""))
    return members


def binding_cluster(row: PlacementChange) -> str:
    """The cluster that a binding's row speaks of."""
    place = row.target or row.source
    return place.cluster if isinstance(place, Binding) else row.object


# --- the matrix --------------------------------------------------------------------------------


def _squares(rows: Iterable[PlacementChange], plan: Plan) -> dict[tuple[str, str], Square]:
    """What is known of every placement and cluster: bindings first, then refusals by rules, then what the
    scheduler and statuses say.
    """
    squares: dict[tuple[str, str], Square] = {}
    for row in rows:
        squares[str(row.address), binding_cluster(row)] = Square(row)
    for row in rows:
        for refusal in row.rejected:
            square = Square(None, refusal.rule, refusal.reason)
            squares.setdefault((str(row.address), refusal.candidate), square)
    for passed in plan.passed_over:
        squares.setdefault((str(passed.address), passed.cluster), Square(None, "", passed.reason))
    placements = {str(row.address) for row in rows}
    for change in plan.changes:
        placement = str(change.address)
        if placement not in placements or change.after is None or change.sensitive_after:
            continue
        for cluster, message in _unpicked(change.after):
            squares.setdefault((placement, cluster), Square(None, "", message))
    return squares


def _unpicked(placement: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The clusters that a placement's status says it did not pick, and why."""
    statuses = {"placement_statuses": placement.get("placement_statuses")}
    if has_unknown(statuses):
        return
    for status in read_status(statuses).clusters:
        if status.cluster and status.conditions and status.conditions[0].status == "False":
            yield status.cluster, status.conditions[0].message


def grid(matrix: FleetMatrix, caption: str) -> Part:
    """A row for the placements of which the same becomes, a column per cluster, the binding in each cell."""
    columns = matrix.clusters
    alike: dict[Markup, list[str]] = {}
    for placement in matrix.placements:
        alike.setdefault(_cells(placement, matrix), []).append(placement)
    lines = [_line(placements, cells) for cells, placements in islice(alike.items(), _MOST_ROWS)]
    heads = [_head(name, matrix.notes.get(name, "")) for name in ("Placement", *columns)]
    inner = element(
        "table",
        element("caption", caption, class_="quiet"),
        element("thead", element("tr", heads)),
        element("tbody", lines),
        class_="matrix" if len(columns) <= _FEW_CLUSTERS else "matrix wide",
    )
    box = element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return [_cut(len(alike)), box]


def _head(name: str, note: str) -> Markup:
    """A column's head, and what happens to the cluster."""
    return element("th", name, element("div", note, class_="small") if note else None, scope="col")


def _cells(placement: str, matrix: FleetMatrix) -> Markup:
    """The cells of a placement's row."""
    cells = [
        _cell(_titled(cluster, matrix.notes.get(cluster, "")), matrix.square(placement, cluster))
        for cluster in matrix.clusters
    ]
    return joined(cells)


def _line(placements: Sequence[str], cells: Markup) -> Markup:
    """The row of placements with the same cells."""
    names = [_named(text) for text in instance_texts(placements)]
    parts = names[:1] + [element("div", name) for name in names[1:]]
    return element("tr", element("th", parts, scope="row"), cells)


def _titled(cluster: str, note: str) -> str:
    return f"{cluster} ({note})" if note else cluster


def _named(placement: str) -> Part:
    """A placement's address, its name in bold and the rest small above it."""
    kind, dot, name = placement.partition("_placement.")
    if not dot:
        return element("code", breakable(placement), class_="name")
    front = element("code", breakable(kind + dot), class_="quiet small front")
    return [front, element("code", breakable(name), class_="name")]


def _cell(cluster: str, square: Square) -> Markup:
    """One cell of the matrix; its `data-tip` is what the pointer shows, `data-head` what it is called where
    cells stand below one another.
    """
    row = square.binding
    if row is None:
        refused = f"refused: {square.rule}" if square.rule else "not picked"
        words = refused if square.why_not else "\N{EN DASH}"
        return element("td", words, class_="not", data_tip=square.why or None, data_head=cluster)
    kind = f"picked {row.action.value}"
    return element("td", _binding(row), class_=kind, data_tip=square.why or None, data_head=cluster)


def _binding(row: PlacementChange) -> Part:
    """What a cell says of a binding: its state and its scores."""
    scores = scores_text(row)
    return [
        element("span", state_text(row), class_=f"mark-{row.action.value}"),
        element("div", scores, class_="quiet small") if scores else None,
    ]


def state_text(row: PlacementChange) -> str:
    """What becomes of a binding: `+ Bound`."""
    place = row.target or row.source
    state = str(place.state) if isinstance(place, Binding) else row.action.value
    return f"{_SIGNS[row.action]} {state}".strip()


def scores_text(row: PlacementChange) -> str:
    """`affinity 20, spread 0`; "" where nothing was scored."""
    return ", ".join(f"{_SCORES.get(name, name)} {score}" for name, score in sorted(row.scores.items()))


def one_by_one(rows: Sequence[PlacementChange]) -> Part:
    """Too many clusters for a grid: a line per binding that changes, and those that stay, folded."""
    changing = [row for row in rows if row.action is not PlacementAction.KEEP]
    staying = [row for row in rows if row.action is PlacementAction.KEEP]
    changed = [_cut(len(changing)), _listed(changing, "Placements by cluster")] if changing else None
    if not staying:
        return changed
    summary = element(
        "summary", f"{counted(len(staying), 'binding')} {'stays' if len(staying) == 1 else 'stay'}"
    )
    listed = _listed(staying, "Bindings that stay")
    return [changed, element("details", summary, _cut(len(staying)), listed, class_="reasons")]


def _listed(rows: Sequence[PlacementChange], caption: str) -> Part:
    lines = [(str(row.address), binding_cluster(row), _binding(row)) for row in rows[:_MOST_ROWS]]
    return table(caption, ("Placement", "Cluster", "Binding"), lines)


def _cut(count: int) -> Part:
    """How many rows are listed, where that is not all."""
    return element("p", f"The first {_MOST_ROWS:,} of {count:,} are listed.") if count > _MOST_ROWS else None


def _hint(squares: Mapping[tuple[str, str], Square]) -> Part:
    """Where to ask when nothing says why a cluster was not picked."""
    if not _only_picked(squares):
        return None
    flag, command = element("code", "-placements=all"), element("code", "nexusform explain")
    hint = ["Why a cluster was not picked: plan with ", flag, ", or ask ", command, "."]
    return element("p", hint, class_="quiet")


def _only_picked(squares: Mapping[tuple[str, str], Square]) -> bool:
    """Whether nothing is known of clusters that were not picked."""
    return all(square.binding is not None for square in squares.values())


def reasons(squares: Mapping[tuple[str, str], Square]) -> Part:
    """Why each cluster is picked or not, folded."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for (placement, cluster), square in squares.items():
        if square.why:
            rule = square.rule or ("picked" if square.binding is not None else "not picked")
            alike.setdefault((cluster, rule, square.why), []).append(placement)
    lines = [(instances_text(placements), *said) for said, placements in alike.items()]
    if not lines:
        return None
    heads = ("Placement", "Cluster", "Rule", "Why")
    listed = table("Clusters and why", heads, lines[:_MOST_ROWS])
    why = "picked" if _only_picked(squares) else "picked or not"
    summary = element("summary", f"Why each cluster is {why} ({counted(len(lines), 'reason')})")
    return [_cut(len(lines)), element("details", summary, listed, class_="reasons")]


# --- pods --------------------------------------------------------------------------------------


def pods_part(plan: Plan) -> Part:
    """The pods that the plan touches, of fleets and of sites without one; nothing when there are none."""
    return pods_of([row for row in plan.placements if row.kind == POD])


def pods_of(rows: Sequence[PlacementChange], title: str = "Pods") -> Part:
    """These pods and their nodes; nothing when there are none."""
    if not rows:
        return None
    heads = ("Pod", "Workload", "Action", "From", "To", "Trigger")
    lines = [_pod_line(row) for row in rows[:_MOST_ROWS]]
    return section("pods", title, _cut(len(rows)), table("Pods and their nodes", heads, lines, firm=True))


# What the action alone would call placed, moved or kept.
_SAID: Final = frozenset({Effect.AGAIN, Effect.UNPLACED, Effect.WAITING, Effect.STILL_WAITING})


def _pod_line(row: PlacementChange) -> tuple[str, ...]:
    effect = effect_of(row)
    verb = verb_of(effect, state_of(row), 1) if effect in _SAID else row.action.value
    action = f"{_SIGNS[row.action]} {verb}".strip()
    origin = place_text(row.source) if row.source else ""
    target = place_text(row.target) if row.target else ""
    return row.object, row.pool, action, origin, target, row.trigger
