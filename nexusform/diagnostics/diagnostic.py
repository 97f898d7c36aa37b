"""Diagnostics: the error, its position, and the remedy.

Functions return their result together with the diagnostics and continue, so that a user sees every
error of a run at once. Exceptions are for bugs.

Code and tools recognize a diagnostic by its `id` (docs/reference/diagnostics.md), not by its
text. `summary` is short. `detail` is full sentences: the error, its effect if that is not
obvious, and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import group_by, join_texts


class Position(Struct, frozen=True, order=True, array_like=True, gc=False):
    """Position in a file: line and column from 1, byte offset from 0."""

    line: int
    column: int
    byte: int


class Span(Struct, frozen=True, array_like=True, gc=False):
    """Range of a named file; `end` is exclusive."""

    filename: str
    start: Position
    end: Position

    def extend_to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of `other` (same file)."""
        return Span(self.filename, self.start, other.end)


class SourceFile(Struct, frozen=True):
    """Text of a file and its name relative to the current directory of the command."""

    name: str
    text: str


class Severity(StrEnum):
    """Severity: an error stops the run before anything is written."""

    ERROR = "error"
    WARNING = "warning"


class ValueNote(Struct, frozen=True):
    """Value of a sub-expression, e.g. traversal `var.zones`, statement `is null`."""

    traversal: str
    statement: str


class LiteralTextLine(Struct, frozen=True):
    """Line (from 1) of a literal text of the configuration, with its content."""

    number: int
    text: str


def get_text_line(text: object, number: int) -> LiteralTextLine | None:
    """Return a line of a text with several lines.

    Return None for other values and for a line beyond its end.
    """
    lines = text.split("\n") if isinstance(text, str) else []
    return (
        LiteralTextLine(number, lines[number - 1])
        if len(lines) > 1 and 1 <= number <= len(lines)
        else None
    )


class Diagnostic(Struct, frozen=True):
    """One problem.

    `id` is its stable name ("unknown-site"); `summary` is the text of summaries.py, or a headline
    with figures. Create one with `build_error` and `build_warning`. `address` is the affected
    resource instance. `subject` is the range at fault; `context` the enclosing construct to
    display. `block` is the header of the subject's block, displayed after the line number
    (`resource "t" "n"`). `function` is the function call under evaluation. `brief` is a line such
    as `cluster-d/pool1: an upgrade would fail`; "" if summary and detail are short enough. `extra`
    is data for the JSON form only (for example `fit`: the suggested fixes of a placement that does
    not fit). `is_preexisting` marks a warning of a plan that is not caused by the plan. `line` is
    the line at fault of the subject's literal text; `locate_line_in_text` narrows the subject to
    it. `site_id` is the only site concerned, "" for any.
    """

    severity: Severity
    summary: str
    detail: str = ""
    subject: Span | None = None
    context: Span | None = None
    address: str = ""
    block: str = ""
    id: str = ""
    values: tuple[ValueNote, ...] = ()
    function: str = ""
    brief: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    is_preexisting: bool = False
    line: LiteralTextLine | None = None
    site_id: str = ""


class DiagnosticsError(Exception):
    """Error of a request that cannot be completed, with diagnostics.

    The caller catches it.
    """

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*(diagnostic.detail for diagnostic in diagnostics))
        self.diagnostics = list(diagnostics)


class Problem(Struct, frozen=True):
    """Problem of a value or a document, independent of its owner.

    `path` is the path inside the value (() = all of it); for the text of a `file`, `line` and
    `column` are the position instead (from 1, 0 = all of it), and `line` also applies to the text
    at the end of a path. `id`, `headline` and `brief` are those of `build_diagnostic`. `address` is
    the address of the instance concerned and deleted with it, "" for none. `site_id` is the only
    site concerned, "" for any. The detail of an `is_multiline` one has several lines, and its
    author escapes the names in them. Code with access to the configuration converts it to a
    Diagnostic, at the line of the value or the file.
    """

    path: tuple[str | int, ...]
    id: str
    detail: str
    severity: Severity = Severity.ERROR
    headline: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    brief: str = ""
    address: str = ""
    is_multiline: bool = False
    site_id: str = ""

    def __post_init__(self) -> None:
        """Escape line breaks: a text has names and values of the document, and is one line."""
        names = ("headline", "brief") if self.is_multiline else ("detail", "headline", "brief")
        for name in names:
            text = getattr(self, name)
            if not text.isprintable():
                force_setattr(self, name, escape_name(text))

    @property
    def position_text(self) -> str:
        """Position for people: `line 3, column 5`, or a path such as `[4].rackId`.

        A path may follow the line: `line 3, [4].rackId`. The position of the whole document is "".
        """
        if self.line and self.column:
            return f"line {self.line}, column {self.column}"
        steps = (
            f"[{step}]" if isinstance(step, int) else f".{escape_name(step)}" for step in self.path
        )
        line = f"line {self.line}" if self.line else ""
        return join_texts((line, "".join(steps).removeprefix(".")))

    def prepend_path(self, *steps: str | int) -> Problem:
        """Return the same problem with these steps before its path."""
        return replace(self, path=(*steps, *self.path))

    def __str__(self) -> str:
        return f"{join_texts((escape_name(self.file), self.position_text))}: {self.detail}"

    @property
    def located_detail(self) -> str:
        """Detail, after the position if the problem is in a file."""
        return f"{self}" if self.file else self.detail


def build_diagnostic(
    severity: Severity,
    diagnostic_id: str,
    detail: str = "",
    subject: Span | None = None,
    *,
    headline: str = "",
    **fields: Any,
) -> Diagnostic:
    """Build a diagnostic of a kind (its id), with its summary (diagnostics/summaries.py).

    `headline` replaces that summary if it needs names or figures; `fields` are the other
    fields of Diagnostic.
    """
    from nexusform.diagnostics.summaries import get_summary

    return Diagnostic(
        severity,
        headline or get_summary(diagnostic_id),
        detail,
        subject,
        id=diagnostic_id,
        **fields,
    )


def locate_line_in_text(diagnostic: Diagnostic, files: Mapping[str, SourceFile]) -> Diagnostic:
    """Move a diagnostic of a heredoc to the source line of its faulty text line.

    Its `line` has the number and content of the text line, and is removed. If the source line is
    uncertain, keep the subject.
    """
    subject = diagnostic.subject
    line = diagnostic.line
    if line is None:
        return diagnostic
    unchanged = replace(diagnostic, line=None)
    if subject is None or subject.filename not in files or subject.start.line == subject.end.line:
        # A text on one line is no heredoc.
        return unchanged
    source_lines = (
        files[subject.filename].text.encode()[subject.start.byte : subject.end.byte].split(b"\n")
    )
    line_index = _find_source_line(
        [source_line.decode(errors="replace") for source_line in source_lines], line
    )
    if line_index is None:  # uncertain
        return unchanged
    begin = subject.start.byte + sum(
        len(source_line) + 1 for source_line in source_lines[:line_index]
    )
    text = source_lines[line_index].decode(errors="replace").rstrip()
    indent = len(text) - len(text.lstrip())
    number = subject.start.line + line_index
    start = Position(number, indent + 1, begin + len(text[:indent].encode()))
    end = Position(number, len(text) + 1, begin + len(text.encode()))
    return replace(unchanged, subject=Span(subject.filename, start, end), context=None)


def _find_source_line(source_lines: Sequence[str], line: LiteralTextLine) -> int | None:
    """Find the position of the source line of a heredoc for a line of its evaluated text.

    Return None if it is uncertain: template sequences `${...}` make the text differ
    from its source.
    """
    # The first source line (0) opens the heredoc; lines of its text are numbered from 1.
    expected = line.text.strip()
    if line.number < len(source_lines):
        source = source_lines[line.number].strip()
        # Of a line with template sequences `${...}`, the plain text before and after
        # them is compared.
        head, sequence, after_sequence = source.partition("${")
        tail = after_sequence.rpartition("}")[2]
        if source == expected or (
            sequence and expected.startswith(head) and expected.endswith(tail)
        ):
            return line.number
    # Sequences above it may add or remove lines. Then take the source line with this text, if there
    # is only one.
    candidates = [
        index
        for index, source_line in enumerate(source_lines[1:], 1)
        if source_line.strip() == expected
    ]
    # A blank text may be of any line.
    return candidates[0] if expected and len(candidates) == 1 else None


def convert_problem(problem: Problem) -> Diagnostic:
    """Convert a problem to a diagnostic without a position in the configuration."""
    return build_diagnostic(
        problem.severity,
        problem.id,
        problem.located_detail,
        brief=problem.brief,
        site_id=problem.site_id,
    )


def build_error(
    diagnostic_id: str, detail: str = "", subject: Span | None = None, **fields: Any
) -> Diagnostic:
    """Build an error, as `build_diagnostic`."""
    return build_diagnostic(Severity.ERROR, diagnostic_id, detail, subject, **fields)


def build_development_file_error(name: str, action: str) -> Diagnostic:
    """Return the error for a file that a version before the first release wrote.

    `action` is what to do.
    """
    detail = f"{name} was written by a development version of nexusform; {action}."
    return build_error("development-version-file", detail)


def build_warning(
    diagnostic_id: str, detail: str = "", subject: Span | None = None, **fields: Any
) -> Diagnostic:
    """Build a warning, as `build_diagnostic`."""
    return build_diagnostic(Severity.WARNING, diagnostic_id, detail, subject, **fields)


def has_errors(diagnostics: Iterable[Diagnostic | Problem]) -> bool:
    """Check whether any of the diagnostics is an error."""
    return any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)


def select_errors(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the errors, in order."""
    return [diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR]


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a closing sentence ` Did you mean "x"?` with the nearest of `known`, or ""."""
    nearest_name = find_nearest_name(name, known)
    return f' Did you mean "{nearest_name}"?' if nearest_name else ""


def extract_suggested_name(text: str) -> str:
    """Extract the name suggested by `suggest_name` in a text; "" if there is none, or several."""
    before, _, after = text.partition(' Did you mean "')
    name, quote, remainder = after.partition('"?')
    return name if before and quote and "Did you mean" not in remainder else ""


def find_nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the one of `known` that is probably intended, or ""."""
    names = find_nearest_names(name, known)
    return names[0] if names else ""


def find_nearest_names(
    name: str, known: Iterable[str], max_names: int = 1, likeness: float = 0.6
) -> list[str]:
    """Return those of `known` that may be intended, the nearest first.

    Names with the same letters in another case come before all others. `likeness` (0 to 1) is the
    minimum similarity, apart from case.
    """
    from difflib import get_close_matches

    spellings = group_by(known, str.casefold)
    matches: list[str] = []
    for folded_name in get_close_matches(
        name.casefold(), list(spellings), n=max_names, cutoff=likeness
    ):
        spelling_variants = spellings[folded_name]
        matches += get_close_matches(name, spelling_variants, n=len(spelling_variants), cutoff=0.0)
    return matches[:max_names]
