"""`nexusform sites status`."""

from __future__ import annotations

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import group, number, switch
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.cli.interrupts import graceful_interrupts
from nexusform.cli.report_flag import write_to_stdout
from nexusform.domains.sites.cli.flags import EngineFlags, SelectionFlags, SourceFlags
from nexusform.domains.sites.rendering.findings import unasked_sites
from nexusform.domains.sites.rendering.status import status_document, status_outline
from nexusform.domains.sites.types.work import Asked, Question, Status
from nexusform.domains.sites.workflow.fleet_planning import FleetTerms, open_fleet, selected
from nexusform.domains.sites.workflow.fleet_questions import RUNS_OF_A_PART, ask_fleet
from nexusform.domains.sites.workflow.fleet_status import fleet_status
from nexusform.domains.sites.workflow.undeclared import remember_states, undeclared_sites
from nexusform.rendering.answers.outline import outline_text
from nexusform.rendering.json.json_document import json_bytes


class StatusArguments(Struct, frozen=True, kw_only=True):
    """What `sites status` takes."""

    as_json: bool = switch("Print a JSON document", flag="json")
    tie_breaks: int = number(
        "Compute certainty per site with N tie-break samples",
        default=0,
        at_least=0,
    )
    selection: SelectionFlags = group(SelectionFlags)
    sources: SourceFlags = group(SourceFlags)
    engine: EngineFlags = group(EngineFlags)
    view: ViewFlags = group(ViewFlags)


@command("status", StatusArguments)
def status(arguments: StatusArguments) -> int:
    """Show the status of every site: applied, interrupted or not applied yet.

    States are read without locks. -tie-breaks also plans the sites and computes certainty. Exit
    code 1 if a state cannot be read, an apply was interrupted, or a site cannot be planned.
    """
    runs = arguments.tie_breaks
    if runs > RUNS_OF_A_PART and runs % RUNS_OF_A_PART:
        raise click.UsageError(f"-tie-breaks above {RUNS_OF_A_PART} are a multiple of it, not {runs}.")
    screen = arguments.view.screen()
    if not arguments.engine.usable(screen):
        return 1
    opened = open_fleet(place_of(), FleetTerms(allowed_sources=arguments.sources.allow_source))
    screen.diagnostics(opened.diagnostics, opened.sources, aside=arguments.as_json)
    if opened.definition is None:
        return 1
    selection = arguments.selection
    undeclared = undeclared_sites(opened, place_of(), selection.site)
    names, problems = selected(opened.definition, selection.site, selection.wave, undeclared)
    screen.diagnostics(problems, {}, aside=arguments.as_json)
    if problems:
        return 1
    with arguments.engine.opened(screen) as engine, graceful_interrupts(screen.err) as interrupts:
        if engine is None:
            return 1
        plan = fleet_status(opened, names, engine, interrupts.stopping)
        question = Question(Asked.CERTAINTY, runs=runs)
        answers = ask_fleet(opened, names, engine, question, interrupts.stopping) if runs else []
    remember_states(opened, place_of(), (site.answer for site in plan.sites))
    plan = replace(plan, undeclared=undeclared)
    if arguments.as_json:
        write_to_stdout(json_bytes(status_document(plan, answers)) + b"\n", "json")
    else:
        screen.out(
            outline_text(status_outline(plan, answers), colour=screen.colour, width=screen.width), end=""
        )
    bad = plan.of_status(Status.REFUSED, Status.FAILED)
    return 1 if bad or unasked_sites(answers) or len(plan.sites) < len(names) else 0
