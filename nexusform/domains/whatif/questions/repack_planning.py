"""Minimum number of VM re-creations to make a demand fit, with a proof (repack_search.py)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.pod_outage import NO_PODS, ClusterPods
from nexusform.domains.whatif.questions.repack_blocking import (
    BlockingConstraint,
    find_blocking_constraints,
    find_maximum_demand,
    find_order_constraints,
    fix_unknown_cells,
)
from nexusform.domains.whatif.questions.repack_context import NO_TIME_LIMIT, Constraint, RepackRequest, TimeBudget
from nexusform.domains.whatif.questions.repack_search import RepackSearch
from nexusform.domains.whatif.questions.repack_windows import SAMPLES, RepackWindow, compute_minimum_windows
from nexusform.scheduling.racks.vms import Interval
from nexusform.snapshots.snapshot import SiteSnapshot

# The part of the time that is left for the answer itself where cells are not known.
_UNKNOWN_SHARE: Final = 0.7


class RepackStatus(StrEnum):
    """Status of a repacking."""

    OPTIMAL = "optimal"
    GAP = "gap"
    NOTHING_TO_DO = "nothing_to_do"
    IMPOSSIBLE = "impossible"


class RepackResult(Struct, frozen=True):
    """Result of a repacking. `bound`: lower bound of re-creations; None if impossible. `maximum`: largest
    demand that fits if this one does not. `if_known`: re-creations with NUMA cells as in one sample; None if
    cells are known, or if it is impossible. `has_no_order`: the program has a solution without a valid order
    of steps. `minimum_windows`: lower bound of windows for these VMs. `searched_orders`: no order with up to
    this many re-creations exists, if every order was searched; `orders_cut_at`: re-creations at the end of
    an incomplete search; `movable_vms`: number of movable VMs.
    """

    request: RepackRequest
    site: SiteSnapshot
    status: RepackStatus
    fits_now: Interval
    bound: int | None = None
    windows: tuple[RepackWindow, ...] = ()
    blocking: tuple[BlockingConstraint, ...] = ()
    maximum: int | None = None
    if_known: int | None = None
    unknown_machines: int = 0
    has_no_order: bool = False
    minimum_windows: int = 0
    is_machine_dependent: bool = False
    blocked_counts: Mapping[Constraint, int] = {}
    searched_orders: int | None = None
    orders_cut_at: int | None = None
    movable_vms: int = 0

    @property
    def recreations(self) -> int | None:
        """Number of re-created VMs; None without a solution."""
        if self.status is RepackStatus.IMPOSSIBLE or self.has_no_order:
            return None
        return sum(len(window.steps) for window in self.windows)

    @property
    def pod_restarts(self) -> int:
        """Number of pod restarts; a pod restarted twice counts twice."""
        return sum(len(window.pods) for window in self.windows)

    @property
    def pool_count(self) -> int:
        """Number of affected pools."""
        return len({step.source.pool for window in self.windows for step in window.steps})

    @property
    def has_findings(self) -> bool:
        """Whether there is no solution."""
        return self.recreations is None


def is_solver_installed() -> bool:
    """Return True if HiGHS is installed (the extra `optimize`)."""
    try:
        return find_spec("highspy") is not None
    except ImportError:  # an import finder that rejects it
        return False


def plan_repack(
    site: SiteSnapshot,
    request: RepackRequest,
    pods: Mapping[str, ClusterPods] = NO_PODS,
    time_budget: TimeBudget = NO_TIME_LIMIT,
) -> RepackResult:
    """Find the minimum number of re-creations for the demand."""
    fits_now = site.scheduler.count_free_slots(request.demand)
    if fits_now.minimum >= request.want:
        return RepackResult(request, site, RepackStatus.NOTHING_TO_DO, fits_now, bound=0)
    unknown_machines = len(site.scheduler.list_machines_with_unknown_cells())
    search = RepackSearch(pods, time_budget)
    attempt = search.run(site, request, share=_UNKNOWN_SHARE if unknown_machines else 1.0)
    if_known = None
    if unknown_machines:
        # The re-creations with every cell as in the reported sample.
        known_attempt = search.run(fix_unknown_cells(site), request, is_verified=False)
        if_known = known_attempt.recreations if known_attempt.found else None
    result = RepackResult(
        request=request,
        site=site,
        status=RepackStatus.IMPOSSIBLE,
        fits_now=fits_now,
        bound=attempt.bound,
        unknown_machines=unknown_machines,
        if_known=if_known,
        is_machine_dependent=time_budget.seconds_left is not None,
        searched_orders=attempt.searched_orders,
        orders_cut_at=attempt.orders_cut_at,
        movable_vms=len(attempt.context.all_movable_vms),
    )
    is_within_limit = request.moves is None or attempt.recreations <= request.moves
    if attempt.found and is_within_limit:
        is_proved = attempt.recreations == attempt.bound
        return replace(
            result,
            status=RepackStatus.OPTIMAL if is_proved else RepackStatus.GAP,
            windows=attempt.windows,
            minimum_windows=compute_minimum_windows(attempt.context, request, attempt.windows),
            is_machine_dependent=result.is_machine_dependent
            and not (is_proved and all(step.runs == SAMPLES for window in attempt.windows for step in window.steps)),
        )
    bound = attempt.bound
    is_open = attempt.undecided or attempt.found
    if is_open and bound is not None and (request.moves is None or bound <= request.moves):
        blocking = find_order_constraints(site, request, search)
        return replace(result, status=RepackStatus.GAP, has_no_order=True, blocking=blocking)
    maximum = find_maximum_demand(site, request, pods, time_budget.split(0.3))
    return replace(result, maximum=maximum, blocking=find_blocking_constraints(site, request, attempt.context, search))
