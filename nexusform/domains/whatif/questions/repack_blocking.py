"""Reasons for an impossible repacking: each constraint is lifted alone and the search repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count
from nexusform.domains.whatif.questions.pod_outage import ClusterPods
from nexusform.domains.whatif.questions.repack_context import (
    NOTHING_LIFTED,
    Constraint,
    RepackContext,
    RepackRequest,
    TimeBudget,
    build_repack_context,
    create_empty_scheduler,
)
from nexusform.domains.whatif.questions.repack_program import NoRepackSolution, RepackProgram
from nexusform.domains.whatif.questions.repack_search import RepackSearch
from nexusform.snapshots.snapshot import SiteSnapshot

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
    """A constraint that was lifted by itself, and how many re-creations would do then; None: it does not go
    with that alone either, or (`undecided`) time was over first. `loosened_by` says in words how it is
    lifted.
    """

    constraint: Constraint
    loosened_by: str
    recreations: int | None
    undecided: bool = False


def find_blocking_constraints(
    site: SiteSnapshot, request: RepackRequest, context: RepackContext, search: RepackSearch
) -> tuple[BlockingConstraint, ...]:
    """Find every constraint that blocks VMs, and the number of re-creations without it."""
    # List the constraints to lift: constraint, description, and changed request.
    blocked_counts = Counter(context.blocked_by.values())
    attempts: list[tuple[Constraint, str, RepackRequest]] = []
    if request.moves is not None:
        attempts.append((Constraint.MOVES, "without -moves", replace(request, moves=None)))
    if request.zones is not None:
        attempts.append((Constraint.ZONES, "without -zones", replace(request, zones=None)))
    for constraint, description in _LOOSENINGS.items():
        if blocked_counts[constraint]:
            vms = format_count(blocked_counts[constraint], "VM")
            attempts.append((constraint, f"{description} ({vms})", request))
    attempts.append((Constraint.SPREAD, ("if a rack may get more VMs of a pool than any rack has now"), request))
    if request.separation_rules:
        attempts.append((Constraint.SEPARATION, "without the separation rules", replace(request, separation_rules=())))
    closed = sum(bool(machine.unschedulable_reason) for machine in site.machines.values())
    if closed:
        attempts.append((Constraint.CORDONED, f"with {format_count(closed, 'machine')} in service again", request))
    planned = [rack.name for rack in site.racks if rack.is_planned]
    if planned:
        attempts.append((Constraint.PLANNED_RACK, f"with {', '.join(planned)} active", request))
    return tuple(_search_without_constraints(site, search, attempts))


def find_order_constraints(
    site: SiteSnapshot, request: RepackRequest, search: RepackSearch
) -> tuple[BlockingConstraint, ...]:
    """Find the constraints that may prevent an order of steps, and the number of re-creations without each."""
    description = "if more VMs of a pool than its max_unavailable may be down at once"
    attempts = [(Constraint.MAX_UNAVAILABLE, description, request)]
    if request.window is not None:
        attempts.insert(0, (Constraint.WINDOW, "without -window", replace(request, window=None)))
    return tuple(_search_without_constraints(site, search, attempts))


def _search_without_constraints(
    site: SiteSnapshot, search: RepackSearch, attempts: Sequence[tuple[Constraint, str, RepackRequest]]
) -> Iterator[BlockingConstraint]:
    """Search again without each constraint in turn."""
    for number, (constraint, description, loosened_request) in enumerate(attempts):
        if search.time_budget.is_exhausted:
            yield BlockingConstraint(constraint, description, None, undecided=True)
            continue
        share = 1 / (len(attempts) - number)
        attempt = search.run(site, loosened_request, frozenset({constraint}), is_verified=False, share=share)
        recreations = attempt.recreations if attempt.found else None
        fits = recreations is not None and (loosened_request.moves is None or recreations <= loosened_request.moves)
        is_possible = attempt.undecided and (
            loosened_request.moves is None or (attempt.bound or 0) <= loosened_request.moves
        )
        yield BlockingConstraint(
            constraint, description, recreations if fits else None, undecided=is_possible and not fits
        )


def find_maximum_demand(
    site: SiteSnapshot, request: RepackRequest, pods: Mapping[str, ClusterPods], time_budget: TimeBudget
) -> int | None:
    """Find by bisection the largest demand of this SKU with a solution within -moves; None if time runs out."""
    context = build_repack_context(site, request, pods, NOTHING_LIFTED)
    low, high = 0, request.want
    while low + 1 < high:
        want = (low + high) // 2
        is_solvable = (
            None if time_budget.is_exhausted else _has_solution(context, replace(request, want=want), time_budget)
        )
        if is_solvable is None:
            return None
        low, high = (want, high) if is_solvable else (low, want)
    return low


def _has_solution(context: RepackContext, request: RepackRequest, time_budget: TimeBudget) -> bool | None:
    """Return True if the program has a solution within -moves; None if undecided."""
    solution = RepackProgram(context, request).solve(time_budget.compute_share(1.0))
    moves = request.moves
    if isinstance(solution, NoRepackSolution):
        return False if solution.is_proved or (moves is not None and solution.bound > moves) else None
    if moves is None or solution.recreations <= moves:
        return True
    return False if solution.bound > moves else None


def fix_unknown_cells(site: SiteSnapshot) -> SiteSnapshot:
    """Return the site with unknown cells fixed as in the reported sample."""
    scheduler = create_empty_scheduler(site.scheduler, site.scheduler.machines)
    for vm in site.scheduler.list_sampled_vms():
        scheduler.add_existing(vm.vm, vm.sku, vm.placement)
    return replace(site, scheduler=scheduler)
