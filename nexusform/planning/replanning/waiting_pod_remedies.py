"""Remedies for waiting pods, proposed by domains, and the suggested selection of a rejection.

Each remedy is tested as a plan.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import enclose
from nexusform.json_data.plain_data import get_mapping
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.phases import ProposedFix
from nexusform.planning.plan_request import PlanRequest, build_trial_request
from nexusform.planning.replanning.remedies import (
    Remedy,
    RemedyPricing,
    build_remedy_document,
    sort_by_price,
)
from nexusform.planning.replanning.trials import plan_trial
from nexusform.planning.vm_planning.vm_object import SELECTION_KEY
from nexusform.plans.plan import FeasibilityResult, Plan
from nexusform.resources.address import Address

_MAX_TRIALS: Final = 12
# Trials times placed objects without -details, a number and not a time: the plan is the same
# on every computer.
_MAX_PLANNED_OBJECTS: Final = 2400

_Binding = tuple[Address, str]


def add_feasibility_remedies(
    request: PlanRequest, result: PlanResult, make_plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """Return the result with tested fixes for bindings with waiting pods.

    A binding is a placement with one of its clusters. The result also counts the bindings left
    untested: the number of trial plans is limited.
    """
    plan = result.plan
    if plan.errored:
        return result
    trials_left = _MAX_TRIALS
    # Without -details, large plans get fewer trials.
    if not request.includes_losses:
        trials_left = min(trials_left, _MAX_PLANNED_OBJECTS // max(1, len(plan.placements)))
    waiting = [(row.placement, row.cluster) for row in plan.workloads.feasibility if row.is_waiting]
    # Domains propose fixes only for the first bindings, as many as there are trials. The
    # others stay untested.
    untested = set(waiting[trials_left:])
    trial_request = replace(request, samples=0, verifies_certainty=False)
    pricing = RemedyPricing(request, result)
    # Successful fixes by binding and kind.
    fixes: dict[_Binding, dict[str, Remedy]] = {}
    for contribution in result.contributions:
        for proposal in contribution.suggest_fixes(trials_left):
            if all(proposal.kind in fixes.get(binding, {}) for binding in proposal.solves):
                # A fix of the same kind works already.
                continue
            if trials_left == 0:
                untested |= proposal.solves
                continue
            trials_left -= 1
            untested -= proposal.solves
            trial = plan_trial(trial_request, make_plan, proposal.edits)
            if _is_proposal_successful(proposal, plan, trial.plan):
                remedy = pricing.add_price(
                    Remedy(
                        proposal.kind, proposal.text, trial, dict(proposal.change), proposal.edits
                    )
                )
                for binding in proposal.solves:
                    fixes.setdefault(binding, {})[proposal.kind] = remedy
    rows = []
    for row in plan.workloads.feasibility:
        remedies = sort_by_price(fixes.get((row.placement, row.cluster), {}).values())
        rows.append(replace(row, suggested_fixes=tuple(map(build_remedy_document, remedies))))
    untested_count = sum(binding in untested and binding not in fixes for binding in waiting)
    return replace(
        result,
        plan=replace(
            plan,
            workloads=replace(
                plan.workloads, feasibility=tuple(rows), untested_bindings=untested_count
            ),
        ),
    )


def _is_proposal_successful(proposal: ProposedFix, plan: Plan, trial: Plan) -> bool:
    """Return whether the trial of a fix has the effect it promises, and no other binding stops.

    A binding is a placement and a cluster. Placements keep their number of clusters. Only the
    placement `proposal.completed` may lose `fewer_clusters` of them, but it must run on all others.
    """
    if trial.errored:
        return False
    before = _collect_bindings(plan)
    after = _collect_bindings(trial)
    waiting_before = {
        (address, cluster)
        for address, cluster in before.not_running
        if address != proposal.completed
    }
    minimum_counts = before.count_clusters()
    if proposal.completed is not None:
        minimum_counts[proposal.completed] = max(
            1, minimum_counts[proposal.completed] - proposal.fewer_clusters
        )
    return (
        after.running >= set(proposal.runs)
        and after.not_running <= waiting_before - set(proposal.solves)
        and after.count_clusters() >= minimum_counts
    )


class _Bindings(Struct, frozen=True):
    # The selected bindings of a plan.
    running: set[_Binding]
    not_running: set[_Binding]

    def count_clusters(self) -> Counter[Address]:
        """Count the selected clusters of each placement."""
        return Counter(address for address, _ in (*self.running, *self.not_running))


def _collect_bindings(plan: Plan) -> _Bindings:
    """Collect the bindings of a plan: those with all pods running, and the rest.

    A binding is a placement and its selected cluster.
    """
    bindings = _Bindings(running=set(), not_running=set())
    for row in plan.workloads.feasibility:
        # A row about another cluster is no binding.
        if row.is_selected:
            group = (
                bindings.running if row.result is FeasibilityResult.RUNS else bindings.not_running
            )
            group.add((row.placement, row.cluster))
    return bindings


# Each step may add targets, which may exclude others.
_MAXIMUM_STEPS = 4


def verify_suggested_selection(
    request: PlanRequest, result: PlanResult, make_plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """Return the result after a trial of the suggested -target and -exclude options.

    The diagnostics of `result` suggest them. A trial plan may suggest further ones, tried next. If
    the last plan fails too, its reason is added to the suggestions.
    """
    trial_request = replace(build_trial_request(request), samples=0)
    last_result = result
    for _ in range(_MAXIMUM_STEPS):
        targets = list(trial_request.targets)
        excludes = list(trial_request.excludes)
        for problem in last_result.plan.diagnostics:
            suggestion = get_mapping(problem.extra, SELECTION_KEY)
            targets += suggestion.get("targets", ())
            excludes = [
                pattern for pattern in excludes if pattern not in suggestion.get("excludes", ())
            ]
        trial_request = replace(
            trial_request, targets=tuple(dict.fromkeys(targets)), excludes=tuple(excludes)
        )
        last_result = make_plan(trial_request)
        if not any(SELECTION_KEY in problem.extra for problem in last_result.plan.diagnostics):
            # Nothing more is suggested.
            break
    errors = last_result.plan.errors
    # The suggestion works.
    if not errors:
        return result
    location = enclose("", errors[0].address, ": ")
    addition = f"That plan is rejected too. Fix this first: {location}{errors[0].detail}"
    diagnostics = list(result.plan.diagnostics)
    for index, problem in enumerate(diagnostics):
        if SELECTION_KEY in problem.extra:
            diagnostics[index] = replace(problem, detail=f"{problem.detail} {addition}")
    return replace(result, plan=replace(result.plan, diagnostics=tuple(diagnostics)))
