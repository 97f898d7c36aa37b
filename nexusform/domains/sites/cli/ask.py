"""`nexusform sites certainty`, `failure` and `replay`: questions to all sites, on an engine's workers."""

from __future__ import annotations

import os

import click
from msgspec import Struct

from nexusform.cli.answers import Answer, AnswerFormFlags, tell
from nexusform.cli.arguments import group, number, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.cli.interrupts import graceful_interrupts
from nexusform.domains.sites.cli.flags import EngineFlags, SelectionFlags, SourceFlags
from nexusform.domains.sites.rendering.findings import findings_document, findings_outline
from nexusform.domains.sites.types.definition import FILE_NAME
from nexusform.domains.sites.types.work import Asked, Question, Status
from nexusform.domains.sites.workflow import fleet_questions
from nexusform.domains.sites.workflow.fleet_planning import FleetTerms, open_fleet, selected
from nexusform.domains.sites.workflow.fleet_questions import ask_fleet


class WhomFlags(Struct, frozen=True, kw_only=True):
    """Which sites are asked, on which workers."""

    selection: SelectionFlags = group(SelectionFlags)
    sources: SourceFlags = group(SourceFlags)
    engine: EngineFlags = group(EngineFlags)


class CertaintyArguments(Struct, frozen=True, kw_only=True):
    """What `sites certainty` takes."""

    runs: int = number("How many tie-breaks are repeated for each site", default=1000, at_least=10)
    whom: WhomFlags = group(WhomFlags)
    answer: AnswerFormFlags = group(AnswerFormFlags)
    view: ViewFlags = group(ViewFlags)


class FailureArguments(Struct, frozen=True, kw_only=True):
    """What `sites failure` takes."""

    whom: WhomFlags = group(WhomFlags)
    answer: AnswerFormFlags = group(AnswerFormFlags)
    view: ViewFlags = group(ViewFlags)


class ReplayArguments(Struct, frozen=True, kw_only=True):
    """What `sites replay` takes."""

    source: str = text(
        "The exported directory that shows what is, SITE in it standing for the site's name; or azure",
        metavar="DIR|azure",
        flag="from",
    )
    whom: WhomFlags = group(WhomFlags)
    answer: AnswerFormFlags = group(AnswerFormFlags)
    view: ViewFlags = group(ViewFlags)


@command("certainty", CertaintyArguments)
def certainty(arguments: CertaintyArguments) -> int:
    """Plan every site, and repeat the tie-breaks of its placements often: how sure its VMs' places are.

    The tie-breaks of a site are shared out among the workers. Exit code 1 when a site cannot be planned.
    """
    runs = arguments.runs
    part = fleet_questions.RUNS_OF_A_PART
    if runs > part and runs % part:
        raise click.UsageError(f"-runs above {part} are a multiple of it, not {runs}.")
    return _asked(Question(Asked.CERTAINTY, runs=runs), arguments)


@command("failure", FailureArguments)
def failure(arguments: FailureArguments) -> int:
    """Lose each rack of every site, one at a time, on what states have: what is down, and what comes back.

    The racks of a site are shared out among the workers. Exit code 2 when a control plane loses its quorum,
    a pool has no node left or a node fits nowhere else, 1 when a site cannot be asked.
    """
    return _asked(Question(Asked.FAILURE), arguments)


@command("replay", ReplayArguments)
def replay(arguments: ReplayArguments) -> int:
    """Place the VMs of every site once more, on what an export or Azure shows: how many the rule explains.

    States are read and not written (`reconcile` takes over what is). Exit code 1 when a site cannot be asked.
    """
    if not arguments.source:
        raise click.UsageError("Say what to compare with: -from=DIR, SITE in it being the site's name.")
    is_directory = arguments.source != "azure"
    source = os.path.abspath(arguments.source) if is_directory else arguments.source  # noqa: PTH100
    return _asked(Question(Asked.REPLAY, source=source), arguments)


def _asked(question: Question, arguments: CertaintyArguments | FailureArguments | ReplayArguments) -> int:
    """Ask all sites, and tell what they answer."""
    screen, whom = arguments.view.screen(), arguments.whom
    if not whom.engine.usable(screen):
        return 1
    opened = open_fleet(place_of(), FleetTerms(allowed_sources=whom.sources.allow_source))
    screen.diagnostics(opened.diagnostics, opened.sources, aside=True)
    if opened.definition is None:
        return 1
    names, problems = selected(opened.definition, whom.selection.site, whom.selection.wave)
    screen.diagnostics(problems, {}, aside=True)
    if problems:
        return 1
    with whom.engine.opened(screen) as engine, graceful_interrupts(screen.err) as interrupts:
        if engine is None:
            return 1
        answers = ask_fleet(opened, names, engine, question, interrupts.stopping)
    outline = findings_outline(question.asked, answers)
    document = findings_document(question.asked, answers)
    code = tell(Answer(question.asked.value, FILE_NAME, outline, document), arguments.answer, screen)
    unasked = any(answer.status in (Status.REFUSED, Status.SKIPPED, Status.FAILED) for answer in answers)
    return 1 if unasked else code
