"""Questions about one site: certainty of its plan, failures of its racks, replay.

Nothing is locked or written.
"""

import os
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    build_error,
    build_warning,
    has_errors,
)
from nexusform.domains.azure.workflow.state_reconciliation import run_site_replays
from nexusform.domains.sites.types.fleet_plan import SiteEntry
from nexusform.domains.sites.types.site_tasks import (
    QuestionKind,
    SiteQuestion,
    SiteQuestionFinding,
    SiteResult,
    SiteStatus,
    Task,
)
from nexusform.domains.sites.workflow.site_project import open_site_project
from nexusform.domains.sites.workflow.site_results import (
    build_plan_result,
    build_rejected_result,
    build_site_diagnostics,
    compute_plan_digest,
)
from nexusform.domains.whatif.questions.failure_simulation import (
    FailureScope,
    simulate_machine_failure,
)
from nexusform.domains.whatif.rendering.failure_report import build_failure_summary
from nexusform.domains.whatif.workflow.observation_uncertainty import add_observation_doubts
from nexusform.domains.whatif.workflow.simulation_input import SimulationInput, read_project_input
from nexusform.planning.modules.root_outputs import build_inventory_read
from nexusform.plans.plan import Plan
from nexusform.rendering.report.plan_sentences import describe_inventory_age
from nexusform.scheduling.racks.vms import Placement
from nexusform.state.objects import State
from nexusform.workflow.runs.run import PlanOptions, Run, begin_run
from nexusform.workflow.runs.state_locking import LockOptions

NO_STATE = "Nothing was applied yet."


def run_question_part(task: Task, site: SiteEntry) -> SiteResult:
    """Run a part of a question for a site: some of its samples or racks.

    A site without a state is skipped.
    """
    question = task.question
    assert question is not None, "a task that asks"
    opened = open_site_project(task.fleet, site, os.environ)
    if opened.project is None:
        return build_rejected_result(site.name, opened.diagnostics)
    # No lock, and no warning without one.
    locking = LockOptions(enabled=False, is_exclusive=True)
    with begin_run(opened.project, "OperationTypePlan", locking, records_recovery=False) as run:
        if not run.is_ready:
            return build_rejected_result(site.name, [*opened.diagnostics, *run.diagnostics])
        if question.kind is QuestionKind.CERTAINTY:
            options = PlanOptions(
                now=task.fleet.now,
                samples=question.runs,
                first_sample=question.part * question.runs,
            )
            plan = run.plan(options).plan
            result = build_plan_result(run, plan, site, run.diagnostics)
            # With its errors.
            if result.status is SiteStatus.REJECTED:
                return result
            findings = tuple(_build_certainty_findings(plan, question.runs))
            # The digest has to be equal for all parts: certainty is of the samples of one part.
            rows = tuple(replace(row, certainty=None) for row in plan.placements)
            digest = compute_plan_digest(replace(plan, placements=rows))
            return SiteResult(site.name, result.status, digest=digest, findings=findings)
        if not run.stored.state.lineage:
            return SiteResult(site.name, SiteStatus.SKIPPED, NO_STATE)
        if question.kind is QuestionKind.FAILURE:
            now = task.fleet.now
            try:
                inputs = add_observation_doubts(read_project_input(run.project, run.stored, now))
                findings = tuple(_simulate_rack_failures(inputs, question))
            except DiagnosticsError as problem:
                return build_rejected_result(site.name, problem.diagnostics)
            warnings = [*inputs.diagnostics, *_list_inventory_warnings(run.stored.state, now)]
            return SiteResult(
                site.name,
                SiteStatus.UNCHANGED,
                findings=findings,
                diagnostics=build_site_diagnostics(warnings),
            )
        return _run_replay(question, site, run)


def _build_certainty_findings(plan: Plan, runs: int) -> Iterator[SiteQuestionFinding]:
    """Build a finding for each VM with a sampled location.

    The runs with its planned machine, rack and rack count.
    """
    for row in plan.placements:
        # Shares of the runs.
        certainty = row.certainty
        if certainty is None or not isinstance(row.target, Placement):
            # Without a sampled location.
            continue
        figures: dict[str, int | float] = {
            "runs": runs,
            "machine": round(certainty.machine * runs),
            "rack": round(certainty.rack * runs),
            "rack_count": round(certainty.rack_count * runs),
        }
        yield SiteQuestionFinding(f"{row.address}:{row.object}", figures, (row.target.machine,))


def _list_inventory_warnings(state: State, now: str) -> Iterator[Diagnostic]:
    """Yield a warning if an inventory of the state was too old at this time, or of unknown age."""
    inventories = [
        build_inventory_read(address, time, now) for address, time in state.exports.items()
    ]
    if any(inventory.is_stale for inventory in inventories):
        age = describe_inventory_age(state.exports.values(), now)
        yield build_warning("old-inventory", f"The inventory is {age}.")


def _simulate_rack_failures(
    inputs: SimulationInput, question: SiteQuestion
) -> Iterable[SiteQuestionFinding]:
    """Simulate the failure of each rack of the question's part.

    The part has every `parts`-th rack, from number `part` on.
    """
    racks = [
        (site, rack.name)
        for site in inputs.snapshot.sites.values()
        for rack in site.racks
        if not rack.is_planned
    ]
    for site, rack in racks[question.part :: question.parts]:
        machines = [machine.name for machine in site.machines_by_rack[rack]]
        loss = simulate_machine_failure(
            inputs.start,
            site,
            FailureScope.RACK,
            f"{site.id}/{rack}",
            machines,
            inputs.pods,
            tries_fixes=False,
        )
        # VMs without a machine to move to; if the move was sampled, the most over all samples.
        missing = loss.missing if loss.samples is None else loss.samples.missing_count.maximum
        pools_lost = sum(pool.is_lost for pool in loss.pools)
        figures: dict[str, int | float] = {
            "down": loss.vm_count,
            "pools_lost": pools_lost,
            "without_capacity": missing,
        }
        texts = (build_failure_summary(loss),)
        yield SiteQuestionFinding(loss.lost, figures, texts, is_problem=loss.has_findings)


def _run_replay(question: SiteQuestion, site: SiteEntry, run: Run) -> SiteResult:
    """Compare the observed machines of VMs with those chosen by the placement rule.

    They are observed by an export or Azure. Return the counts of equal ones (hits) for
    each tested `rack_spread`.
    """
    source = question.source.replace("SITE", site.name)  # of -from=DIR
    reconciliation = run_site_replays(run, source)
    problems: list[Diagnostic] = list(reconciliation.diagnostics)
    if not reconciliation.replays and not has_errors(problems):
        detail = f'"{source}" contains no site in the state of "{site.name}".'
        problems.append(build_error("refresh-failed", detail))
    if has_errors(problems):
        return build_rejected_result(site.name, problems)
    findings = tuple(
        SiteQuestionFinding(
            f"{replay.site}, rack_spread {replay.spread.value}",
            {
                "hits": replay.hits,
                "certain_hits": replay.sure,
                # Hits and misses.
                "verified": replay.judged,
                "unverified": sum(replay.unjudged.values()),
                "by_chance": round(replay.chance, 3),
            },
            is_problem=replay.site in reconciliation.unexplained_sites
            and replay.spread is reconciliation.spreads.get(replay.site),
        )
        for replay in reconciliation.replays
    )
    return SiteResult(site.name, SiteStatus.UNCHANGED, findings=findings)
