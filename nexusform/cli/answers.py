"""Answers of `simulate` and `advise` on the screen and in files: -plan, -format, -report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.cli.arguments import choice, text, texts
from nexusform.cli.report_flag import parse_reports, to_stdout, write_report, write_to_stdout
from nexusform.cli.screen import Screen
from nexusform.rendering.answers.outline import Outline

FINDING: Final = 2  # exit code when the answer is bad
_PAGE_WIDTH = 100


class Answer(Struct, frozen=True):
    """One answer: for people, and as data.

    `text` (colour, width) writes it for the terminal where the outline alone would not do, `page` the HTML
    page where there is a map to play it on.
    """

    question: str
    origin: str
    outline: Outline
    document: Mapping[str, Any]
    text: Callable[[bool, int], str] | None = None
    page: Callable[[], str] | None = None

    def written(self, *, colour: bool, width: int) -> str:
        """The answer as terminal text."""
        if self.text is not None:
            return self.text(colour, width)
        from nexusform.rendering.answers.outline import outline_text

        return outline_text(self.outline, colour=colour, width=width)


class AnswerFormFlags(Struct, frozen=True, kw_only=True):
    """In which forms an answer is written."""

    format: str = choice("Set the output format", ("text", "markdown", "json"))
    report: tuple[str, ...] = texts("Write a report to a file (- is stdout)", metavar="FORMAT:PATH")


class AnswerFlags(Struct, frozen=True, kw_only=True):
    """About which plan is asked, and in which forms the answer is written."""

    plan: str = text("Start from the result of a saved plan", metavar="FILE")
    format: str = choice("Set the output format", ("text", "markdown", "json"))
    report: tuple[str, ...] = texts("Write a report to a file (- is stdout)", metavar="FORMAT:PATH")

    @property
    def is_document(self) -> bool:
        """Whether stdout is for a document alone."""
        return self.format != "text" or to_stdout(parse_reports(self.report, FORMATS.keys()))


def tell(answer: Answer, flags: AnswerFlags | AnswerFormFlags, screen: Screen) -> int:
    """Print the answer, write the reports, and give the exit code."""
    reports = parse_reports(flags.report, FORMATS.keys())
    if not to_stdout(reports):
        if flags.format == "text":
            screen.out(answer.written(colour=screen.colour, width=screen.width), end="")
        else:
            write_to_stdout(FORMATS[flags.format](answer), flags.format)
    for report in reports:
        write_report(FORMATS[report.format](answer), report)
    return FINDING if answer.outline.bad else 0


def _text(answer: Answer) -> bytes:
    return answer.written(colour=False, width=_PAGE_WIDTH).encode()


def _markdown(answer: Answer) -> bytes:
    from nexusform.rendering.answers.outline import outline_markdown

    return outline_markdown(answer.outline).encode()


def _page(answer: Answer) -> bytes:
    if answer.page is not None:
        return answer.page().encode()
    from nexusform.rendering.answers.answer_page import answer_page

    return answer_page(answer.outline).encode()


def _json(answer: Answer) -> bytes:
    from nexusform.rendering.notation.json_values import json_bytes

    document = {
        "format_version": "1.0",
        "question": answer.question,
        "of": answer.origin,
        "finding": answer.outline.bad,
        "verdict": answer.outline.verdict,
        **answer.document,
    }
    return json_bytes(document, pretty=True)


FORMATS: Final[Mapping[str, Callable[[Answer], bytes]]] = {
    "text": _text,
    "markdown": _markdown,
    "json": _json,
    "html": _page,
}
