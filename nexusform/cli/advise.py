"""`nexusform advise`: risks in configuration and placement."""

from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer, PlanFileAnswerFlags, write_answer
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.workflow.lint_advice import LintAdvice, find_advice


class AdviseArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `advise`."""

    answer: PlanFileAnswerFlags = declare_flag_group(PlanFileAnswerFlags)
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("advise", AdviseArguments)
def advise(arguments: AdviseArguments) -> int:
    """List placement risks: pins, creation order, SKUs, shared machines.

    Checks all existing and configured objects, and how Azure lists their sites, or a saved
    plan with -plan. Lists the warnings of a plan, too. Exit code 0 without findings, 2 with
    some, 1 for errors.
    """
    screen = arguments.view.create_screen()
    advice = find_advice(
        create_context(
            arguments.state, arguments.variables, requires_state=not arguments.answer.plan
        ),
        arguments.answer.plan,
    )
    if has_errors(advice.diagnostics):
        return screen.print_failure(advice.diagnostics, advice.sources)
    return write_answer(_build_answer(advice), arguments.answer, screen)


def _build_answer(advice: LintAdvice) -> Answer:
    """Return the answer of the `advise` command."""
    from nexusform.rendering.answers.advice_findings import build_advice_report

    report = build_advice_report(advice.findings, advice.sources, advice.origin)
    return Answer("advise", advice.origin, report)
