"""`nexusform report ...`: tables over many states."""

from __future__ import annotations

from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import choice, group, text
from nexusform.cli.commands import Entry, LazyGroup, command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.cli.report_flag import write_to_stdout
from nexusform.diagnostics import has_errors

COMMANDS: Final[dict[str, Entry]] = {
    "capacity": Entry(
        "nexusform.domains.whatif.cli.report:capacity", "How full every site is, and for how long it lasts"
    ),
}

report: Final = LazyGroup("report", COMMANDS, summary="Tables over many states.")


class CapacityArguments(Struct, frozen=True, kw_only=True):
    """What `report capacity` takes."""

    states: str = text("State files, such as 'sites/*/state/*.nfstate'", metavar="GLOB")
    format: str = choice("How to say it", ("text", "markdown", "csv"))
    view: ViewFlags = group(ViewFlags)


@command("capacity", CapacityArguments)
def capacity(arguments: CapacityArguments) -> int:
    """Say of every site in many states how full it is: NUMA cells used, free and stranded, how many more VMs
    of its largest SKU fit, how many with a rack lost, and in how many months it is full.

    The months follow from earlier versions of a state: the backup beside it, and copies of the same lineage
    among the files that match, by the times at which they were written. States are read without locks.
    """
    from nexusform.domains.whatif.rendering.capacity_report_outline import report_csv, report_outline
    from nexusform.domains.whatif.workflow.capacity_report import report_capacity
    from nexusform.rendering.answers.outline import outline_markdown, outline_text

    if not arguments.states:
        raise click.UsageError("Name the state files: -states='sites/*/state/*.nfstate'.")
    screen = arguments.view.screen()
    answer = report_capacity(place_of(), arguments.states)
    screen.diagnostics(answer.diagnostics, answer.sources)
    if has_errors(answer.diagnostics):
        return 1
    if arguments.format == "csv":
        write_to_stdout(report_csv(answer.lines).encode(), "csv")
        return 0
    outline = report_outline(answer.lines)
    if arguments.format == "markdown":
        write_to_stdout(outline_markdown(outline).encode(), "markdown")
        return 0
    screen.out(outline_text(outline, colour=screen.colour, width=screen.width), end="")
    return 0
