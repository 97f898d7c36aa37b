"""Command `nexusform conformance`."""

from typing import Final

import click
from msgspec import Struct, json, to_builtins

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_positional,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.report_flag import write_to_stdout
from nexusform.cli.shared_flags import ViewFlags
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.domains.conformance.workflow.recorded_cases import (
    INVALID,
    ConformanceScore,
    build_program_answer,
    predict_decision,
    read_cases,
    score_conformance_cases,
)
from nexusform.files.external_files import AllowedWriter, ArgumentFile, PathValueForm

EXIT_WRONG: Final = 2
_MAX_LISTED: Final = 20


class ConformanceArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `conformance`."""

    directory: str = declare_positional(metavar="DIR", file=ArgumentFile("recorded decisions"))
    program: str = declare_text_flag(
        "Score this program instead of nexusform",
        metavar="CMD",
        file=ArgumentFile(
            "program that predicts decisions", AllowedWriter.OPERATOR, PathValueForm.COMMAND
        ),
    )
    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("conformance", ConformanceArguments)
def score_predictions(arguments: ConformanceArguments) -> int:
    """Score predictions against recorded decisions of real systems.

    DIR holds *.jsonl files, one decision per line: system, version, snapshot, request, decision,
    equivalent. A program reads snapshot and request as JSON on stdin and prints its decision. Exit
    code 0, or 2 if an answer is wrong.
    """
    screen = arguments.view.create_screen()
    problems: list[Diagnostic] = []
    try:
        answer = build_program_answer(arguments.program) if arguments.program else predict_decision
    except ValueError as problem:
        raise click.UsageError(
            f'-program: "{arguments.program}" is not a command: {problem}.'
        ) from None
    score = score_conformance_cases(read_cases(arguments.directory, problems), answer)
    if not score.systems and not problems:  # empty files
        problems.append(
            build_error(INVALID, f'The files of "{arguments.directory}" have no decision.')
        )
    screen.print_diagnostics(problems, sources={}, is_aside=arguments.as_json)
    if arguments.as_json:
        scores = [
            {"system": system, "version": version, "wrong": item.wrong, **to_builtins(item)}
            for (system, version), item in sorted(score.systems.items())
        ]
        write_to_stdout(
            json.encode({"format_version": "1.0", "systems": scores, "wrong": score.wrong}) + b"\n",
            "json",
        )
    elif score.systems:
        screen.print_text(_render_score(score))
    if has_errors(problems):
        return 1
    return EXIT_WRONG if score.wrong else 0


def _render_score(score: ConformanceScore) -> str:
    """Render the counts by system and version, and the wrong predictions."""
    rows = [("System", "Version", "Decisions", "Right", "Wrong", "Errors")]
    rows += [
        (
            system,
            version,
            f"{item.decisions:,}",
            f"{item.right:,}",
            f"{item.wrong:,}",
            f"{item.errors:,}",
        )
        for (system, version), item in sorted(score.systems.items())
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            # names, then numbers.
            cells.append(cell.ljust(width) if column < 2 else cell.rjust(width))
        lines.append("  ".join(cells).rstrip())
    if score.wrong:
        lines += ["", "Wrong or without an answer:"]
        for case in score.wrong[:_MAX_LISTED]:
            predicted = case.reason or f"predicted {json.encode(case.predicted).decode()}"
            lines.append(
                f"  {case.place}: {predicted}; {case.system} decided "
                f"{json.encode(case.actual).decode()}"
            )
        if len(score.wrong) > _MAX_LISTED:
            lines.append(f"  ... and {len(score.wrong) - _MAX_LISTED:,} more (-json lists all)")
    return "\n".join(lines)
