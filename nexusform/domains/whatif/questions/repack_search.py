"""Search the fewest re-creations that make room.

An integer program (repack_program.py) says how few can do; its choice is named (repack_moves.py), and
walked through the rule of racks window by window (repack_steps.py). What the rule refuses sharpens the
program, and it is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.pods_down import ClusterPods
from nexusform.domains.whatif.questions.repack_choice import RepackChoice, choose_vms
from nexusform.domains.whatif.questions.repack_context import (
    NOTHING_LIFTED,
    Constraint,
    RepackContext,
    RepackRequest,
    build_repack_context,
)
from nexusform.domains.whatif.questions.repack_greedy import choose_greedily
from nexusform.domains.whatif.questions.repack_pods import check_pods
from nexusform.domains.whatif.questions.repack_program import NoSolution, RepackProgram, SolverLimits
from nexusform.domains.whatif.questions.repack_time_budget import NO_TIME_LIMIT, TimeBudget
from nexusform.domains.whatif.questions.repack_windows import (
    RepackWindow,
    WindowSequence,
    find_sequence,
    verify_sequence,
)
from nexusform.snapshots.snapshot import SiteSnapshot

# Sites of so many VMs at most are counted cell by cell and pool by pool, so that pods and pools are few, too.
_MOST_VMS_TOLD_APART: Final = 250
_MOST_ROUNDS: Final = 12
# Maximum number of searches that keep VMs with pods that would break something.
_MOST_HELD: Final = 5
_OF_PODS: Final = frozenset({Constraint.HUGEPAGES, Constraint.DEVICES})
# Maximum number of extra VMs to free capacity for, if no order of steps frees capacity for the wanted number.
_MORE: Final = (1, 2, 4, 8)
# Parts of the time that is left: for one solution, and for a way without the program.
_PART_TO_SOLVE: Final = 0.6
_PART_FOR_CHEAP: Final = 0.3


class Attempt(Struct, frozen=True):
    """One search. `found`: its windows make the room. `bound` None: proved that there is no way at all;
    `undecided`: neither way nor proof.
    """

    ground: RepackContext
    bound: int | None
    windows: tuple[RepackWindow, ...] = ()
    undecided: bool = False
    found: bool = False

    @property
    def recreations(self) -> int:
        """How many VMs its windows re-create."""
        return sum(len(window.steps) for window in self.windows)


class Search(Struct, frozen=True):
    """Solves, names, walks; where the walk or the spread of a pool fails, looks closer and solves again."""

    pods: Mapping[str, ClusterPods]
    patience: TimeBudget = NO_TIME_LIMIT

    def run(
        self,
        site: SiteSnapshot,
        request: RepackRequest,
        lifted: frozenset[Constraint] = NOTHING_LIFTED,
        *,
        walked: bool = True,
        part: float = 1.0,
    ) -> Attempt:
        """Search with this part of the time that is left."""
        patience = self.patience.split(part)
        ground = build_repack_context(site, request, self.pods, lifted)
        attempt, walk = _Closer(ground, request, patience.split(0.85)).look()
        for _ in range(_MOST_HELD):
            if walk is None:
                return attempt
            following = check_pods(ground, walk.windows, request.separation_rules)
            breaking = following.violating if not lifted & _OF_PODS else frozenset()
            if not breaking:
                break
            # The bound stays that of everybody: whoever is held here may have gone in another order.
            request = replace(request, excluded=request.excluded | _names(ground, breaking))
            kept = build_repack_context(site, request, self.pods, lifted)
            _, walk = _Closer(kept, request, patience.split(0.85)).look()
        else:
            walk = None
        if walk is None:
            return replace(attempt, undecided=True)
        windows = verify_sequence(ground, walk, patience) if walked else walk.windows
        with_pods = zip(windows, following.windows, strict=True)
        windows = tuple(replace(window, pods=followed.pods) for window, followed in with_pods)
        return replace(attempt, windows=windows, found=True, undecided=False)


def _names(ground: RepackContext, handles: frozenset[int]) -> frozenset[str]:
    """These VMs as `-not` names them."""
    gone = [source for source in ground.sources if source.handle in handles]
    return frozenset(f"{ground.pools[source.pool].address}:{source.vm.name}" for source in gone)


class _Closer:
    """Looks closer and closer: `followed` are pools whose spread is looked at, `solo` machines that stand for
    themselves.
    """

    def __init__(self, ground: RepackContext, request: RepackRequest, patience: TimeBudget) -> None:
        self._ground = ground
        self._request = request
        self._patience = patience
        self._fine = len(ground.sources) <= _MOST_VMS_TOLD_APART
        self._followed = frozenset(source.pool for source in ground.sources) if self._fine else frozenset()
        self._solo: frozenset[str] = frozenset()
        # It does not fit now.
        self._bound = 1
        # What can be said if time is over before the program has an answer.
        self._cheap: WindowSequence | None = None

    def look(self) -> tuple[Attempt, WindowSequence | None]:
        """What can be said, and a way if one was found."""
        if self._patience.seconds_left is not None:
            self._cheap = self._cheapest(self._patience.split(_PART_FOR_CHEAP))
        for _ in range(_MOST_ROUNDS):
            found = self._solve(self._request)
            if isinstance(found, NoSolution):
                if found.is_proved:
                    return Attempt(self._ground, None), None
                self._bound = max(self._bound, found.bound)
                break
            intention, bound = found
            self._bound = max(self._bound, bound)
            walk = find_sequence(self._ground, self._request, intention, self._patience)
            if walk is not None:
                return Attempt(self._ground, self._bound), walk
            if not self._looks_closer(intention) or self._patience.is_exhausted:
                break
        return Attempt(self._ground, self._bound, undecided=True), self._with_more()

    def _solve(self, request: RepackRequest) -> tuple[RepackChoice, int] | NoSolution:
        """A choice of VMs, and how many it takes at least."""
        program = RepackProgram(
            self._ground, request, tracked_pools=self._followed, single_machines=self._solo, is_fine=self._fine
        )
        if self._patience.is_exhausted:
            return NoSolution(is_proved=False)
        solution = program.solve(SolverLimits(self._patience.compute_share(_PART_TO_SOLVE)))
        if isinstance(solution, NoSolution):
            return solution
        return choose_vms(self._ground, program, solution, self._followed), solution.bound

    def _looks_closer(self, intention: RepackChoice) -> bool:
        """Tell more apart; False where nothing more can be told."""
        if intention.crowding_pools - self._followed:
            self._followed |= intention.crowding_pools
            return True
        if intention.affected_machines <= self._solo:
            return False
        self._solo |= intention.affected_machines
        return True

    def _with_more(self) -> WindowSequence | None:
        """A way by freeing more than is wanted: nothing proves it, and it may do where no other was found."""
        for more in _MORE:
            if self._patience.is_exhausted:
                break
            found = self._solve(replace(self._request, want=self._request.want + more))
            if isinstance(found, NoSolution):
                break
            walk = find_sequence(self._ground, self._request, found[0], self._patience)
            if walk is not None:
                return walk
        return self._cheap or self._cheapest(self._patience)

    def _cheapest(self, patience: TimeBudget) -> WindowSequence | None:
        """A way without the program: nothing proves it."""
        return find_sequence(self._ground, self._request, choose_greedily(self._ground, self._request), patience)
