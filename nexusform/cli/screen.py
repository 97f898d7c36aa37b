"""Where text goes: the terminal, its width and colours, questions to the user; and what moves at its
bottom while a plan or an apply goes on: lines scroll above it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self

import click

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.source import SourceFile

PLAIN_WIDTH = 80  # columns when stdout is no terminal
# A plan that is ready sooner is not worth a line.
QUIET_SECONDS = 1.0


class Screen:
    """Prints for people: warnings and results to stdout, errors to stderr."""

    def __init__(self, *, no_color: bool = False) -> None:
        self.colour = not no_color and wants_colour(os.environ, terminal=sys.stdout.isatty())
        self.error_colour = not no_color and wants_colour(os.environ, terminal=sys.stderr.isatty())

    @property
    def width(self) -> int:
        """Columns to fill."""
        return self.known_width or PLAIN_WIDTH

    @property
    def known_width(self) -> int:
        """Columns of the terminal, 0 where text goes elsewhere: what others search is not broken there."""
        if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
            return max(shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, 40)
        return 0

    @property
    def in_automation(self) -> bool:
        """Whether hints about what to type next should be left out."""
        return bool(os.environ.get("NF_IN_AUTOMATION"))

    @property
    def live(self) -> bool:
        """Whether something may move on the screen: a terminal that can, and nobody's log."""
        able = sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
        return able and not self.in_automation

    def out(self, text: str = "", *, end: str = "\n") -> None:
        """Print to stdout."""
        click.echo(no_log_commands(f"{text}{end}"), nl=False, color=True)

    def say(self, text: str) -> None:
        """Print sentences to stdout, wrapped at words."""
        from nexusform.rendering.notation.colours import wrap

        self.out("\n".join(wrap(text, self.width)))

    def err(self, text: str = "", *, end: str = "\n") -> None:
        """Print to stderr."""
        click.echo(no_log_commands(f"{text}{end}"), nl=False, err=True, color=True)

    def diagnostics(
        self,
        diagnostics: Iterable[Diagnostic],
        sources: Mapping[str, SourceFile],
        *,
        aside: bool = False,
        errors_last: bool = False,
    ) -> None:
        """Print diagnostics in their boxes, the heaviest first (`errors_last` is Terraform's order). `aside`:
        stdout is for a document alone.
        """
        listed = list(diagnostics)
        if not listed:
            return
        from nexusform.rendering.text.diagnostic_text import render_diagnostics

        warnings = [each for each in listed if each.severity is Severity.WARNING]
        errors = [each for each in listed if each.severity is Severity.ERROR]
        say_warnings = self.err if aside else self.out
        told = [
            (self.err, render_diagnostics(errors, sources, self.error_colour, self.width)),
            (say_warnings, render_diagnostics(warnings, sources, self.colour, self.width)),
        ]
        for say, text in reversed(told) if errors_last else told:
            if text:
                sys.stdout.flush()
                say(text, end="" if text.endswith("\n") else "\n")

    def ask(self, question: str, explanation: str) -> str | None:
        """Ask for a value on stdin; None when there is no answer to be had."""
        from nexusform.rendering.notation.colours import Painter, wrap

        asked = "\n".join(wrap(question, self.width))
        self.out(f"\n{Painter(self.colour)(asked, 'bold')}\n{explanation}\n")
        self.out(f"  {Painter(self.colour)('Enter a value:', 'bold')} ", end="")
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            self.out()
        return answer.strip() if answer else None


_LINE_COMMAND: Final = re.compile(r"^([^\S\n]*):(?=:[A-Za-z])", re.MULTILINE)
_COMMAND: Final = re.compile(r"##(?=\[|vso\[)")


def no_log_commands(text: str) -> str:
    """The text with what CI systems obey in a log parted by a space.

    GitHub obeys a line that begins with `::NAME` after any space, Azure `##vso[` wherever it stands, both
    `##[`. A value that spans lines would set variables of the job otherwise.
    """
    if "::" not in text and "##" not in text:
        return text
    return _COMMAND.sub("# #", _LINE_COMMAND.sub(r"\1: ", text))


def no_log_commands_in_markup(text: str) -> str:
    """The same for HTML and XML, where a character written by its number means the same."""
    if "::" not in text and "##" not in text:
        return text
    return _COMMAND.sub("#&#35;", _LINE_COMMAND.sub(r"\1&#58;", text))


def wants_colour(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """NO_COLOR turns colour off, CLICOLOR_FORCE on; otherwise a terminal has it."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return terminal and environment.get("TERM") != "dumb"


def input_allowed(flag: bool) -> bool:
    """Whether questions may be asked: -input and NF_INPUT."""
    return flag and os.environ.get("NF_INPUT", "").lower() not in ("0", "false")


class LiveBar:
    """Used as a context manager; only ever when stdout is a terminal."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("Applying"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, transient=True)
        self._progress.start()
        self._task = self._progress.add_task("apply", total=self._steps)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def line(self, text: str) -> None:
        """Print a line above the bar."""
        from rich.text import Text

        self._progress.console.print(Text.from_ansi(text), soft_wrap=True)

    def advance(self) -> None:
        """One more step has ended."""
        self._progress.advance(self._task)


class PlanningLine:
    """How far a long plan has come, and for how long; gone when the plan is ready.

    Used as a context manager, only ever when stdout is a terminal. rich is loaded only when the plan
    takes longer than QUIET_SECONDS.
    """

    def __init__(self) -> None:
        self._words = "Planning"
        self._done = Event()
        self._thread = Thread(target=self._show, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def came(self, stage: str, done: int, of: int) -> None:
        """Planning came so far."""
        share = f"{done:,} of {of:,}" if of else f"{done:,}"
        self._words = _PLANNING[stage].format(share)

    def _show(self) -> None:
        """Tell it on the screen once planning takes longer than a moment."""
        if self._done.wait(QUIET_SECONDS):
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        words = TextColumn("{task.description}", markup=False)
        with Progress(SpinnerColumn(), words, TimeElapsedColumn(), transient=True) as progress:
            task = progress.add_task(self._words, total=None)
            while not self._done.wait(0.2):
                progress.update(task, description=self._words)


# By the stages of planning (planning/request.py).
_PLANNING: Final = {
    "arguments": "Evaluating {} objects",
    "objects": "Planning {} objects",
    "VMs": "Placing {} VMs",
    "placements": "Placing {} placements",
    "tie-breaks": "Certainty: {} tie-breaks",
}
