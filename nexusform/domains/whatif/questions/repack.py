"""Making room: the fewest VMs to re-create so that a demand fits, with a proof.

repack_search.py searches; repack_blocking.py finds what stands in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.pods_down import NO_PODS, ClusterPods
from nexusform.domains.whatif.questions.repack_blocking import (
    Blocking,
    find_blocking,
    find_most,
    find_what_forbids_an_order,
    with_drawn_cells,
)
from nexusform.domains.whatif.questions.repack_ground import Constraint, RepackRequest
from nexusform.domains.whatif.questions.repack_search import Attempt, Search
from nexusform.domains.whatif.questions.repack_steps import TIE_BREAKS, RepackWindow, fewest_windows
from nexusform.domains.whatif.questions.repack_time import ENDLESS, Patience
from nexusform.scheduling.racks.vms import Interval
from nexusform.worlds.world_view import SiteView

# The part of the time that is left for the answer itself where cells are not known.
_PART_WITH_UNKNOWN: Final = 0.7


class RepackStatus(StrEnum):
    """What came of it."""

    OPTIMAL = "optimal"
    GAP = "gap"
    NOTHING_TO_DO = "nothing_to_do"
    IMPOSSIBLE = "impossible"


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
    bound = attempt.bound
    is_open = attempt.undecided or attempt.found
    if is_open and bound is not None and (request.moves is None or bound <= request.moves):
        forbids = find_what_forbids_an_order(site, request, search)
        return replace(repack, status=RepackStatus.GAP, unwalked=True, blocking=forbids)
    most = find_most(site, request, pods, patience.part(0.3))
    return replace(repack, most=most, blocking=find_blocking(site, request, attempt.ground, search))


def _within(attempt: Attempt, request: RepackRequest) -> bool:
    return request.moves is None or attempt.recreations <= request.moves


def _is_played(attempt: Attempt) -> bool:
    """Whether time was left for all tie-breaks."""
    return all(step.of == TIE_BREAKS for window in attempt.windows for step in window.steps)


def _if_known(search: Search, site: SiteView, request: RepackRequest) -> int | None:
    """How many re-creations would do with every cell known, as in the draw that is shown."""
    if not site.scheduler.loose_machines():
        return None
    attempt = search.run(with_drawn_cells(site), request, walked=False)
    return attempt.recreations if attempt.found else None
