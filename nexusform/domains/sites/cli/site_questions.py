"""`nexusform sites replay` and `simulate failure -site=*`: questions to all sites on an engine."""

import os

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.interrupts import handle_interrupts
from nexusform.cli.report_output import Answer, AnswerFormatFlags, PlanFileAnswerFlags, write_answer
from nexusform.cli.shared_flags import ViewFlags
from nexusform.domains.sites.cli.site_flags import (
    PROCESSES,
    ModuleSourceFlags,
    SiteSelectionFlags,
    SiteTargetFlags,
    TaskEngineFlags,
)
from nexusform.domains.sites.rendering.site_reports import (
    build_question_document,
    build_question_report,
    select_failed_results,
)
from nexusform.domains.sites.types.fleet_plan import FILE_NAME
from nexusform.domains.sites.types.site_tasks import QuestionKind, SiteQuestion
from nexusform.domains.sites.workflow.fleet_tasks import run_fleet_question
from nexusform.domains.whatif.cli.simulate import FailureArguments
from nexusform.files.external_files import ArgumentFile, PathValueForm


class ReplayArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sites replay`."""

    source: str = declare_text_flag(
        "Read DIR (SITE is replaced by the site name) or azure",
        metavar="DIR|azure",
        flag="from",
        file=ArgumentFile("inventory", form=PathValueForm.SOURCE),
    )
    targets: SiteTargetFlags = declare_flag_group(SiteTargetFlags)
    answer: AnswerFormatFlags = declare_flag_group(AnswerFormatFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)


def simulate_failure(arguments: FailureArguments) -> int:
    """Simulate the loss of each rack of the matching sites, one at a time; return the exit code."""
    question = arguments.question
    if question.answer.plan or question.state or question.variables:
        raise click.UsageError("-plan, -state and variables need one site, not -site=*.")
    targets = SiteTargetFlags(
        selection=SiteSelectionFlags(site=(arguments.site,), wave=""),
        sources=ModuleSourceFlags(allow_source=arguments.allow_source),
        engine=TaskEngineFlags(engine=arguments.engine or PROCESSES, workers=arguments.workers),
    )
    return _run_question_on_sites(
        SiteQuestion(QuestionKind.FAILURE), targets, question.answer, question.view
    )


@define_command("replay", ReplayArguments)
def replay(arguments: ReplayArguments) -> int:
    """Re-place the VMs of every site and count those that the placement rule explains.

    The observed placement comes from an export or Azure. States are read, not written. Exit code
    2 if the recorded rule places a VM of a site elsewhere, or if none could be checked there, 1
    if a site fails.
    """
    if not arguments.source:
        raise click.UsageError(
            "No source given. Write -from=DIR; SITE in DIR is replaced by the site name."
        )
    is_directory = arguments.source != "azure"
    source = os.path.abspath(arguments.source) if is_directory else arguments.source  # noqa: PTH100
    return _run_question_on_sites(
        SiteQuestion(QuestionKind.REPLAY, source=source),
        arguments.targets,
        arguments.answer,
        arguments.view,
    )


def _run_question_on_sites(
    question: SiteQuestion,
    targets: SiteTargetFlags,
    flags: PlanFileAnswerFlags | AnswerFormatFlags,
    view: ViewFlags,
) -> int:
    """Run a question on all sites and print the answer."""
    screen = view.create_screen()
    # Diagnostics go to stderr: stdout is for the answer.
    sites = targets.select(screen, is_aside=True)
    with (
        targets.engine.open_engine(screen) as engine,
        handle_interrupts(screen.print_error) as interrupts,
    ):
        results = run_fleet_question(
            sites.fleet, sites.names, engine, question, interrupts.is_stopping
        )
    report = build_question_report(question.kind, results)
    document = build_question_document(question.kind, results)
    # The question is about all sites of this file.
    is_hypothetical = question.kind is QuestionKind.FAILURE
    answer = Answer(
        question.kind.value, FILE_NAME, report, document, is_hypothetical=is_hypothetical
    )
    code = write_answer(answer, flags, screen)
    return 1 if select_failed_results(results) else code
