"""`nexusform sites status`."""

from __future__ import annotations

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import declare_flag_group, declare_number, declare_switch_flag
from nexusform.cli.commands import define_command
from nexusform.cli.interrupts import handle_interrupts
from nexusform.cli.report_flag import write_to_stdout
from nexusform.cli.shared_flags import ViewFlags, create_context
from nexusform.domains.sites.cli.site_flags import ModuleSourceFlags, SiteSelectionFlags, TaskEngineFlags
from nexusform.domains.sites.rendering.question_report import select_failed_results
from nexusform.domains.sites.rendering.status_report import build_status_document, build_status_report
from nexusform.domains.sites.types.site_tasks import QuestionKind, SiteQuestion, SiteStatus
from nexusform.domains.sites.workflow.fleet_planning import FleetOptions, open_fleet, select_sites
from nexusform.domains.sites.workflow.fleet_questions import RUNS_PER_PART, run_fleet_question
from nexusform.domains.sites.workflow.fleet_status import read_fleet_status
from nexusform.domains.sites.workflow.undeclared_states import find_undeclared_sites, record_state_locations
from nexusform.rendering.json.json_document import encode_document
from nexusform.rendering.text.report_text import render_report_text
from nexusform.workflow.opening.system_io import SystemClock


class StatusArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sites status`."""

    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    samples: int = declare_number("Compute certainty per site with N tie-break samples", default=0, minimum=0)
    selection: SiteSelectionFlags = declare_flag_group(SiteSelectionFlags)
    sources: ModuleSourceFlags = declare_flag_group(ModuleSourceFlags)
    engine: TaskEngineFlags = declare_flag_group(TaskEngineFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("status", StatusArguments)
def status(arguments: StatusArguments) -> int:
    """Show the status of every site: applied, interrupted or not applied yet.

    States are read without locks. -samples also plans the sites and computes certainty. Exit code 1
    if a state cannot be read, an apply was interrupted, or a site cannot be planned.
    """
    runs = arguments.samples
    if runs > RUNS_PER_PART and runs % RUNS_PER_PART:
        raise click.UsageError(f"-samples above {RUNS_PER_PART} are a multiple of it, not {runs}.")
    screen = arguments.view.create_screen()
    if not arguments.engine.check_usable(screen):
        return 1
    opened = open_fleet(create_context(), FleetOptions(allowed_sources=arguments.sources.allow_source))
    screen.print_diagnostics(opened.diagnostics, opened.sources, is_aside=arguments.as_json)
    if opened.definition is None:
        return 1
    selection = arguments.selection
    undeclared = find_undeclared_sites(opened, create_context(), selection.site)
    names, problems = select_sites(opened.definition, selection.site, selection.wave, undeclared)
    screen.print_diagnostics(problems, {}, is_aside=arguments.as_json)
    if problems:
        return 1
    with arguments.engine.open_engine(screen) as engine, handle_interrupts(screen.print_error) as interrupts:
        if engine is None:
            return 1
        plan = read_fleet_status(opened, names, engine, interrupts.is_stopping)
        question = SiteQuestion(QuestionKind.CERTAINTY, runs=runs)
        results = run_fleet_question(opened, names, engine, question, interrupts.is_stopping) if runs else []
    record_state_locations(opened, create_context(), (site.result for site in plan.sites))
    plan = replace(plan, undeclared=undeclared)
    if arguments.as_json:
        write_to_stdout(encode_document(build_status_document(plan, results)) + b"\n", "json")
    else:
        report = build_status_report(plan, SystemClock().read_time(), results)
        screen.print_text(render_report_text(report, colour=screen.colour, width=screen.width), end="")
    failed = plan.select_by_status(SiteStatus.REFUSED, SiteStatus.FAILED)
    return 1 if failed or select_failed_results(results) or len(plan.sites) < len(names) else 0
