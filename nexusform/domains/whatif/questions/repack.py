"""Making room: the fewest VMs to re-create so that a demand fits, with a proof.

An integer program (repack_program.py) says how few can do; its choice is named (repack_moves.py), and
walked through the rule of racks window by window (repack_steps.py). What the rule refuses sharpens the
program, and it is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib.util import find_spec
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.pods_down import NO_PODS, ClusterPods
from nexusform.domains.whatif.questions.repack_ground import (
    NOTHING_LIFTED,
    Constraint,
    RepackGround,
    RepackRequest,
    lay_repack_ground,
)
from nexusform.domains.whatif.questions.repack_moves import intend
from nexusform.domains.whatif.questions.repack_program import Limits, NoSolution, RepackProgram
from nexusform.domains.whatif.questions.repack_steps import RepackWindow, find_walk, prove
from nexusform.scheduling.racks.vms import Interval
from nexusform.worlds.world_view import SiteView

# Sites of so many VMs at most are counted cell by cell and pool by pool, so that pods and pools are few, too.
_MOST_VMS_TOLD_APART: Final = 250
_MOST_ROUNDS: Final = 12


class RepackStatus(StrEnum):
    """What came of it."""

    OPTIMAL = "optimal"
    GAP = "gap"
    NOTHING_TO_DO = "nothing_to_do"
    IMPOSSIBLE = "impossible"


class Blocking(Struct, frozen=True):
    """A constraint that was lifted by itself, and how many re-creations would do then; None: it does not go
    with that alone either. `loosened_by` says in words how it is lifted.
    """

    constraint: Constraint
    loosened_by: str
    recreations: int | None


class Repack(Struct, frozen=True):
    """The answer. `bound`: with fewer re-creations it cannot be done; None where it cannot be done at all.

    `most` is the largest demand that could be met, where this one cannot. `if_known` is how many re-creations
    would do if the NUMA cells of VMs were known to be as in one draw; None where they are, or where it cannot
    be done then either. `unwalked`: the program has a solution for which no order of steps was found.
    """

    request: RepackRequest
    site: SiteView
    status: RepackStatus
    fits_now: Interval
    bound: int | None = None
    windows: tuple[RepackWindow, ...] = ()
    blocking: tuple[Blocking, ...] = ()
    most: int | None = None
    if_known: int | None = None
    unknown: int = 0
    unwalked: bool = False
    on_this_machine: bool = False
    held: Mapping[Constraint, int] = {}

    @property
    def recreations(self) -> int | None:
        """How many VMs are re-created; None where there is no way."""
        if self.status is RepackStatus.IMPOSSIBLE or self.unwalked:
            return None
        return sum(len(window.steps) for window in self.windows)

    @property
    def pods(self) -> int:
        """How many pods are restarted."""
        return sum(step.source.pods for window in self.windows for step in window.steps)

    @property
    def pools(self) -> int:
        """How many pools are touched."""
        return len({step.source.pool for window in self.windows for step in window.steps})

    @property
    def bad(self) -> bool:
        """Whether there is no way."""
        return self.recreations is None


def solver_is_there() -> bool:
    """Whether HiGHS is installed (the extra `optimize`)."""
    try:
        return find_spec("highspy") is not None
    except ImportError:  # a finder that refuses it
        return False


def make_room(site: SiteView, request: RepackRequest, pods: Mapping[str, ClusterPods] = NO_PODS) -> Repack:
    """Find the fewest re-creations that make room."""
    fits_now = site.scheduler.count_free(request.demand)
    if fits_now.least >= request.want:
        return Repack(request, site, RepackStatus.NOTHING_TO_DO, fits_now, bound=0)
    attempt = _search(site, request, pods, NOTHING_LIFTED)
    repack = Repack(
        request=request,
        site=site,
        status=RepackStatus.IMPOSSIBLE,
        fits_now=fits_now,
        bound=attempt.bound,
        unknown=len(site.scheduler.loose_machines()),
        if_known=_if_known(site, request, pods),
        on_this_machine=request.seconds is not None,
    )
    if attempt.found and _within(attempt, request):
        made = attempt.recreations
        status = RepackStatus.OPTIMAL if made == attempt.bound else RepackStatus.GAP
        proved = status is RepackStatus.OPTIMAL
        return replace(
            repack,
            status=status,
            windows=attempt.windows,
            on_this_machine=repack.on_this_machine and not proved,
        )
    from nexusform.domains.whatif.questions.repack_blocking import find_blocking, find_most

    bound = attempt.bound
    is_open = attempt.undecided or attempt.found
    if is_open and bound is not None and (request.moves is None or bound <= request.moves):
        return replace(repack, status=RepackStatus.GAP, unwalked=True)
    blocking = find_blocking(site, request, pods, attempt.ground, _search)
    return replace(repack, most=find_most(site, request, pods), blocking=blocking)


class Attempt(Struct, frozen=True):
    """One search. `found`: its windows make the room. `bound` None: proved that there is no way at all;
    `undecided`: neither way nor proof.
    """

    ground: RepackGround
    bound: int | None
    windows: tuple[RepackWindow, ...] = ()
    undecided: bool = False
    found: bool = False

    @property
    def recreations(self) -> int:
        """How many VMs its windows re-create."""
        return sum(len(window.steps) for window in self.windows)


Search = Callable[[SiteView, RepackRequest, Mapping[str, ClusterPods], frozenset[Constraint]], Attempt]


def _within(attempt: Attempt, request: RepackRequest) -> bool:
    return request.moves is None or attempt.recreations <= request.moves


def _search(
    site: SiteView,
    request: RepackRequest,
    pods: Mapping[str, ClusterPods],
    lifted: frozenset[Constraint],
    *,
    walked: bool = True,
) -> Attempt:
    """Solve, name, walk; where the walk or the spread of a pool fails, look closer and solve again."""
    ground = lay_repack_ground(site, request, pods, lifted)
    fine = len(ground.sources) <= _MOST_VMS_TOLD_APART
    followed = frozenset(source.pool for source in ground.sources) if fine else frozenset()
    solo: frozenset[str] = frozenset()
    bound = 0
    for _ in range(_MOST_ROUNDS):
        program = RepackProgram(ground, request, followed=followed, solo=solo, fine=fine)
        solution = program.solve(Limits(request.seconds))
        if isinstance(solution, NoSolution):
            return Attempt(ground, None if solution.proved else bound, undecided=not solution.proved)
        bound = max(bound, solution.bound)
        intention = intend(ground, program, solution, followed)
        if intention.crowded - followed:
            followed |= intention.crowded
            continue
        walk = find_walk(ground, request, intention)
        if walk is not None:
            windows = prove(ground, walk) if walked else walk.windows
            return Attempt(ground, bound, windows, found=True)
        if intention.machines <= solo:
            break
        solo |= intention.machines
    return Attempt(ground, bound, undecided=True)


def _if_known(site: SiteView, request: RepackRequest, pods: Mapping[str, ClusterPods]) -> int | None:
    """How many re-creations would do with every cell known, as in the draw that is shown."""
    if not site.scheduler.loose_machines():
        return None
    from nexusform.domains.whatif.questions.repack_blocking import with_drawn_cells

    attempt = _search(with_drawn_cells(site), request, pods, NOTHING_LIFTED, walked=False)
    return attempt.recreations if attempt.found else None
