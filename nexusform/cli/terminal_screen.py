"""Screen output: terminal text, width, colours and prompts; and live progress at the bottom."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self

import click

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Severity,
    SourceFile,
    has_errors,
    select_errors,
)

# Number of columns if stdout is not a terminal.
DEFAULT_WIDTH = 80
# Faster plans have no progress line.
PROGRESS_DELAY = 1.0
_NO_SOURCES: Final[Mapping[str, SourceFile]] = {}


class Screen:
    """Output for users: results to stdout, errors to stderr.

    With `is_aside` all output goes to stderr, because stdout is for a document.
    """

    def __init__(self, *, no_color: bool = False, is_aside: bool = False) -> None:
        # Texts go to stderr, because stdout is for a document.
        self._is_aside = is_aside
        self.error_colour = not no_color and should_use_colour(
            os.environ, is_terminal=sys.stderr.isatty()
        )
        has_colour = not no_color and should_use_colour(os.environ, is_terminal=sys.stdout.isatty())
        self.colour = self.error_colour if is_aside else has_colour

    @property
    def width(self) -> int:
        """Columns to fill; a default width if stdout is redirected."""
        return self.known_width or DEFAULT_WIDTH

    @property
    def known_width(self) -> int:
        """Columns of the terminal, 0 if stdout is redirected.

        Lines for other programs are not wrapped.
        """
        if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
            return max(shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns, 40)
        return 0

    @property
    def is_automated(self) -> bool:
        """Whether hints about further commands are omitted."""
        return bool(os.environ.get("NF_IN_AUTOMATION"))

    @property
    def is_live(self) -> bool:
        """Whether live progress is possible: a capable terminal without automation."""
        is_capable = sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
        return is_capable and not self.is_automated

    def print_text(self, text: str = "", *, end: str = "\n") -> None:
        """Print to stdout, or to stderr if stdout is for a document."""
        click.echo(escape_log_commands(f"{text}{end}"), nl=False, err=self._is_aside, color=True)

    def print_wrapped(self, text: str) -> None:
        """Print sentences like `print_text`, wrapped at words."""
        from nexusform.rendering.notation.colours import wrap_lines

        self.print_text("\n".join(wrap_lines(text, self.width)))

    def print_error(self, text: str = "", *, end: str = "\n") -> None:
        """Print to stderr."""
        click.echo(escape_log_commands(f"{text}{end}"), nl=False, err=True, color=True)

    def print_diagnostics(
        self,
        diagnostics: Iterable[Diagnostic],
        sources: Mapping[str, SourceFile],
        *,
        is_aside: bool = False,
        errors_last: bool = False,
    ) -> None:
        """Print diagnostics in boxes, if there are any: errors to stderr, then warnings to stdout.

        With `errors_last`, warnings are first, as in Terraform. With `is_aside` all go to stderr,
        because stdout is for a document.
        """
        all_diagnostics = list(diagnostics)
        if not all_diagnostics:
            return
        from nexusform.rendering.text.diagnostic_text import render_diagnostics

        warnings = [
            diagnostic for diagnostic in all_diagnostics if diagnostic.severity is Severity.WARNING
        ]
        errors = select_errors(all_diagnostics)
        print_warnings = self.print_error if is_aside else self.print_text
        outputs = [
            (
                self.print_error,
                render_diagnostics(errors, sources, self.error_colour, self.width),
            ),  # stderr
            (print_warnings, render_diagnostics(warnings, sources, self.colour, self.width)),
        ]
        for print_output, text in reversed(outputs) if errors_last else outputs:
            if text:
                # A flush keeps the order of both streams on a terminal.
                sys.stdout.flush()
                print_output(text, end="")

    def print_failure(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile] = _NO_SOURCES
    ) -> int:
        """Print the diagnostics of a failed command; return its exit code."""
        self.print_diagnostics(diagnostics, sources)
        return 1

    def print_answer_document(
        self, diagnostics: Sequence[Diagnostic], sources: Mapping[str, SourceFile], **parts: Any
    ) -> int:
        """Print the answer of a command as one JSON document, also with errors.

        Return the exit code.
        """
        from nexusform.rendering.json.json_diagnostics import build_answer_document
        from nexusform.rendering.notation.json_values import encode_document

        document = build_answer_document(diagnostics, sources, **parts)
        self.print_text(encode_document(document, pretty=True).decode(), end="")
        return 1 if has_errors(diagnostics) else 0

    def prompt_user(self, question: str, explanation: str) -> str | None:
        """Prompt for a value on stdin without blanks around it; return None at its end."""
        answer = self.read_value(question, explanation)
        return None if answer is None else answer.strip()

    def read_value(self, question: str, explanation: str, *, is_hidden: bool = False) -> str | None:
        """Prompt for a line on stdin, without echo if `is_hidden`; return None at its end."""
        from nexusform.rendering.notation.colours import Painter, wrap_lines

        wrapped_question = "\n".join(wrap_lines(question, self.width))
        self.print_text(f"\n{Painter(self.colour)(wrapped_question, 'bold')}")
        if explanation:
            self.print_text(f"{explanation}\n")
        self.print_text(f"  {Painter(self.colour)('Enter a value:', 'bold')} ", end="")
        sys.stdout.flush()
        answer = read_hidden_line() if is_hidden else sys.stdin.readline()
        # The input ended, and the cursor is after the prompt.
        if not answer.endswith("\n"):
            self.print_text()
        return answer.removesuffix("\n") if answer else None


def read_hidden_line() -> str:
    """Read a line from the terminal without echo; "" at the end of the input."""
    from getpass import getpass

    try:
        return f"{getpass('')}\n"
    except EOFError:
        return ""


_LINE_COMMAND: Final = re.compile(r"^([^\S\n]*):(?=:[A-Za-z])", re.MULTILINE)
_HASH_COMMAND: Final = re.compile(r"##(?=\[|vso\[)")


def escape_log_commands(text: str) -> str:
    """Insert a space into CI log commands.

    `::set-env` becomes `: :set-env`, and `##[group]` becomes `# #[group]`. Otherwise a multi-line
    value could set variables of the job. GitHub executes `::NAME` at the start of a line, also
    after blanks. Azure executes `##vso[` anywhere. Both execute `##[`.
    """
    return _replace_log_commands(text, hashes="# #", first_colon=": ")


def escape_log_commands_in_markup(text: str) -> str:
    """Escape CI log commands in HTML and XML with character references: `##[` becomes `#&#35;[`."""
    return _replace_log_commands(text, hashes="#&#35;", first_colon="&#58;")


def _replace_log_commands(text: str, hashes: str, first_colon: str) -> str:
    """Replace the marks of log commands.

    `hashes` replaces `##`, and `first_colon` replaces the first colon of `::`.
    """
    if "::" not in text and "##" not in text:
        return text
    # \1: the blanks before the colons.
    return _HASH_COMMAND.sub(hashes, _LINE_COMMAND.sub(rf"\1{first_colon}", text))


def should_use_colour(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether to use colour.

    NO_COLOR disables it, CLICOLOR_FORCE enables it, otherwise a terminal has it.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return is_terminal and environment.get("TERM") != "dumb"


def is_input_allowed(flag: bool) -> bool:
    """Return whether prompts are allowed by -input and NF_INPUT."""
    return flag and os.environ.get("NF_INPUT", "").lower() not in ("0", "false")


class ApplyProgressBar:
    """Progress bar of an apply, as a context manager; only if stdout is a terminal."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

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

    def print_line(self, text: str) -> None:
        """Print a line above the bar."""
        from rich.text import Text

        self._progress.console.print(Text.from_ansi(text), soft_wrap=True)

    def increment(self) -> None:
        """Count one more completed step."""
        self._progress.advance(self._task)


class PlanningProgressLine:
    """Progress line of a slow plan, as a context manager; only if stdout is a terminal.

    It disappears when the plan is ready. rich is imported only if planning takes
    longer than PROGRESS_DELAY.
    """

    def __init__(self) -> None:
        self._description = "Planning"
        self._end_event = Event()
        self._thread = Thread(target=self._display_progress_after_delay, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_event.set()
        self._thread.join()

    def update_progress(self, stage: str, done: int, total: int) -> None:
        """Update the progress of planning."""
        share = f"{done:,} of {total:,}" if total else f"{done:,}"
        self._description = _STAGE_TEXTS[stage].format(share)

    def _display_progress_after_delay(self) -> None:
        """Show the progress after a short delay."""
        if self._end_event.wait(PROGRESS_DELAY):
            # The work ended before the delay.
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        text_column = TextColumn("{task.description}", markup=False)
        with Progress(
            SpinnerColumn(), text_column, TimeElapsedColumn(), transient=True
        ) as progress:
            task = progress.add_task(self._description, total=None)
            while not self._end_event.wait(0.2):
                progress.update(task, description=self._description)


# Texts by stage of planning (planning/plan_request.py).
_STAGE_TEXTS: Final = {
    "arguments": "Evaluating {} objects",
    "objects": "Planning {} objects",
    "VMs": "Placing {} VMs",
    "placements": "Placing {} placements",
    "samples": "Certainty: {} samples",
}
