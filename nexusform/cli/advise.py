"""`nexusform advise`."""

from __future__ import annotations

from typing import Any

from nexusform.cli import flags
from nexusform.cli.answers import Answer, answer_flags, tell
from nexusform.cli.commands import command
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.workflow.advise import Advice, find_advice


@command("advise", summary="List risks in the configuration and the placements")
@answer_flags
@flags.variable_flags
@flags.state_flags
@flags.view_flags
def advise(**given: Any) -> int:
    """List what is allowed and still unwise: pins, orders, SKUs, machines that are shared.

    Looks at all that stands and all that the configuration would add, or with -plan at what a saved plan
    places. Exit code 0 when every rule is content, 2 when there is advice, 1 for errors.
    """
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    found = find_advice(flags.place_of(given), given["plan"] or "")
    if has_errors(found.diagnostics):
        screen.diagnostics(found.diagnostics, found.sources)
        return 1
    return tell(_answer(found), given, screen)


def _answer(found: Advice) -> Answer:
    from nexusform.rendering.answers.advice_outline import advice_outline
    from nexusform.rendering.answers.advice_text import render_advice
    from nexusform.rendering.json.diagnostic_json import diagnostic_documents

    def text(colour: bool, width: int) -> str:
        return render_advice(found.findings, found.sources, colour=colour, width=width)

    document = {"findings": diagnostic_documents(found.findings, found.sources)}
    return Answer("advise", found.origin, advice_outline(found.findings, found.origin), document, text)
