"""`nexusform sites replay` and `simulate failure -site=*`: questions to all sites, on an engine's workers."""

from __future__ import annotations

import os

import click
from msgspec import Struct

from nexusform.cli.answers import Answer, AnswerFlags, AnswerFormFlags, tell
from nexusform.cli.arguments import group, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.cli.interrupts import graceful_interrupts
from nexusform.domains.sites.cli.flags import EngineFlags, SelectionFlags, SourceFlags
from nexusform.domains.sites.engines.choice import PROCESSES
from nexusform.domains.sites.rendering.findings import findings_document, findings_outline, unasked_sites
from nexusform.domains.sites.types.definition import FILE_NAME
from nexusform.domains.sites.types.work import Asked, Question
from nexusform.domains.sites.workflow.fleet_planning import FleetTerms, open_fleet, selected
from nexusform.domains.sites.workflow.fleet_questions import ask_fleet
from nexusform.domains.whatif.cli.simulate import FailureArguments


class WhomFlags(Struct, frozen=True, kw_only=True):
    """Which sites are asked, on which workers."""

    selection: SelectionFlags = group(SelectionFlags)
    sources: SourceFlags = group(SourceFlags)
    engine: EngineFlags = group(EngineFlags)


class ReplayArguments(Struct, frozen=True, kw_only=True):
    """What `sites replay` takes."""

    source: str = text(
        "Read DIR (SITE is replaced by the site name) or azure",
        metavar="DIR|azure",
        flag="from",
    )
    whom: WhomFlags = group(WhomFlags)
    answer: AnswerFormFlags = group(AnswerFormFlags)
    view: ViewFlags = group(ViewFlags)


def simulate_failure(arguments: FailureArguments) -> int:
    """Lose each rack of the sites that `-site` matches, one at a time; return the exit code."""
    if arguments.answer.plan or arguments.state or arguments.variables:
        raise click.UsageError("-plan, -state and variables go with one site, not with -site=*.")
    whom = WhomFlags(
        selection=SelectionFlags(site=(arguments.site,), wave=""),
        sources=SourceFlags(allow_source=arguments.allow_source),
        engine=EngineFlags(engine=arguments.engine or PROCESSES, workers=arguments.workers),
    )
    return _asked(Question(Asked.FAILURE), whom, arguments.answer, arguments.view)


@command("replay", ReplayArguments)
def replay(arguments: ReplayArguments) -> int:
    """Re-place the VMs of every site and count those that the placement rule explains.

    The observed placement comes from an export or Azure. States are read, not written. Exit code 1
    if a site fails.
    """
    if not arguments.source:
        raise click.UsageError("Say what to compare with: -from=DIR, SITE in it being the site's name.")
    is_directory = arguments.source != "azure"
    source = os.path.abspath(arguments.source) if is_directory else arguments.source  # noqa: PTH100
    return _asked(Question(Asked.REPLAY, source=source), arguments.whom, arguments.answer, arguments.view)


def _asked(question: Question, whom: WhomFlags, flags: AnswerFlags | AnswerFormFlags, view: ViewFlags) -> int:
    """Ask all sites, and tell what they answer."""
    screen = view.screen()
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
    code = tell(Answer(question.asked.value, FILE_NAME, outline, document), flags, screen)
    return 1 if unasked_sites(answers) else code
