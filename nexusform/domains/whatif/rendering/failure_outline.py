"""The answer to `simulate failure`, for people and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final

from nexusform.domains.whatif.questions.failure import Failure, FailureScope, PoolComeback
from nexusform.domains.whatif.questions.pods_down import WorkloadLeft
from nexusform.domains.whatif.rendering.runtime_upgrade_outline import POOL, pool_cells
from nexusform.domains.whatif.rendering.workload_rows import pending_lines, workload_document, workload_table
from nexusform.json_forms import Form
from nexusform.rendering.answers.outline import (
    REPLACEMENT,
    Outline,
    Row,
    Section,
    Table,
    short_place_text,
)
from nexusform.rendering.notation.json_bounds import drawn_document
from nexusform.rendering.notation.places import drawn_text
from nexusform.scheduling.racks.vms import Interval
from nexusform.words import counted, form, listed
from nexusform.worlds.availability import PoolLeft, Replacement
from nexusform.worlds.world_view import OwnerKind


def failure_outline(failure: Failure, origin: str) -> Outline:
    """What is down and left, what to do, and where things come back."""
    sections = [_down(failure)] if failure.pools else []
    if failure.workloads:
        sections.append(_pods(failure))
    if failure.deletions:
        sections.append(_deletions(failure))
    if failure.machines and failure.vms:
        sections.append(_runbook(failure))
    if failure.comebacks:
        sections += [_comebacks(failure), *(_places(pool) for pool in failure.comebacks)]
    return Outline(
        f"Loss of {failure.scope.value} {failure.lost} ({origin})",
        failure_headline(failure),
        failure.bad,
        tuple(_facts(failure)),
        tuple(sections),
    )


def failure_headline(failure: Failure) -> str:
    """What is down, what that loses, and whether it comes back."""
    if not failure.vms:
        return "Nothing is down: no VM stands there."
    down = f"{counted(failure.vms, 'VM')} {form(failure.vms, 'is', 'are')} down"
    if failure.scope in {FailureScope.CLUSTER, FailureScope.SITE}:
        return f"{down}, and nothing comes back elsewhere by itself."
    losses = [_loss(pool) for pool in failure.pools if pool.lost]
    losses += [f"no pod of {workload_left.workload} runs" for workload_left in failure.lost_workloads]
    clauses = [down, listed(losses, 4) if losses else "every control plane keeps its quorum"]
    if failure.comebacks:
        clauses.append(_room_elsewhere(failure))
    return "; ".join(clauses) + "."


def _room_elsewhere(failure: Failure) -> str:
    """Whether every node finds room, and how far that is known."""
    missing = failure.missing if failure.drawn is None else failure.drawn.missing.most
    if not missing:
        return "there is room for every node elsewhere"
    if failure.drawn is None or failure.drawn.missing.exact:
        return f"{counted(missing, 'VM')} {form(missing, 'fits', 'fit')} nowhere else"
    draws = failure.drawn.draws
    return (
        f"{failure.drawn.missing} VMs fit nowhere else, and everything fits in {draws.fitting:,} of "
        f"{draws.runs:,} draws of NUMA cells that nobody told"
    )


def _loss(pool: PoolLeft) -> str:
    """What a cluster loses with the VMs of a pool."""
    if pool.control_plane:
        return f"{pool.cluster} loses its control-plane quorum"
    return f"{pool.cluster} has no node of {pool.pool} left"


def _facts(failure: Failure) -> Iterable[str]:
    """What happens by itself and what does not."""
    if failure.machines and failure.scope is FailureScope.RACK:
        yield f"{counted(len(failure.machines), 'machine')}: {listed(failure.machines, 4)}."
    if failure.deletions:
        yield (
            "The platform creates no VM again by itself. It does so elsewhere once the node is deleted, "
            "which may take up to 30 minutes and may leave the racks less evenly filled; when the machine "
            "comes back first, its VMs start there again."
        )
    if failure.drawn is not None:
        yield f"NUMA cells: {drawn_text(failure.drawn)}"
    waiting = [_waits(pool) for pool in failure.stay_down]
    if waiting:
        yield f"Down until the machine is back: {listed(waiting)}."
    if failure.outsiders:
        yield f"Outside nexusform, down: {listed(failure.outsiders)}."


def _waits(pool: PoolLeft) -> str:
    """VMs that wait for their machine, and the command that makes them elsewhere."""
    if pool.kind is OwnerKind.VM:
        return f"{pool.cluster} (elsewhere by `nexusform apply -replace='{pool.address}'`)"
    names = listed((vm.name for vm in pool.down), 3)
    return f"{names} (elsewhere by `nexusform apply -replace='{pool.address}:NAME'`)"


def _down(failure: Failure) -> Section:
    rows = tuple(Row(pool_cells(pool), pool.lost) for pool in failure.pools)
    table = _table(("cluster", "pool", "down", "up", ""), rows, 2)
    return Section("What is down, what is left", table=table, bad=any(row.bad for row in rows))


def _pods(failure: Failure) -> Section:
    table = workload_table(failure.workloads, drained=False)
    lines = tuple(pending_lines(failure.workloads))
    bad = bool(failure.lost_workloads)
    return Section("Workloads, before any node is back", lines, table=table, bad=bad)


def _table(heads: tuple[str, ...], rows: tuple[Row, ...], *figures: int) -> Table:
    return Table(heads, rows, frozenset(figures))


def _deletions(failure: Failure) -> Section:
    """The commands that have the platform create nodes elsewhere."""
    silent = sorted({deletion.cluster for deletion in failure.deletions if not deletion.reachable})
    lines = []
    if silent:
        lines.append(
            f"Without quorum the control plane of {listed(silent)} cannot answer: bring a machine back first."
        )
    commands: list[str] = []
    for deletion in failure.deletions:
        note = "" if deletion.reachable else ", no quorum"
        commands.append(f"# {deletion.cluster} ({counted(len(deletion.nodes), 'node')}{note})")
        commands.append(deletion.command)
    title = "Delete these nodes so that the platform creates them elsewhere"
    return Section(title, tuple(lines), tuple(commands))


def _runbook(failure: Failure) -> Section:
    """What to check, do and check again, in order."""
    steps = runbook(failure)
    return Section("Runbook", tuple(f"{number}. {step}" for number, step in enumerate(steps, 1)))


def runbook(failure: Failure) -> tuple[str, ...]:
    """The steps of an operator, from the loss to the check that everything is as predicted."""
    return (*_before(failure), *_during(failure), *_afterwards(failure))


def _before(failure: Failure) -> Iterable[str]:
    """What to know before anything is deleted: a machine that comes back by itself needs nothing."""
    machines = listed(failure.machines, 4)
    are = form(len(failure.machines), "is", "are")
    yield (
        f"Check that {machines} {are} really gone (`az networkcloud baremetalmachine show`: powerState, "
        "readyState): what comes back soon brings its VMs back itself."
    )
    they_return = form(len(failure.machines), "it returns", "they return")
    yield f"Cordon {machines}, so that nothing is placed there when {they_return}."
    silent = sorted({deletion.cluster for deletion in failure.deletions if not deletion.reachable})
    if silent:
        yield f"Bring a machine back for {listed(silent)} first: without quorum no node of it can be deleted."
    if failure.missing:
        reasons = ", ".join(f"{pool.cluster}/{pool.pool}" for pool in failure.comebacks if pool.missing)
        yield (
            f"{counted(failure.missing, 'VM')} ({reasons}) will find no room: make some first "
            "(`nexusform simulate repack`), or leave their nodes until the machine is back."
        )


def _during(failure: Failure) -> Iterable[str]:
    """Whose nodes are deleted, those with a control plane one at a time."""
    for deletion in failure.deletions:
        if deletion.reachable:
            yield f"{deletion.cluster}: delete {counted(len(deletion.nodes), 'node')} by the command above."
    for pool in failure.stay_down:
        yield f"Down until the machine is back: {_waits(pool)}."


def _afterwards(failure: Failure) -> Iterable[str]:
    """How to see that it went as predicted."""
    if failure.deletions:
        yield (
            "Wait until the new nodes are Ready (up to 30 minutes), and compare where they stand with the "
            "tables below."
        )
    yield (
        "`nexusform plan` then says what stands elsewhere than recorded; `nexusform apply -refresh-only` "
        "records it."
    )
    are_back = form(len(failure.machines), "the machine is", "the machines are")
    yield f"When {are_back} back, uncordon: nothing moves back by itself."


def _comebacks(failure: Failure) -> Section:
    drawn = failure.drawn.pools if failure.drawn is not None else [None] * len(failure.comebacks)
    rows = tuple(_comeback_row(*pair) for pair in zip(failure.comebacks, drawn, strict=True))
    reasons = [f"{pool.cluster}/{pool.pool}: {pool.reason}" for pool in failure.comebacks if pool.reason]
    table = _table(("cluster", "pool", "fit", "racks"), rows, 2)
    title = "Where they come back, by the rule"
    return Section(title, tuple(reasons), table=table, bad=any(row.bad for row in rows))


def _comeback_row(pool: PoolComeback, drawn: Interval | None) -> Row:
    """How many of a pool fit: from to, where draws differ. The racks are those of the draw that is shown."""
    missing = drawn or Interval(pool.missing, pool.missing)
    fit = Interval(len(pool.vms) - missing.most, len(pool.vms) - missing.least)
    cells = (pool.cluster, pool.pool, f"{fit} of {len(pool.vms)}", _racks(pool))
    return Row(cells, missing.most > 0)


def _racks(pool: PoolComeback) -> str:
    """The racks that VMs come back in, with how many where there are several."""
    counts = Counter(vm.place.rack for vm in pool.vms if vm.place is not None)
    racks = sorted(counts, key=str.encode)
    return listed(rack if counts[rack] == 1 else f"{counts[rack]} in {rack}" for rack in racks)


def _places(pool: PoolComeback) -> Section:
    rows = tuple(_place_row(vm) for vm in pool.vms)
    table = _table(("node", "stood on", "comes back on"), rows)
    return Section(f"{pool.cluster}/{pool.pool}", table=table, folded=True, bad=pool.missing > 0)


def _place_row(replacement: Replacement) -> Row:
    vm, place = replacement.vm, replacement.place
    goes = short_place_text(place) if place is not None else "no room"
    return Row((vm.name, short_place_text(vm.placement), goes), place is None)


def _workload(workload_left: WorkloadLeft) -> dict[str, Any]:
    return workload_document(workload_left, drained=False)


def _commands(failure: Failure) -> list[str]:
    return list(runbook(failure)) if failure.machines and failure.vms else []


# What a failure takes, as JSON data.
FAILURE: Final = Form(
    Failure,
    "site_id scope lost machines vms_down=vms pools stay_down outside_vms_down=outsiders workloads "
    "runbook=. delete_nodes=deletions vms_without_room=missing comebacks draws=drawn",
    pools=POOL,
    stay_down=Form(PoolLeft, "address vms=down", vms=attrgetter("name")),
    workloads=_workload,
    runbook=_commands,
    delete_nodes="cluster_id machines command nodes control_plane_answers=reachable",
    comebacks=Form(PoolComeback, "cluster_id pool vm_sku_name=sku reason? nodes=vms", nodes=REPLACEMENT),
    draws=drawn_document,
)
