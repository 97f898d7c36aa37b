"""`nexusform advise`."""

from __future__ import annotations

from msgspec import Struct

from nexusform.cli.answers import Answer, AnswerFlags, tell
from nexusform.cli.arguments import group
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, state_flag, variable_flags
from nexusform.diagnostics import has_errors
from nexusform.workflow.advise import Advice, find_advice


class AdviseArguments(Struct, frozen=True, kw_only=True):
    """What `advise` takes."""

    answer: AnswerFlags = group(AnswerFlags)
    variables: tuple[tuple[str, str], ...] = variable_flags()
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)


@command("advise", AdviseArguments)
def advise(arguments: AdviseArguments) -> int:
    """List placement risks: pins, creation order, SKUs, shared machines.

    Checks all existing and configured objects, or a saved plan with -plan. Exit code 0 without
    advice, 2 with advice, 1 for errors.
    """
    screen = arguments.view.screen()
    advice = find_advice(place_of(arguments.state, arguments.variables), arguments.answer.plan)
    if has_errors(advice.diagnostics):
        screen.diagnostics(advice.diagnostics, advice.sources)
        return 1
    return tell(_answer(advice), arguments.answer, screen)


def _answer(advice: Advice) -> Answer:
    from nexusform.rendering.answers.advice_findings import advice_outline, render_advice
    from nexusform.rendering.json.json_parts import diagnostic_documents

    def text(colour: bool, width: int) -> str:
        return render_advice(advice.findings, advice.sources, colour=colour, width=width)

    document = {"findings": diagnostic_documents(advice.findings, advice.sources)}
    return Answer(
        question="advise",
        origin=advice.origin,
        outline=advice_outline(advice.findings, advice.origin),
        document=document,
        text=text,
    )
