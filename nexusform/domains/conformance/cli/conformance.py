"""Command `nexusform conformance`."""

from typing import Any, Final

import click
from msgspec import Struct, json, to_builtins

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_positional,
    declare_report_flags,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer, AnswerFormatFlags, is_document, write_answer
from nexusform.cli.shared_flags import ViewFlags
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.diagnostics.phrases import format_count
from nexusform.domains.conformance.workflow.recorded_cases import (
    INVALID,
    ConformanceScore,
    build_program_answer,
    predict_decision,
    read_cases,
    score_conformance_cases,
)
from nexusform.files.external_files import AllowedWriter, ArgumentFile, PathValueForm
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

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
    report: tuple[str, ...] = declare_report_flags()
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
    format_name = "json" if arguments.as_json else "text"
    flags = AnswerFormatFlags(format=format_name, report=arguments.report)
    screen.print_diagnostics(problems, sources={}, is_aside=is_document(flags))
    code = 0
    if score.systems or is_document(flags):
        result = Answer("", "", _build_report(score), _build_document(score))
        code = write_answer(result, flags, screen)
    return 1 if has_errors(problems) else code


def _build_document(score: ConformanceScore) -> dict[str, Any]:
    """Build the counts by system and version, and the wrong predictions, as JSON data."""
    systems = [
        {"system": system, "version": version, "wrong": item.wrong, **to_builtins(item)}
        for (system, version), item in sorted(score.systems.items())
    ]
    return {"format_version": "1.0", "systems": systems, "wrong": to_builtins(score.wrong)}


def _build_report(score: ConformanceScore) -> Report:
    """Build the counts by system and version, and the first wrong predictions."""
    items = sorted(score.systems.items())
    rows = []
    for (system, version), item in items:
        figures = (item.decisions, item.right, item.wrong, item.errors)
        cells = (system, version, *(f"{figure:,}" for figure in figures))
        rows.append(Row(cells, is_finding=bool(item.wrong or item.errors)))
    headers = ("System", "Version", "Decisions", "Right", "Wrong", "Errors")
    table = Table(headers, tuple(rows), number_columns=frozenset(range(2, len(headers))))
    sections = [Section("By system and version", table=table)]
    if score.wrong:
        lines = []
        for case in score.wrong[:_MAX_LISTED]:
            predicted = case.reason or f"predicted {json.encode(case.predicted).decode()}"
            actual = json.encode(case.actual).decode()
            lines.append(f"{case.place}: {predicted}; {case.system} decided {actual}")
        if len(score.wrong) > _MAX_LISTED:
            lines.append(f"... and {len(score.wrong) - _MAX_LISTED:,} more (-json lists all)")
        sections.append(Section("Wrong or without an answer", tuple(lines), is_finding=True))
    right_count = sum(item.right for _, item in items)
    decisions = format_count(sum(item.decisions for _, item in items), "recorded decision")
    return Report(
        "Predictions against decisions of real systems",
        f"{right_count:,} of {decisions} predicted.",
        is_finding=bool(score.wrong),
        sections=tuple(sections),
    )
