"""`nexusform reconcile`: compare observed placement with state."""

import os

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_switch_flag, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import COMPARISON_SOURCES, Answer, AnswerFormatFlags, write_answer
from nexusform.cli.shared_flags import (
    StateLockFlags,
    ViewFlags,
    create_context,
    declare_migration_flag,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.domains.azure.workflow.state_reconciliation import reconcile_site
from nexusform.files.external_files import ArgumentFile, PathValueForm
from nexusform.workflow.runs.run import RunCallbacks

EXIT_RULE_VIOLATED = 3  # exit code


class ReconcileArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `reconcile`."""

    source: str = declare_text_flag(
        "Read an exported directory, azure or hub",
        metavar="DIR|azure|hub",
        flag="from",
        file=ArgumentFile("inventory", form=PathValueForm.SOURCE),
    )
    allow_other_hub: str = declare_migration_flag()
    replay: bool = declare_switch_flag("Re-place every VM in creation order, score the rule")
    allow_older_export: bool = declare_switch_flag(
        "Accept an export older than that of the last apply"
    )
    answer: AnswerFormatFlags = declare_flag_group(AnswerFormatFlags)
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("reconcile", ReconcileArguments)
def reconcile_(arguments: ReconcileArguments) -> int:
    """Compare observed placement (an export, Azure or a hub) with state, update the state.

    Reports per cluster how many VMs are on the recorded rack and machine, and known causes of
    differences. Also reports unfinished changes and violated separation rules. Without a
    configuration, -replay scores the rule and does nothing else. Exit code 0 without differences,
    2 with differences, unread data, unfinished changes, or with -replay wrong or no predictions,
    3 with a violated separation rule, 1 for errors.
    """
    screen = arguments.view.create_screen()
    if not arguments.source:
        raise click.UsageError("No source given. Use -from=DIR, -from=azure or -from=hub.")
    location = create_context(
        arguments.state, arguments.variables, allow_other_hub=arguments.allow_other_hub
    )
    notices = RunCallbacks(on_wait=screen.print_error)
    # Sources of other domains have no VMs.
    if arguments.source in COMPARISON_SOURCES:
        if arguments.replay:
            raise click.UsageError(f"-replay needs VMs, but -from={arguments.source} has none.")
        source_result = COMPARISON_SOURCES[arguments.source](
            location, arguments.lock.build_options(), notices
        )
        screen.print_diagnostics(source_result.diagnostics, source_result.sources)
        if source_result.answer is None:
            return 1
        code = write_answer(source_result.answer, arguments.answer, screen)
        return EXIT_RULE_VIOLATED if source_result.is_rule_violated else code
    result = reconcile_site(
        location,
        os.path.normpath(arguments.source),
        arguments.lock.build_options(),
        notices,
        replays=arguments.replay,
        allows_older_export=arguments.allow_older_export,
    )
    if has_errors(result.diagnostics):
        screen.print_diagnostics(result.diagnostics, result.sources)
        return 1
    from nexusform.domains.azure.rendering.reconciliation_report import (
        build_reconciliation_document,
        build_reconciliation_report,
    )

    report = build_reconciliation_report(arguments.source, result)
    answer = Answer("reconcile", arguments.source, report, build_reconciliation_document(result))
    code = write_answer(answer, arguments.answer, screen)
    return EXIT_RULE_VIOLATED if result.violated_rules else code
