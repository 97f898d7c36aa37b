"""Answers of `simulate` and `advise` on the screen and in files: -plan, -format, -report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
from msgspec import Struct

from nexusform.cli.commands import option
from nexusform.cli.screen import Screen
from nexusform.diagnostics import did_you_mean
from nexusform.rendering.answers.outline import Outline
from nexusform.workflow.writing import write_output

Function = TypeVar("Function", bound=Callable[..., Any])

FINDING: Final = 2  # exit code when the answer is bad
_PAGE_WIDTH = 100


class Answer(Struct, frozen=True):
    """One answer: for people, and as data.

    `text` (colour, width) writes it for the terminal where the outline alone would not do.
    """

    question: str
    origin: str
    outline: Outline
    document: Mapping[str, Any]
    text: Callable[[bool, int], str] | None = None

    def written(self, *, colour: bool, width: int) -> str:
        """The answer as terminal text."""
        if self.text is not None:
            return self.text(colour, width)
        from nexusform.rendering.answers.outline_text import outline_text

        return outline_text(self.outline, colour=colour, width=width)


def answer_flags(function: Function) -> Function:
    """-plan, -format, -report."""
    choice = click.Choice(["text", "markdown", "json"])
    function = option(
        "report", "Also write the answer to a file (- is stdout)", metavar="FORMAT:PATH", many=True
    )(function)
    function = option("format", "How to say it", metavar="text|markdown|json", default="text", kind=choice)(
        function
    )
    return option("plan", "Ask how things will be after a saved plan", metavar="FILE")(function)


def tell(answer: Answer, given: Mapping[str, Any], screen: Screen) -> int:
    """Print the answer, write the reports, and give the exit code."""
    reports = [_wanted(text) for text in given["report"]]
    if sum(path == "-" for _, path in reports) > 1:
        raise click.UsageError("-report: only one report can go to stdout.")
    if not any(path == "-" for _, path in reports):
        if given["format"] == "text":
            screen.out(answer.written(colour=screen.colour, width=screen.width), end="")
        else:
            _to_stdout(FORMATS[given["format"]](answer))
    for name, path in reports:
        _write(FORMATS[name](answer), path)
    return FINDING if answer.outline.bad else 0


def _wanted(text: str) -> tuple[str, str]:
    name, colon, path = text.partition(":")
    if name not in FORMATS:
        near = did_you_mean(name, FORMATS)
        raise click.UsageError(
            f'-report: there is no format "{name}". Known are: {", ".join(FORMATS)}.{near}'
        )
    if not colon or not path:
        raise click.UsageError(f"-report={text}: name a file, or - for stdout: -report={name}:PATH.")
    return name, path


def _write(data: bytes, path: str) -> None:
    if path == "-":
        _to_stdout(data)
        return
    try:
        write_output(path, data)
    except OSError as problem:
        raise click.UsageError(f'-report: "{path}" cannot be written: {problem.strerror}.') from None


def _to_stdout(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _text(answer: Answer) -> bytes:
    return answer.written(colour=False, width=_PAGE_WIDTH).encode()


def _markdown(answer: Answer) -> bytes:
    from nexusform.rendering.answers.outline_markdown import outline_markdown

    return outline_markdown(answer.outline).encode()


def _page(answer: Answer) -> bytes:
    from nexusform.rendering.answers.outline_page import outline_page

    return outline_page(answer.outline).encode()


def _json(answer: Answer) -> bytes:
    from nexusform.rendering.notation.json_writer import json_bytes

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
