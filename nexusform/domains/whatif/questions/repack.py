"""Making room: the fewest VMs to re-create so that a demand fits, with a proof.

An integer program (repack_program.py) says how few can do; its choice is named (repack_moves.py), and
walked through the rule of racks window by window (repack_steps.py). What the rule refuses sharpens the
program, and it is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.pods_down import NO_PODS, ClusterPods
from nexusform.domains.whatif.questions.repack_cheap import choose_by_cost
from nexusform.domains.whatif.questions.repack_ground import (
    NOTHING_LIFTED,
    Constraint,
    RepackGround,
    RepackRequest,
    lay_repack_ground,
)
from nexusform.domains.whatif.questions.repack_moves import Intention, intend
from nexusform.domains.whatif.questions.repack_pods import follow_pods
from nexusform.domains.whatif.questions.repack_program import Limits, NoSolution, RepackProgram
from nexusform.domains.whatif.questions.repack_steps import (
    TIE_BREAKS,
    RepackWindow,
    Walk,
    fewest_windows,
    find_walk,
    prove,
)
from nexusform.domains.whatif.questions.repack_time import ENDLESS, Patience
from nexusform.scheduling.racks.vms import Interval
from nexusform.worlds.world_view import SiteView

# Sites of so many VMs at most are counted cell by cell and pool by pool, so that pods and pools are few, too.
_MOST_VMS_TOLD_APART: Final = 250
_MOST_ROUNDS: Final = 12
# How often VMs whose pods would break something are held, and it is searched again.
_MOST_HELD: Final = 5
_OF_PODS: Final = frozenset({Constraint.HUGEPAGES, Constraint.DEVICES})
# How many VMs more than wanted are made room for where no order of steps makes room for just those.
_MORE: Final = (1, 2, 4, 8)
# Parts of the time that is left: for one solution, and for the answer itself where cells are not known.
_PART_TO_SOLVE: Final = 0.6
_PART_WITH_UNKNOWN: Final = 0.7
_PART_FOR_CHEAP: Final = 0.3


class RepackStatus(StrEnum):
    """What came of it."""

    OPTIMAL = "optimal"
    GAP = "gap"
    NOTHING_TO_DO = "nothing_to_do"
    IMPOSSIBLE = "impossible"


class Blocking(Struct, frozen=True):
    """A constraint that was lifted by itself, and how many re-creations would do then; None: it does not go
    with that alone either, or (`undecided`) time was over first. `loosened_by` says in words how it is
    lifted.
    """

    constraint: Constraint
    loosened_by: str
    recreations: int | None
    undecided: bool = False


class Repack(Struct, frozen=True):
    """The answer. `bound`: with fewer re-creations it cannot be done; None where it cannot be done at all.

    `most` is the largest demand that could be met, where this one cannot. `if_known` is how many re-creations
    would do if the NUMA cells of VMs were known to be as in one draw; None where they are, or where it cannot
    be done then either. `unwalked`: the program has a solution for which no order of steps was found. With
    fewer windows than `fewest_windows` these VMs could not go in any order.
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
    fewest_windows: int = 0
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
        """How many times pods are restarted: one that comes to a node that goes later counts twice."""
        return sum(len(window.pods) for window in self.windows)

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


def make_room(
    site: SiteView,
    request: RepackRequest,
    pods: Mapping[str, ClusterPods] = NO_PODS,
    patience: Patience = ENDLESS,
) -> Repack:
    """Find the fewest re-creations that make room."""
    fits_now = site.scheduler.count_free(request.demand)
    if fits_now.least >= request.want:
        return Repack(request, site, RepackStatus.NOTHING_TO_DO, fits_now, bound=0)
    is_unknown = bool(site.scheduler.loose_machines())
    search = Search(pods, patience)
    attempt = search.run(site, request, part=_PART_WITH_UNKNOWN if is_unknown else 1.0)
    repack = Repack(
        request=request,
        site=site,
        status=RepackStatus.IMPOSSIBLE,
        fits_now=fits_now,
        bound=attempt.bound,
        unknown=len(site.scheduler.loose_machines()),
        if_known=_if_known(search, site, request),
        on_this_machine=patience.seconds_left is not None,
    )
    if attempt.found and _within(attempt, request):
        made = attempt.recreations
        proved = made == attempt.bound
        return replace(
            repack,
            status=RepackStatus.OPTIMAL if proved else RepackStatus.GAP,
            windows=attempt.windows,
            fewest_windows=fewest_windows(attempt.ground, request, attempt.windows),
            on_this_machine=repack.on_this_machine and not (proved and _is_played(attempt)),
        )
    from nexusform.domains.whatif.questions.repack_blocking import (
        find_blocking,
        find_most,
        find_what_forbids_an_order,
    )

    bound = attempt.bound
    is_open = attempt.undecided or attempt.found
    if is_open and bound is not None and (request.moves is None or bound <= request.moves):
        forbids = find_what_forbids_an_order(site, request, search)
        return replace(repack, status=RepackStatus.GAP, unwalked=True, blocking=forbids)
    most = find_most(site, request, pods, patience.part(0.3))
    return replace(repack, most=most, blocking=find_blocking(site, request, attempt.ground, search))


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


def _within(attempt: Attempt, request: RepackRequest) -> bool:
    return request.moves is None or attempt.recreations <= request.moves


def _is_played(attempt: Attempt) -> bool:
    """Whether time was left for all tie-breaks."""
    return all(step.of == TIE_BREAKS for window in attempt.windows for step in window.steps)


class Search(Struct, frozen=True):
    """Solves, names, walks; where the walk or the spread of a pool fails, looks closer and solves again."""

    pods: Mapping[str, ClusterPods]
    patience: Patience = ENDLESS

    def run(
        self,
        site: SiteView,
        request: RepackRequest,
        lifted: frozenset[Constraint] = NOTHING_LIFTED,
        *,
        walked: bool = True,
        part: float = 1.0,
    ) -> Attempt:
        """Search with this part of the time that is left."""
        patience = self.patience.part(part)
        ground = lay_repack_ground(site, request, self.pods, lifted)
        attempt, walk = _Closer(ground, request, patience.part(0.85)).look()
        for _ in range(_MOST_HELD):
            if walk is None:
                return attempt
            following = follow_pods(ground, walk.windows, request.apart)
            breaking = following.breaking if not lifted & _OF_PODS else frozenset()
            if not breaking:
                break
            # The bound stays that of everybody: whoever is held here may have gone in another order.
            request = replace(request, spared=request.spared | _names(ground, breaking))
            kept = lay_repack_ground(site, request, self.pods, lifted)
            _, walk = _Closer(kept, request, patience.part(0.85)).look()
        else:
            walk = None
        if walk is None:
            return replace(attempt, undecided=True)
        windows = prove(ground, walk, patience) if walked else walk.windows
        with_pods = zip(windows, following.windows, strict=True)
        windows = tuple(replace(window, pods=followed.pods) for window, followed in with_pods)
        return replace(attempt, windows=windows, found=True, undecided=False)


def _names(ground: RepackGround, handles: frozenset[int]) -> frozenset[str]:
    """These VMs as `-not` names them."""
    gone = [source for source in ground.sources if source.handle in handles]
    return frozenset(f"{ground.pools[source.pool].address}:{source.vm.name}" for source in gone)


class _Closer:
    """Looks closer and closer: `followed` are pools whose spread is looked at, `solo` machines that stand for
    themselves.
    """

    def __init__(self, ground: RepackGround, request: RepackRequest, patience: Patience) -> None:
        self._ground = ground
        self._request = request
        self._patience = patience
        self._fine = len(ground.sources) <= _MOST_VMS_TOLD_APART
        self._followed = frozenset(source.pool for source in ground.sources) if self._fine else frozenset()
        self._solo: frozenset[str] = frozenset()
        # It does not fit as it stands.
        self._bound = 1
        # What can be said if time is over before the program has an answer.
        self._cheap: Walk | None = None

    def look(self) -> tuple[Attempt, Walk | None]:
        """What can be said, and a way if one was found."""
        if self._patience.seconds_left is not None:
            self._cheap = self._cheapest(self._patience.part(_PART_FOR_CHEAP))
        for _ in range(_MOST_ROUNDS):
            found = self._solve(self._request)
            if isinstance(found, NoSolution):
                if found.proved:
                    return Attempt(self._ground, None), None
                self._bound = max(self._bound, found.bound)
                break
            intention, bound = found
            self._bound = max(self._bound, bound)
            walk = find_walk(self._ground, self._request, intention, self._patience)
            if walk is not None:
                return Attempt(self._ground, self._bound), walk
            if not self._looks_closer(intention) or self._patience.is_over:
                break
        return Attempt(self._ground, self._bound, undecided=True), self._with_more()

    def _solve(self, request: RepackRequest) -> tuple[Intention, int] | NoSolution:
        """A choice of VMs, and how many it takes at least."""
        program = RepackProgram(
            self._ground, request, followed=self._followed, solo=self._solo, fine=self._fine
        )
        if self._patience.is_over:
            return NoSolution(proved=False)
        solution = program.solve(Limits(self._patience.share(_PART_TO_SOLVE)))
        if isinstance(solution, NoSolution):
            return solution
        return intend(self._ground, program, solution, self._followed), solution.bound

    def _looks_closer(self, intention: Intention) -> bool:
        """Tell more apart; False where nothing more can be told."""
        if intention.crowded - self._followed:
            self._followed |= intention.crowded
            return True
        if intention.machines <= self._solo:
            return False
        self._solo |= intention.machines
        return True

    def _with_more(self) -> Walk | None:
        """A way by freeing more than is wanted: nothing proves it, and it may do where no other was found."""
        for more in _MORE:
            if self._patience.is_over:
                break
            found = self._solve(replace(self._request, want=self._request.want + more))
            if isinstance(found, NoSolution):
                break
            walk = find_walk(self._ground, self._request, found[0], self._patience)
            if walk is not None:
                return walk
        return self._cheap or self._cheapest(self._patience)

    def _cheapest(self, patience: Patience) -> Walk | None:
        """A way without the program: nothing proves it."""
        return find_walk(self._ground, self._request, choose_by_cost(self._ground, self._request), patience)


def _if_known(search: Search, site: SiteView, request: RepackRequest) -> int | None:
    """How many re-creations would do with every cell known, as in the draw that is shown."""
    if not site.scheduler.loose_machines():
        return None
    from nexusform.domains.whatif.questions.repack_blocking import with_drawn_cells

    attempt = search.run(with_drawn_cells(site), request, walked=False)
    return attempt.recreations if attempt.found else None
