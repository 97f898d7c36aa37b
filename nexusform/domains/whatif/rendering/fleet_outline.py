"""The answer to `simulate fleet`, for people and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState, ResourceUsage
from nexusform.domains.pods.pod_kind import PodPlace
from nexusform.domains.whatif.questions.fleet import FleetSimulation, MemberRoom, PlacementOutcome
from nexusform.json_forms import Form, columns
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.words import counted, form, listed

_RESOURCES: Final = ("cpu", "memory")
_MOST_PODS: Final = 20
_FEW_PLACEMENTS: Final = 20  # so many have a row each
_MOST_SENTENCES: Final = 60


def fleet_outline(simulation: FleetSimulation, origin: str) -> Outline:
    """Which placements go where, why, the pods that follow, and the room that is left."""
    sections = [_placements(simulation), *_reasons(simulation), *_kept(simulation)]
    sections += [*_pods(simulation), *_room(simulation)]
    edits = listed((edit.text for edit in simulation.edits), 3)
    return Outline(
        f"Fleet: {edits} ({origin})",
        _verdict(simulation),
        simulation.bad,
        tuple(_facts(simulation)),
        tuple(sections),
    )


def _verdict(simulation: FleetSimulation) -> str:
    """How many placements change, then what is bad about it, clause by clause."""
    placements = simulation.placements
    if not placements:
        return "Nothing changes: there is no placement."
    return f"{'; '.join([_how_many_change(placements), *_bad_news(simulation)])}."


def _how_many_change(placements: Sequence[PlacementOutcome]) -> str:
    """The clause that opens the verdict."""
    changed = sum(bool(placement.gained or placement.lost) for placement in placements)
    if not changed:
        return f"No placement changes ({len(placements):,} looked at)"
    verb = form(changed, "changes", "change")
    return f"{changed:,} of {counted(len(placements), 'placement')} {verb}"


def _bad_news(simulation: FleetSimulation) -> Iterator[str]:
    """What makes the verdict a finding, clause by clause."""
    placements = simulation.placements
    short = [
        placement.after.key
        for placement in placements
        if placement.before.fulfilled and not placement.after.fulfilled
    ]
    if short:
        yield f"{listed(short, 4)} {form(len(short), 'falls', 'fall')} short"
    empty = [
        placement.after.key
        for placement in placements
        if placement.before.clusters and not placement.after.clusters
    ]
    if empty:
        yield f"{listed(empty, 4)} {form(len(empty), 'is', 'are')} on no cluster any more"
    for placement in placements:
        if placement.stopped is not None:
            at = f" at {placement.stopped.cluster}" if placement.stopped.cluster else ""
            yield f"the scheduler stops{at} for {placement.after.key}"
    waiting = sum(len(placement.pending) for placement in placements)
    if waiting:
        yield f"{counted(waiting, 'pod')} {form(waiting, 'finds', 'find')} no node"
    for key, cluster in simulation.staying:
        yield f"{key} stays on {cluster}"


def _facts(simulation: FleetSimulation) -> Iterator[str]:
    """What is to be known beside the verdict."""
    for warning in simulation.warnings:
        where = f"{warning.address}: " if warning.address else ""
        yield f"{where}{' '.join(warning.detail.split())}"
    waiting = [
        placement.after.key
        for placement in simulation.placements
        if placement.after.external and _waits(placement)
    ]
    if waiting:
        yield (
            f"{listed(waiting, 4)}: the strategy is External, so what is picked or let go is so on the "
            "clusters only once a staged run carries it out."
        )


def _waits(placement: PlacementOutcome) -> bool:
    """Whether a staged run has to do what the scheduler decided."""
    changed = {*placement.gained, *placement.lost}
    return any(
        isinstance(row.target, Binding) and row.target.state is not BindingState.BOUND
        for row in placement.rows
        if row.object in changed
    )


def _touched(placement: PlacementOutcome) -> bool:
    """Whether clusters come to a placement or leave it."""
    return bool(placement.gained or placement.lost)


def _placements(simulation: FleetSimulation) -> Section:
    """The section of placements, a row each; of many only those of which something is to be said."""
    shown = told_placements(simulation)
    rows = tuple(_placement_row(placement) for placement in shown)
    table = Table(("placement", "policy", "clusters", "comes to", "leaves", ""), rows) if rows else None
    rest = _others(simulation, len(shown))
    return Section("Placements", lines=rest, table=table, bad=any(row.bad for row in rows))


def told_placements(simulation: FleetSimulation) -> Sequence[PlacementOutcome]:
    """All placements, or where there are many those that change or fail."""
    placements = simulation.placements
    if len(placements) <= _FEW_PLACEMENTS:
        return placements
    return [placement for placement in placements if _touched(placement) or placement.bad]


def _others(simulation: FleetSimulation, shown: int) -> tuple[str, ...]:
    """How many placements stay as they are without a row of their own."""
    left = len(simulation.placements) - shown
    if not left:
        return ()
    others = "other placement" if shown else "placement"
    text = f"{counted(left, others)} {form(left, 'stays', 'stay')} as {form(left, 'it is', 'they are')}"
    unfulfilled = sum(
        not placement.after.fulfilled
        for placement in simulation.placements
        if not (_touched(placement) or placement.bad)
    )
    if unfulfilled:
        text += f"; {unfulfilled:,} of them not fulfilled, as before"
    return (f"{text}.",)


def _placement_row(placement: PlacementOutcome) -> Row:
    count_before, count_after = len(placement.before.clusters), len(placement.after.clusters)
    clusters = f"{count_before:,} -> {count_after:,}" if _touched(placement) else f"{count_after:,}"
    state = "" if placement.after.fulfilled else "not fulfilled"
    if not placement.after.fulfilled and not placement.before.fulfilled:
        state = "not fulfilled, as before"
    cells = (
        placement.after.key,
        str(placement.after.kind),
        clusters,
        listed(placement.gained, 4),
        listed(placement.lost, 4),
        state,
    )
    return Row(cells, placement.bad)


def _reasons(simulation: FleetSimulation) -> Iterator[Section]:
    """Why clusters come and go, and why a policy is not fulfilled."""
    lines: list[str] = []
    for placement in told_placements(simulation):
        lines += [_why(placement, row, "") for row in placement.rows if _moves(placement, row)]
        lines += [
            _why(placement, row, ", with or without this")
            for row in placement.anyway
            if _moves(placement, row)
        ]
        if placement.status is not None and not placement.after.fulfilled:
            lines.append(f"{placement.after.key}: {placement.status.condition.message}")
            lines += [f"{decision.cluster}: {decision.reason}" for decision in placement.status.unselected]
    if lines:
        yield Section("Why", _first_sentences(lines))


def _first_sentences(lines: Sequence[str]) -> tuple[str, ...]:
    """As many sentences as are read, and how many more there are; JSON has all."""
    more = len(lines) - _MOST_SENTENCES
    return tuple(lines) if more <= 1 else (*lines[:_MOST_SENTENCES], f"and {more:,} more like these")


def _moves(placement: PlacementOutcome, row: PlacementChange) -> bool:
    """Whether a row is that of a cluster that comes or leaves."""
    return row.action is not PlacementAction.KEEP and row.object in (*placement.gained, *placement.lost)


def _why(placement: PlacementOutcome, row: PlacementChange, aside: str) -> str:
    """Why a cluster comes or leaves, in a sentence; `aside` is said behind the cluster."""
    goes = "comes to" if row.object in placement.gained else "leaves"
    return f"{placement.after.key} {goes} {row.object}{aside}: {row.reason}"


def _kept(simulation: FleetSimulation) -> Iterator[Section]:
    """What stays though the policy would not pick it, and what a new placement would do."""
    kept: list[str] = []
    fresh: list[str] = []
    for placement in simulation.placements:
        for row in placement.kept:
            reason = row.reason.removeprefix("kept: ")
            kept.append(f"{placement.after.key} on {row.object}: {reason}")
        fresh += _fresh(placement)
    if kept:
        yield Section("Kept all the same", _first_sentences(kept))
    if fresh:
        title = "What a placement made anew would do (nothing is moved for that)"
        yield Section(title, _first_sentences(fresh))


def _fresh(placement: PlacementOutcome) -> Iterator[str]:
    """What a new placement with this policy would hold otherwise, in a sentence."""
    gained, lost = placement.fresh.gained, placement.fresh.lost
    would = [f"hold {listed(gained, 4)}"] if gained else []
    would += [f"not hold {listed(lost, 4)}"] if lost else []
    if would:
        yield f"{placement.after.key} would {' and '.join(would)}"


def _workload_row(pool: str, pods: Sequence[PlacementChange]) -> Row:
    """How many pods of a workload (`cluster/workload`) come, go, and find no node."""
    cluster, _, workload = pool.partition("/")
    comes = sum(_node(row) is not None for row in pods)
    goes = sum(row.target is None for row in pods)
    waits = len(pods) - comes - goes
    return Row((cluster, workload, str(comes or ""), str(goes or ""), str(waits or "")), waits > 0)


def _pods(simulation: FleetSimulation) -> Iterator[Section]:
    """Pods that come, go or find no node, by workload."""
    rows: list[Row] = []
    reasons: dict[str, None] = {}
    for placement in simulation.placements:
        by_workload: dict[str, list[PlacementChange]] = {}
        for row in placement.pods:
            by_workload.setdefault(row.pool, []).append(row)
        rows += [_workload_row(pool, pods) for pool, pods in by_workload.items()]
        reasons |= {f"{row.object}: {row.reason}": None for row in placement.pending}
    if rows:
        table = Table(
            ("cluster", "workload", "come", "go", "find no node"), tuple(rows), frozenset({2, 3, 4})
        )
        lines = tuple(reasons)[:_MOST_PODS]
        yield Section("Pods", lines, table=table, bad=any(row.bad for row in rows))


def _node(row: PlacementChange) -> str | None:
    """The node that a pod gets; None where it gets none."""
    return row.target.node if isinstance(row.target, PodPlace) else None


def _room(simulation: FleetSimulation) -> Iterator[Section]:
    """The room of the members to which anything happens."""
    touched = {edit.member for edit in simulation.edits}
    for placement in simulation.placements:
        touched |= {*placement.gained, *placement.lost}
    shown = [
        member for member in simulation.members if member.name in touched or member.before != member.after
    ]
    untouched = len(simulation.members) - len(shown)
    bare = [member.name for member in shown if not any(_room_row(member).cells[1:])]
    rows = tuple(_room_row(member) for member in shown if member.name not in bare)
    fixed = [
        member.name
        for member in shown
        if not member.derived and member.after is not None and member.name not in bare
    ]
    lines = []
    if fixed:
        lines.append(
            f"{listed(fixed, 4)}: given figures, which stay as they are. Without nodes the pods that come "
            "are not predicted."
        )
    if bare:
        lines.append(f"Nothing is known of cpu and memory on {listed(bare, 4)}.")
    if untouched:
        lines.append(f"{counted(untouched, 'other member')} {form(untouched, 'stays', 'stay')} as before.")
    table = Table(("member", "cpu", "memory"), rows) if rows else None
    yield Section("Room: available of allocatable", tuple(lines), table=table)


def _room_row(member: MemberRoom) -> Row:
    if member.after is None:
        return Row((member.name, "gone", "gone"))
    cells = [_figures(member, resource) for resource in _RESOURCES]
    return Row((member.name, *cells))


def _figures(member: MemberRoom, resource: str) -> str:
    """`30500m -> 28500m of 44`, `28 of 44`, or "" where nothing is given."""
    assert member.after is not None
    available, allocatable = member.after.available.get(resource), member.after.allocatable.get(resource)
    available_before = member.before.available.get(resource) if member.before is not None else None
    if available is None:
        return ""
    is_changed = available_before is not None and available_before != available
    change = f"{available_before} -> {available}" if is_changed else str(available)
    return change if allocatable is None else f"{change} of {allocatable}"


# --- as data -----------------------------------------------------------------------------------


def _texts(amounts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def _usage(usage: ResourceUsage) -> Mapping[str, Any]:
    return {"allocatable": _texts(usage.allocatable), "available": _texts(usage.available)}


def _state(target: object) -> str | None:
    return str(BindingState(target.state)) if isinstance(target, Binding) else None


def _of_pod(row: PlacementChange) -> dict[str, Any]:
    cluster, _, workload = row.pool.partition("/")
    return {"cluster": cluster, "workload": workload, "pod": row.object}


_UNSELECTED: Final = Form(Struct, "cluster reason")
_BINDING: Final = Form(
    PlacementChange, "cluster=object action trigger? reason? state=target scores", state=_state
)
_POD: Final = Form(PlacementChange, "*of=. action node=. reason?", of=_of_pod, node=_node)


def _unselected(outcome: PlacementOutcome) -> list[dict[str, Any]]:
    return [] if outcome.status is None else [_UNSELECTED(each) for each in outcome.status.unselected]


_PLACEMENT: Final = Form(
    PlacementOutcome,
    "address=after.address name=after.key placement_type=after.kind strategy=after.external "
    "before=before.clusters after=after.clusters gained lost fulfilled_before=before.fulfilled "
    "fulfilled=after.fulfilled scheduled=status.condition.message unselected=. "
    "stopped=stopped.message made_anew=fresh bindings=rows pods pods_without_node=.",
    strategy=lambda external: "External" if external else "RollingUpdate",
    unselected=_unselected,
    made_anew="gained lost",
    bindings=_BINDING,
    pods=_POD,
    pods_without_node=lambda outcome: dict(Counter(str(row.pool) for row in outcome.pending)),
)
# What the simulation found, as JSON data.
FLEET: Final = Form(
    FleetSimulation,
    "changes=edits placements members staying warnings",
    changes="change=verb member key? value",
    placements=_PLACEMENT,
    members=Form(MemberRoom, "name derived before after", before=_usage, after=_usage),
    staying=columns("placement cluster"),
    warnings="id address? detail",
)
