"""Output of answers of `simulate`, `advise`, `explain` and `reconcile` to the screen and to files.

-plan, -format, -report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.cli.arguments import declare_choice, declare_report_flags, declare_text_flag
from nexusform.cli.report_flag import (
    has_stdout_report,
    parse_reports,
    write_report,
    write_to_stdout,
)
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.domain_table import LazyTable, collect_loaders
from nexusform.files.external_files import PLAN_FILE
from nexusform.rendering.report.report_tree import Report

# Only pages have maps.
if TYPE_CHECKING:
    from nexusform.rendering.report.playback import Playback

# Exit code for a finding.
EXIT_FINDING: Final = 2


class Answer(Struct, frozen=True):
    """One answer as a report; its JSON is written from the report.

    With a `document` this is the JSON instead, or all of it without a `question`. `text` (colour,
    width) renders terminal text if the report is not sufficient. The HTML page has the steps of
    `plays` on a map. Each format of an `is_hypothetical` one begins with "Hypothetical plan".
    `warnings` are about its input: documents have them, the screen shows them as diagnostics.
    """

    question: str
    origin: str
    report: Report
    document: Mapping[str, Any] | None = None
    text: Callable[[bool, int], str] | None = None
    plays: Callable[[], Sequence[Playback]] = tuple
    is_hypothetical: bool = False
    warnings: tuple[str, ...] = ()

    def render_text(self, *, colour: bool, width: int) -> str:
        """Render the answer as terminal text."""
        if self.text is not None:
            return self.text(colour, width)
        from nexusform.rendering.text.report_text import render_report_text

        return render_report_text(self.report, colour=colour, width=width)


class AnswerFormatFlags(Struct, frozen=True, kw_only=True):
    """Output flags of an answer."""

    format: str = declare_choice("Set the output format", ("text", "markdown", "json"))
    report: tuple[str, ...] = declare_report_flags()


class PlanFileAnswerFlags(Struct, frozen=True, kw_only=True):
    """Plan and output flags of an answer."""

    plan: str = declare_text_flag(
        "Start from the result of a saved plan", metavar="FILE", file=PLAN_FILE
    )
    format: str = declare_choice("Set the output format", ("text", "markdown", "json"))
    report: tuple[str, ...] = declare_report_flags()


def is_document(flags: PlanFileAnswerFlags | AnswerFormatFlags) -> bool:
    """Return whether stdout is for a document only."""
    return flags.format != "text" or has_stdout_report(parse_reports(flags.report, FORMATS.keys()))


def write_answer(
    answer: Answer, flags: PlanFileAnswerFlags | AnswerFormatFlags, screen: Screen
) -> int:
    """Print the answer, write the reports, and return the exit code."""
    if answer.is_hypothetical:
        from nexusform.rendering.report.plan_sentences import HYPOTHETICAL_PLAN

        title = f"{HYPOTHETICAL_PLAN}: {answer.report.title}"
        answer = replace(answer, report=replace(answer.report, title=title))
    reports = parse_reports(flags.report, FORMATS.keys())
    facts = (*answer.warnings, *answer.report.facts)
    document = replace(answer, report=replace(answer.report, facts=facts))
    # A report to stdout replaces the text.
    if not has_stdout_report(reports):
        if flags.format == "text":
            screen.print_text(answer.render_text(colour=screen.colour, width=screen.width), end="")
        else:
            write_to_stdout(FORMATS[flags.format](document), flags.format)
    for report in reports:
        write_report(FORMATS[report.format](document), report)
    return EXIT_FINDING if answer.report.is_finding else 0


def _render_answer_as_text(answer: Answer) -> bytes:
    return answer.render_text(colour=False, width=100).encode()


def _render_markdown(answer: Answer) -> bytes:
    from nexusform.rendering.pull_request.report_markdown import render_report_markdown

    return render_report_markdown(answer.report).encode()


def _render_answer_as_html(answer: Answer) -> bytes:
    """Render the report of an answer as a page, with its simulations (`plays`) on a map."""
    from nexusform.rendering.page.report_page import render_report_page

    return render_report_page(answer.report, plays=answer.plays()).encode()


def _render_answer_as_json(answer: Answer) -> bytes:
    """Return the JSON document of an answer: common members first, then those of its question."""
    from nexusform.rendering.notation.json_values import encode_document

    details = answer.document
    if details is None:
        from nexusform.rendering.json.report_document import build_report_document

        details = build_report_document(answer.report)
    if not answer.question:
        return encode_document(details, pretty=True)
    document = {
        "format_version": "1.0",
        "question": answer.question,
        "of": answer.origin,
        **({"hypothetical": True} if answer.is_hypothetical else {}),
        "finding": answer.report.is_finding,
        "verdict": answer.report.verdict,
        **({"warnings": list(answer.warnings)} if answer.warnings else {}),
        **details,
    }
    return encode_document(document, pretty=True)


FORMATS: Final[Mapping[str, Callable[[Answer], bytes]]] = {
    "text": _render_answer_as_text,
    "markdown": _render_markdown,
    "json": _render_answer_as_json,
    "html": _render_answer_as_html,
}


class StateComparison(Struct, frozen=True):
    """The result of a comparison of state and reality.

    `answer` is None if the comparison failed. `is_rule_violated` says whether a separation
    rule is violated.
    """

    answer: Answer | None = None
    is_rule_violated: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


# (context, lock options, notices) -> result
Comparer: TypeAlias = Callable[[Any, Any, Any], StateComparison]
COMPARISON_SOURCES: Final[Mapping[str, Comparer]] = LazyTable(collect_loaders("reconcilers"))
