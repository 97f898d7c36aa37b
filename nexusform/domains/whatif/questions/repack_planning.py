"""Minimum number of VM re-creations to make a demand fit, with a proof (repack_search.py).

Reasons if it is impossible: each constraint is lifted alone and the search repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from importlib.util import find_spec
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count
from nexusform.domains.whatif.questions.pod_outage import NO_PODS, ClusterPods
from nexusform.domains.whatif.questions.repack_context import (
    NO_TIME_LIMIT,
    NOTHING_LIFTED,
    Constraint,
    RepackContext,
    RepackRequest,
    TimeBudget,
    build_repack_context,
)
from nexusform.domains.whatif.questions.repack_program import NoRepackSolution, RepackProgram
from nexusform.domains.whatif.questions.repack_search import RepackSearch
from nexusform.domains.whatif.questions.repack_windows import (
    SAMPLES,
    RepackWindow,
    compute_minimum_windows,
    count_recreations,
)
from nexusform.planning.vm_planning.site_plans import rebuild_scheduler
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
    """Result of a repacking.

    `bound` is the lower bound of re-creations; None if impossible. `maximum` is the largest demand
    that fits if this one does not. `if_known` is the number of re-creations with NUMA cells as in
    one sample; None if cells are known, or if it is impossible. With `has_no_order` the program has
    a solution without a valid order of steps. `minimum_windows` is the lower bound of windows for
    these VMs. If every order was searched, no order with up to `searched_orders` re-creations
    exists. `orders_cut_at` is the number of re-creations at the end of an incomplete search.
    `movable_vms` is the number of movable VMs.
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
    searched_orders: int | None = None
    orders_cut_at: int | None = None
    movable_vms: int = 0

    @property
    def recreations(self) -> int | None:
        """Number of re-created VMs; None without a solution."""
        if self.status is RepackStatus.IMPOSSIBLE or self.has_no_order:
            return None
        return count_recreations(self.windows)

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
        """Whether there is no solution, or no order of steps for it."""
        return self.recreations is None


def is_solver_installed() -> bool:
    """Return True if HiGHS is installed (the extra `optimize`)."""
    try:
        return find_spec("highspy") is not None
    except ImportError:
        # An import finder that rejects it.
        return False


def plan_repack(
    site: SiteSnapshot,
    request: RepackRequest,
    pods: Mapping[str, ClusterPods] = NO_PODS,
    time_budget: TimeBudget = NO_TIME_LIMIT,
) -> RepackResult:
    """Plan the fewest re-creations of VMs to make the demand fit.

    The status is OPTIMAL if fewer are proved impossible, else GAP. Without a solution, find the
    constraints in the way. A limited `time_budget` may change the answer.
    """
    fits_now = site.scheduler.count_free_slots(request.demand)
    if fits_now.minimum >= request.want:
        return RepackResult(request, site, RepackStatus.NOTHING_TO_DO, fits_now, bound=0)
    unknown_machines = len(site.scheduler.list_machines_with_unknown_cells())
    search = RepackSearch(pods, time_budget)
    # With unknown cells, the rest of the time is for the search with known ones.
    attempt = search.run(site, request, share=_UNKNOWN_SHARE if unknown_machines else 1.0)
    result = RepackResult(
        request=request,
        site=site,
        # The status is replaced below if there is, or may be, a solution.
        status=RepackStatus.IMPOSSIBLE,
        fits_now=fits_now,
        bound=attempt.bound,
        unknown_machines=unknown_machines,
        if_known=_count_recreations_with_known_cells(site, request, search)
        if unknown_machines
        else None,
        is_machine_dependent=time_budget.seconds_left is not None,
        searched_orders=attempt.searched_orders,
        orders_cut_at=attempt.orders_cut_at,
        movable_vms=len(attempt.context.all_movable_vms),
    )
    if attempt.found and request.can_recreate(attempt.recreations):
        is_proved = attempt.recreations == attempt.bound
        has_all_samples = all(
            step.runs == SAMPLES for window in attempt.windows for step in window.steps
        )
        return replace(
            result,
            status=RepackStatus.OPTIMAL if is_proved else RepackStatus.GAP,
            windows=attempt.windows,
            minimum_windows=compute_minimum_windows(attempt.context, request, attempt.windows),
            # A proved answer verified under all samples does not depend on the time limit.
            is_machine_dependent=result.is_machine_dependent
            and not (is_proved and has_all_samples),
        )
    bound = attempt.bound
    # There may be a solution: the search was cut, or found one with more re-creations than -moves.
    is_unproved = attempt.undecided or attempt.found
    if is_unproved and bound is not None and request.can_recreate(bound):
        blocking = find_order_constraints(site, request, search)
        return replace(result, status=RepackStatus.GAP, has_no_order=True, blocking=blocking)
    # The other 70 % are for constraints.
    maximum = find_maximum_demand(site, request, pods, time_budget.split(0.3))
    return replace(
        result,
        maximum=maximum,
        blocking=find_blocking_constraints(site, request, attempt.context, search),
    )


def _count_recreations_with_known_cells(
    site: SiteSnapshot, request: RepackRequest, search: RepackSearch
) -> int | None:
    """Return the re-creations if the unknown cells are as in the reported sample.

    Return None without a solution.
    """
    scheduler = rebuild_scheduler(
        site.scheduler, site.scheduler.machines, site.scheduler.list_sampled_vms()
    )
    attempt = search.run(replace(site, scheduler=scheduler), request, is_verified=False)
    return attempt.recreations if attempt.found else None


_LOOSENINGS: Final[Mapping[Constraint, str]] = {
    Constraint.NOT: "without -not",
    Constraint.SINGLE_REPLICA: "if the only VM of a pool may be re-created",
    Constraint.QUORUM: "if control planes may lose quorum temporarily",
    Constraint.BUDGET: "if PodDisruptionBudgets allow draining these nodes",
    Constraint.HUGEPAGES: "if pods with hugepages may wait until their node is back",
    Constraint.DEVICES: "if pods with devices may wait until their node is back",
    Constraint.PINNED: "if pinned VMs may be re-created",
    Constraint.HARD_HINT: "if VMs with hard hints may be re-created",
}


class BlockingConstraint(Struct, frozen=True):
    """A constraint, and the number of re-creations without it.

    The number is None if there is no solution either, or (`undecided`) if the time ended first.
    `loosened_by` describes how to lift it.
    """

    constraint: Constraint
    loosened_by: str
    recreations: int | None
    undecided: bool = False


def find_blocking_constraints(
    site: SiteSnapshot, request: RepackRequest, context: RepackContext, search: RepackSearch
) -> tuple[BlockingConstraint, ...]:
    """Search without each possibly blocking constraint in turn.

    Return all, with the re-creations without them.
    """
    blocked_counts = Counter(context.blocked_by.values())
    # Each has a lifted constraint, its description, and the request.
    attempts: list[tuple[Constraint, str, RepackRequest]] = []
    if request.moves is not None:
        attempts.append((Constraint.MOVES, "without -moves", replace(request, moves=None)))
    if request.zones is not None:
        attempts.append((Constraint.ZONES, "without -zones", replace(request, zones=None)))
    for constraint, description in _LOOSENINGS.items():
        if blocked_counts[constraint]:
            vms = format_count(blocked_counts[constraint], "VM")
            attempts.append((constraint, f"{description} ({vms})", request))
    attempts.append(
        (Constraint.SPREAD, "if a rack may get more VMs of a pool than any rack has now", request)
    )
    if request.separation_rules:
        attempts.append(
            (
                Constraint.SEPARATION,
                "without the separation rules",
                replace(request, separation_rules=()),
            )
        )
    closed = sum(bool(machine.unschedulable_reason) for machine in site.machines.values())
    if closed:
        attempts.append(
            (
                Constraint.CORDONED,
                f"with {format_count(closed, 'machine')} in service again",
                request,
            )
        )
    planned = [rack.name for rack in site.racks if rack.is_planned]
    if planned:
        attempts.append((Constraint.PLANNED_RACK, f"with {', '.join(planned)} active", request))
    return tuple(_search_without_constraints(site, search, attempts))


def find_order_constraints(
    site: SiteSnapshot, request: RepackRequest, search: RepackSearch
) -> tuple[BlockingConstraint, ...]:
    """Search for an order of steps without one of the constraints.

    A search with all constraints found none. The constraints are -window, a part of the request,
    and max_unavailable, lifted by the search itself.
    """
    attempts: list[tuple[Constraint, str, RepackRequest]] = []
    if request.window is not None:
        attempts.append((Constraint.WINDOW, "without -window", replace(request, window=None)))
    description = "if more VMs of a pool than its max_unavailable may be down at once"
    attempts.append((Constraint.MAX_UNAVAILABLE, description, request))
    return tuple(_search_without_constraints(site, search, attempts))


def _search_without_constraints(
    site: SiteSnapshot,
    search: RepackSearch,
    attempts: Sequence[tuple[Constraint, str, RepackRequest]],
) -> Iterator[BlockingConstraint]:
    """Search once per attempt (the constraint to lift, its description, and the request).

    Yield the constraint with the number of re-creations, None without a solution. It is `undecided`
    if time runs out or the search proves nothing.
    """
    for number, (constraint, description, loosened_request) in enumerate(attempts):
        if search.time_budget.is_exhausted:
            yield BlockingConstraint(constraint, description, recreations=None, undecided=True)
            continue
        # Of the remaining time, equal for each attempt left.
        share = 1 / (len(attempts) - number)
        attempt = search.run(
            site, loosened_request, lifted=frozenset({constraint}), is_verified=False, share=share
        )
        recreations = attempt.recreations if attempt.found else None
        if recreations is not None and loosened_request.can_recreate(recreations):
            yield BlockingConstraint(constraint, description, recreations)
        else:
            # None: no bound.
            is_possible = attempt.undecided and loosened_request.can_recreate(attempt.bound or 0)
            yield BlockingConstraint(
                constraint, description, recreations=None, undecided=is_possible
            )


def find_maximum_demand(
    site: SiteSnapshot,
    request: RepackRequest,
    pods: Mapping[str, ClusterPods],
    time_budget: TimeBudget,
) -> int | None:
    """Find by bisection the largest demand of this SKU with a solution within -moves.

    Return None if the time is over, or if the program proves neither a solution nor the
    lack of one.
    """
    context = build_repack_context(site, request, pods, NOTHING_LIFTED)
    # There is a solution for `low` VMs, and none for `high`.
    low = 0
    high = request.want
    while low + 1 < high:
        want = (low + high) // 2
        if time_budget.is_exhausted:
            return None
        solution = RepackProgram(context, replace(request, want=want)).solve(
            time_budget.compute_share(1.0)
        )
        # The lower bound exceeds -moves.
        if not request.can_recreate(solution.bound):
            high = want
        elif isinstance(solution, NoRepackSolution):
            # None was found within the limits.
            if not solution.is_proved:
                return None
            high = want
        elif request.can_recreate(solution.recreations):
            low = want
        else:
            # The search ended at a solution above -moves, perhaps not the best one.
            return None
    return low
