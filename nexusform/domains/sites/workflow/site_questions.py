"""What a worker answers about one site: how sure its plan is, what the loss of its racks does, and whether
the rule explains where its VMs are. Nothing is locked or written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.domains.azure.workflow.reconcile import replay_alone
from nexusform.domains.sites.types.definition import SiteEntry
from nexusform.domains.sites.types.work import Answer, Asked, Finding, Question, Status, Task
from nexusform.domains.sites.workflow.site_answers import planned_answer, refused_answer
from nexusform.domains.sites.workflow.site_digest import plan_digest
from nexusform.domains.sites.workflow.site_project import open_site
from nexusform.domains.whatif.questions.failure import Failure, FailureScope, lose_machines
from nexusform.domains.whatif.questions.pod_view import NOTHING_SEEN, view_pods
from nexusform.domains.whatif.rendering.failure_outline import failure_headline
from nexusform.plans.plan import Plan
from nexusform.scheduling.racks.vms import Placement
from nexusform.state.objects import State
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import PlanOptions, Run, begin
from nexusform.worlds.world_view import things_of_state, view_world

NO_STATE = "Nothing was applied yet, so there is nothing to ask about."


def answer_question(task: Task, site: SiteEntry) -> Answer:
    """The part of a question that a task asks."""
    assert task.question is not None, "a task that asks"
    opened = open_site(task.fleet, site, os.environ)
    if opened.project is None:
        return refused_answer(site.name, opened.diagnostics)
    locking = Locking(enabled=False, alone=True)
    with begin(opened.project, "OperationTypePlan", locking, settles=False) as run:
        if not run.ready:
            return refused_answer(site.name, [*opened.diagnostics, *run.diagnostics])
        if task.question.asked is Asked.CERTAINTY:
            return _certainty(task, site, run)
        if not run.stored.state.lineage:
            return Answer(site.name, Status.SKIPPED, NO_STATE)
        if task.question.asked is Asked.FAILURE:
            findings = tuple(_losses(run.stored.state, run, task.question))
            return Answer(site.name, Status.UNCHANGED, findings=findings)
        return _replayed(task.question, site, run)


# --- certainty ---------------------------------------------------------------------------------


def _certainty(task: Task, site: SiteEntry, run: Run) -> Answer:
    """In how many of its runs the VMs that a plan places stand where the plan has them."""
    question = task.question
    assert question is not None, "a task that asks"
    options = PlanOptions(
        now=task.fleet.now, tie_breaks=question.runs, first_tie_break=question.part * question.runs
    )
    plan = run.plan(options).plan
    answer = planned_answer(run, plan, site, run.diagnostics)
    if answer.status is Status.REFUSED:
        return answer
    findings = tuple(_shares(plan, question.runs))
    return Answer(site.name, answer.status, digest=_digest_of_places(plan), findings=findings)


def _digest_of_places(plan: Plan) -> str:
    """What is the same whichever tie-breaks were repeated."""
    rows = tuple(replace(row, certainty=None) for row in plan.placements)
    return plan_digest(replace(plan, placements=rows))


def _shares(plan: Plan, runs: int) -> Iterator[Finding]:
    """A row for each VM whose place was drawn: in how many runs it was the same."""
    for row in plan.placements:
        sure = row.certainty
        if sure is not None and isinstance(row.target, Placement):
            shares = {"machine": sure.machine, "rack": sure.rack, "rack_count": sure.rack_count}
            figures: dict[str, int | float] = {name: round(share * runs) for name, share in shares.items()}
            yield Finding(f"{row.address}:{row.object}", {"runs": runs, **figures}, (row.target.machine,))


# --- racks that are lost -----------------------------------------------------------------------


def _losses(state: State, run: Run, question: Question) -> Iterable[Finding]:
    """What the loss of each rack does: of those racks that this part is about."""
    types = run.project.registries
    things = things_of_state(state)
    view = view_world(things, types, state.catalogue)
    pods = view_pods(things, view, types, NOTHING_SEEN)
    racks = [(site, rack.name) for site in view.sites.values() for rack in site.racks if not rack.planned]
    for site, rack in racks[question.part :: question.parts]:
        machines = [machine.name for machine in site.machines_of_rack[rack]]
        loss = lose_machines(site, FailureScope.RACK, f"{site.id}/{rack}", machines, pods)
        yield _loss(loss)


def _loss(loss: Failure) -> Finding:
    missing = loss.missing if loss.drawn is None else loss.drawn.missing.most
    quorum = sum(pool.lost for pool in loss.pools)
    figures: dict[str, int | float] = {"down": loss.vms, "pools_lost": quorum, "without_room": missing}
    return Finding(loss.lost, figures, (failure_headline(loss),), loss.bad)


# --- replay ------------------------------------------------------------------------------------


def _replayed(question: Question, site: SiteEntry, run: Run) -> Answer:
    """What the rule explains of a site, as an export or Azure shows it."""
    source = question.source.replace("SITE", site.name)
    found = replay_alone(run, source)
    problems: list[Diagnostic] = list(found.diagnostics)
    if not found.replays and not has_errors(problems):
        detail = f'"{source}" shows no site that the state of "{site.name}" has.'
        problems.append(error("reading-what-stands-failed", detail))
    if has_errors(problems):
        return refused_answer(site.name, problems)
    findings = tuple(
        Finding(
            f"{each.site}, rack_spread {each.spread.value}",
            {
                "hits": each.hits,
                "sure": each.sure,
                "judged": each.judged,
                "not_judged": sum(each.unjudged.values()),
                "by_chance": round(each.chance, 3),
            },
        )
        for each in found.replays
    )
    return Answer(site.name, Status.UNCHANGED, findings=findings)
