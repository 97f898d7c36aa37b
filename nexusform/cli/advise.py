"""`nexusform advise`."""

from __future__ import annotations

import sys
from typing import Any

import click

from nexusform.cli import flags
from nexusform.cli.commands import command, option
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.workflow.advise import find_advice

FINDING = 2  # exit code when there is advice


@command("advise", summary="List risks in the configuration and the placements")
@option("plan", "Look at a saved plan", metavar="FILE")
@option("format", "How to say it", metavar="text|json", default="text", kind=click.Choice(["text", "json"]))
@flags.variable_flags
@flags.state_flags
@flags.view_flags
def advise(**given: Any) -> int:
    """List what is allowed and still unwise: pins, orders, SKUs, machines that are shared.

    Exit code 0 when every rule is content, 2 when there is advice, 1 for errors.
    """
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    found = find_advice(flags.place_of(given), given["plan"] or "")
    if has_errors(found.diagnostics):
        screen.diagnostics(found.diagnostics, found.sources)
        return 1
    if given["format"] == "json":
        from nexusform.rendering.diagnostic_json import diagnostic_documents
        from nexusform.rendering.json_writer import json_bytes

        document = {"format_version": "1.0", "findings": diagnostic_documents(found.findings, found.sources)}
        sys.stdout.write(json_bytes(document, pretty=True).decode())
    else:
        from nexusform.rendering.advice_text import render_advice

        text = render_advice(found.findings, found.sources, colour=screen.colour, width=screen.width)
        screen.out(text, end="")
    return FINDING if found.findings else 0
