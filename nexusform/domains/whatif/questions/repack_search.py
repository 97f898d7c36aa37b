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
    RepackWindow,
    Walk,
    find_walk,
    prove,
)
from nexusform.domains.whatif.questions.repack_time import ENDLESS, Patience
from nexusform.worlds.world_view import SiteView

# Sites of so many VMs at most are counted cell by cell and pool by pool, so that pods and pools are few, too.
_MOST_VMS_TOLD_APART: Final = 250
_MOST_ROUNDS: Final = 12
# How often VMs whose pods would break something are held, and it is searched again.
_MOST_HELD: Final = 5
_OF_PODS: Final = frozenset({Constraint.HUGEPAGES, Constraint.DEVICES})
# How many VMs more than wanted are made room for where no order of steps makes room for just those.
_MORE: Final = (1, 2, 4, 8)
# Parts of the time that is left: for one solution, and for a way without the program.
_PART_TO_SOLVE: Final = 0.6
_PART_FOR_CHEAP: Final = 0.3


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
