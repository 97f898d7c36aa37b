"""Why no room can be made: each constraint is lifted by itself, and it is tried again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.pods_down import ClusterPods
from nexusform.domains.whatif.questions.repack_ground import (
    NOTHING_LIFTED,
    Constraint,
    RepackGround,
    RepackRequest,
    lay_repack_ground,
)
from nexusform.domains.whatif.questions.repack_program import Limits, NoSolution, RepackProgram
from nexusform.domains.whatif.questions.repack_search import Search
from nexusform.domains.whatif.questions.repack_time import Patience
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.words import counted
from nexusform.worlds.world_view import SiteView

_HOLDS: Final[Mapping[Constraint, str]] = {
    Constraint.NOT: "without -not",
    Constraint.SINGLE_REPLICA: "if VMs that are alone in their pool may be re-created",
    Constraint.QUORUM: "if control planes may lose their quorum meanwhile",
    Constraint.BUDGET: "if PodDisruptionBudgets let these nodes be drained",
    Constraint.HUGEPAGES: "if pods with hugepages may wait until their node is back",
    Constraint.DEVICES: "if pods with devices may wait until their node is back",
    Constraint.PINNED: "if pinned VMs may be re-created",
    Constraint.HARD_HINT: "if VMs with hard hints may be re-created",
}


class Blocking(Struct, frozen=True):
    """A constraint that was lifted by itself, and how many re-creations would do then; None: it does not go
    with that alone either, or (`undecided`) time was over first. `loosened_by` says in words how it is
    lifted.
    """

    constraint: Constraint
    loosened_by: str
    recreations: int | None
    undecided: bool = False


def find_blocking(
    site: SiteView, request: RepackRequest, ground: RepackGround, search: Search
) -> tuple[Blocking, ...]:
    """Every constraint that holds something, and how many re-creations would do without it."""
    return tuple(_tried(site, search, _constraints(site, request, ground)))


def find_what_forbids_an_order(
    site: SiteView, request: RepackRequest, search: Search
) -> tuple[Blocking, ...]:
    """What may keep choices that would make room from an order, and how many re-creations would do then."""
    words = "if more VMs of a pool may be away at once than its max_unavailable"
    tries = [(Constraint.MAX_UNAVAILABLE, words, request)]
    if request.window is not None:
        tries.insert(0, (Constraint.WINDOW, "without -window", replace(request, window=None)))
    return tuple(_tried(site, search, tries))


def _tried(
    site: SiteView, search: Search, tries: Sequence[tuple[Constraint, str, RepackRequest]]
) -> Iterator[Blocking]:
    for number, (constraint, words, asked) in enumerate(tries):
        if search.patience.is_over:
            yield Blocking(constraint, words, None, undecided=True)
            continue
        part = 1 / (len(tries) - number)
        attempt = search.run(site, asked, frozenset({constraint}), walked=False, part=part)
        made = attempt.recreations if attempt.found else None
        fits = made is not None and (asked.moves is None or made <= asked.moves)
        may = attempt.undecided and (asked.moves is None or (attempt.bound or 0) <= asked.moves)
        yield Blocking(constraint, words, made if fits else None, undecided=may and not fits)


def _constraints(
    site: SiteView, request: RepackRequest, ground: RepackGround
) -> list[tuple[Constraint, str, RepackRequest]]:
    """What may be loosened: the constraint, in words, and what is asked then."""
    held = Counter(ground.held.values())
    tries: list[tuple[Constraint, str, RepackRequest]] = []
    if request.moves is not None:
        tries.append((Constraint.MOVES, "without -moves", replace(request, moves=None)))
    if request.zones is not None:
        tries.append((Constraint.ZONES, "without -zones", replace(request, zones=None)))
    for constraint, words in _HOLDS.items():
        if held[constraint]:
            vms = counted(held[constraint], "VM")
            tries.append((constraint, f"{words} ({vms})", request))
    tries.append((Constraint.SPREAD, "if a rack may get more VMs of a pool than one has now", request))
    if request.apart:
        tries.append((Constraint.SEPARATION, "without the separation rules", replace(request, apart=())))
    closed = sum(bool(machine.refusal) for machine in site.machines.values())
    if closed:
        tries.append((Constraint.CORDONED, f"with {counted(closed, 'machine')} in service again", request))
    planned = [rack.name for rack in site.racks if rack.planned]
    if planned:
        tries.append((Constraint.PLANNED_RACK, f"with {', '.join(planned)} active", request))
    return tries


def find_most(
    site: SiteView, request: RepackRequest, pods: Mapping[str, ClusterPods], patience: Patience
) -> int | None:
    """The largest demand of this SKU for which the program has a solution within -moves: by halves. None
    where time is over first.
    """
    ground = lay_repack_ground(site, request, pods, NOTHING_LIFTED)
    low, high = 0, request.want
    while low + 1 < high:
        want = (low + high) // 2
        has = None if patience.is_over else _has_solution(ground, replace(request, want=want), patience)
        if has is None:
            return None
        low, high = (want, high) if has else (low, want)
    return low


def _has_solution(ground: RepackGround, request: RepackRequest, patience: Patience) -> bool | None:
    """Whether the program has a solution within -moves; None where it did not come to an end."""
    solution = RepackProgram(ground, request).solve(Limits(patience.share(1.0)))
    moves = request.moves
    if isinstance(solution, NoSolution):
        return False if solution.proved or (moves is not None and solution.bound > moves) else None
    if moves is None or solution.recreations <= moves:
        return True
    return False if solution.bound > moves else None


def with_drawn_cells(site: SiteView) -> SiteView:
    """The site as if VMs whose cells nobody told stood as in the draw that is shown."""
    scheduler = RackScheduler(
        site.scheduler.machines,
        site.scheduler.spread,
        site.scheduler.seed,
        split_seed=site.scheduler.split_seed,
    )
    for vm in site.scheduler.drawn_vms():
        scheduler.occupy(vm.vm, vm.sku, vm.placement)
    return replace(site, scheduler=scheduler)
