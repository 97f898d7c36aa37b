"""`nexusform reconcile`."""

from __future__ import annotations

import os

import click
from msgspec import Struct

from nexusform.cli.answers import Answer, AnswerFormFlags, tell
from nexusform.cli.arguments import group, switch, text
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, ViewFlags, place_of, state_flag, variable_flags
from nexusform.cli.reconciling import SOURCES
from nexusform.diagnostics import has_errors
from nexusform.domains.azure.workflow.reconcile import Reconciled, reconcile
from nexusform.workflow.runs.run import Notices

RULE_BROKEN = 3  # exit code


class ReconcileArguments(Struct, frozen=True, kw_only=True):
    """What `reconcile` takes."""

    source: str = text("Read an exported directory, azure or hub", metavar="DIR|azure|hub", flag="from")
    replay: bool = switch("Re-place every VM in creation order, score the rule")
    answer: AnswerFormFlags = group(AnswerFormFlags)
    variables: tuple[tuple[str, str], ...] = variable_flags()
    lock: LockFlags = group(LockFlags)
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)


@command("reconcile", ReconcileArguments)
def reconcile_(arguments: ReconcileArguments) -> int:
    """Compare observed placement (an export, Azure or a hub) with state, update the state.

    Reports per cluster how many VMs are on the recorded rack and machine, and known causes of
    differences. Also reports unfinished changes and violated separation rules. Exit code 0 without
    differences, 2 with differences or unfinished changes, 3 with a violated separation rule, 1 for
    errors.
    """
    screen = arguments.view.screen()
    if not arguments.source:
        raise click.UsageError("Say what to compare with: -from=DIR, -from=azure, or -from=hub.")
    place, notices = place_of(arguments.state, arguments.variables), Notices(waiting=screen.err)
    if arguments.source in SOURCES:
        if arguments.replay:
            raise click.UsageError(f"-replay is for VMs, and -from={arguments.source} compares none.")
        found = SOURCES[arguments.source](place, arguments.lock.locking(), notices)
        screen.diagnostics(found.diagnostics, found.sources)
        if found.answer is None:
            return 1
        code = tell(found.answer, arguments.answer, screen)
        return RULE_BROKEN if found.rule_is_broken else code
    answer = reconcile(
        place,
        os.path.normpath(arguments.source),
        arguments.lock.locking(),
        notices,
        replays=arguments.replay,
    )
    if has_errors(answer.diagnostics):
        screen.diagnostics(answer.diagnostics, answer.sources)
        return 1
    code = tell(_answer(answer, arguments.source), arguments.answer, screen)
    return RULE_BROKEN if answer.broken else code


def _answer(answer: Reconciled, source: str) -> Answer:
    """What was found out, laid out for every format."""
    from nexusform.domains.azure.rendering.reconciliation_outline import (
        reconciliation_document,
        reconciliation_outline,
    )

    parts = (
        answer.checks,
        answer.absent,
        answer.unseen,
        answer.not_done,
        answer.remarks,
        answer.rules,
        answer.replays,
        answer.claims,
    )
    outline = reconciliation_outline(source, *parts)
    return Answer("reconcile", source, outline, reconciliation_document(*parts))
