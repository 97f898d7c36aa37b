"""A problem as a value: what is wrong, where, and what to do about it.

Functions return their result together with the diagnostics they met and go on, so that a user
sees every mistake of a run at once. Exceptions are for bugs.

Code and tools recognise a diagnostic by its `id` (docs/reference/diagnostics.md has all), not by its words.
Wording: `summary` is short, `detail` is full sentences that say what is wrong, why it matters when that is
not plain, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostic_kinds import summary_of
from nexusform.source import Position, SourceFile, Span


class Severity(StrEnum):
    """How bad it is: an error stops the run before anything is written."""

    ERROR = "error"
    WARNING = "warning"


class ValueNote(Struct, frozen=True):
    """The value of a sub-expression involved, e.g. traversal `var.zones`, statement `is null`."""

    traversal: str
    statement: str


class TextLine(Struct, frozen=True):
    """A line (from 1) of a text that the configuration writes out, and what it says."""

    number: int
    text: str


def text_line(text: object, number: int) -> TextLine | None:
    """A line of a text; None where there is no such line."""
    lines = text.split("\n") if isinstance(text, str) else []
    return TextLine(number, lines[number - 1]) if 1 <= number <= len(lines) > 1 else None


class Diagnostic(Struct, frozen=True):
    """One problem.

    `id` is its stable name ("unknown-site"), a row of docs/reference/diagnostics.md; `summary` is what that
    table says, or a headline with figures. `error` and `warning` make one.
    `address` is the resource instance concerned. `subject` is the offending range; `context` the wider
    construct to show around it. `block` is the header of the block that the subject stands in, as shown
    after the line number (`resource "t" "n"`). `function` is the function call being evaluated. `brief` is
    a line such as `cluster-d/pool1: an upgrade would fail`: of what, and what of it; "" where summary and
    detail are short enough. `extra` is data for the JSON form only (for example `fit`: the ways out of a
    placement that does not fit). `held_before`: a warning of a plan that the plan did not cause. `line` is
    the line at fault of the text that the subject writes out; who has the files narrows the subject to it.
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
    held_before: bool = False
    line: TextLine | None = None


class Refused(Exception):
    """What was asked for cannot be done; the diagnostics say why. Whoever was asked catches it."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*(diagnostic.detail for diagnostic in diagnostics))
        self.diagnostics = list(diagnostics)


class Problem(Struct, frozen=True):
    """Something wrong with a value or a document, said by somebody who does not know whose it is.

    `path` leads to it inside the value (() = all of it); of the text of a `file`, `line` and `column` say
    where instead (from 1, 0 = all of it), and `line` also of the text at the end of a path. `id`, `headline`
    and `brief` are as in `diagnostic`. `about` is the address of the instance that a remark is about and
    with which it goes, "" for none. Who knows the configuration makes a Diagnostic of it, at the line where
    the value or the file is given.
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
    about: str = ""

    @property
    def where(self) -> str:
        """The place for people: `line 3, column 5`, or a path such as `[4].rackId`; "" for all of it."""
        if self.line:
            return f"line {self.line}, column {self.column}"
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return "".join(steps).removeprefix(".")

    def below(self, *steps: str | int) -> Problem:
        """The same seen from further out: these steps lead to the value that it was said of."""
        return replace(self, path=(*steps, *self.path))

    def __str__(self) -> str:
        place = ", ".join(part for part in (self.file, self.where) if part)
        return f"{place}: {self.detail}"

    @property
    def located_detail(self) -> str:
        """The detail; of what is wrong with a file after the place in it."""
        return f"{self}" if self.file else self.detail


def diagnostic(
    severity: Severity,
    kind: str,
    detail: str = "",
    subject: Span | None = None,
    *,
    headline: str = "",
    **more: Any,
) -> Diagnostic:
    """A diagnostic of a kind (its id), with the summary that goes with it (diagnostic_kinds.py).

    `headline` stands in for that summary where names or figures belong into it; `more` takes the other
    fields of Diagnostic.
    """
    return Diagnostic(severity, headline or summary_of(kind), detail, subject, id=kind, **more)


def narrowed(found: Diagnostic, files: Mapping[str, SourceFile]) -> Diagnostic:
    """The diagnostic at the line of the file that writes the text's line at fault, where that can be told: in
    a heredoc, whose lines are lines of the file.
    """
    subject, line = found.subject, found.line
    if line is None:
        return found
    whole = replace(found, line=None)
    file = files.get(subject.filename) if subject is not None else None
    if subject is None or file is None or subject.start.line == subject.end.line:
        return whole
    written = file.text.encode()[subject.start.byte : subject.end.byte].split(b"\n")
    meant = _line_that_writes([each.decode(errors="replace") for each in written], line)
    if meant is None:
        return whole
    begin = subject.start.byte + sum(len(each) + 1 for each in written[:meant])
    text = written[meant].decode(errors="replace").rstrip()
    indent = len(text) - len(text.lstrip())
    number = subject.start.line + meant
    start = Position(number, indent + 1, begin + len(text[:indent].encode()))
    end = Position(number, len(text) + 1, begin + len(text.encode()))
    return replace(whole, subject=Span(subject.filename, start, end), context=None)


def _line_that_writes(written: Sequence[str], line: TextLine) -> int | None:
    """Which line of a heredoc, whose first holds the marker, gives a line of its text. None where unsure."""
    expected = line.text.strip()
    if line.number < len(written) and _writes(written[line.number], expected):
        return line.number
    # Sequences before it gave other than one line each.
    alike = [at for at, each in enumerate(written[1:], 1) if each.strip() == expected]
    return alike[0] if len(alike) == 1 and expected else None


def _writes(source: str, expected: str) -> bool:
    """Whether a line of source gives a line of text; of one with sequences, what stands before and after."""
    source = source.strip()
    head, sequence, rest = source.partition("${")
    tail = rest.rpartition("}")[2]
    return source == expected or (bool(sequence) and expected.startswith(head) and expected.endswith(tail))


def diagnostic_of(problem: Problem) -> Diagnostic:
    """A problem as a diagnostic where no line of the configuration stands for it."""
    return diagnostic(problem.severity, problem.id, problem.located_detail, brief=problem.brief)


def error(kind: str, detail: str = "", subject: Span | None = None, **more: Any) -> Diagnostic:
    """An error, as `diagnostic` makes it."""
    return diagnostic(Severity.ERROR, kind, detail, subject, **more)


def development_file(name: str, action: str) -> Diagnostic:
    """Return the error for a file that a version before the first release wrote; `action` is what to do."""
    detail = f"{name} was written by a development version of nexusform; {action}."
    return error("development-version-file", detail)


def warning(kind: str, detail: str = "", subject: Span | None = None, **more: Any) -> Diagnostic:
    """A warning, as `diagnostic` makes it."""
    return diagnostic(Severity.WARNING, kind, detail, subject, **more)


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any of them is an error."""
    return any(d.severity is Severity.ERROR for d in diagnostics)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A closing sentence ` Did you mean "x"?` naming the nearest of `known`, or nothing."""
    near = nearest(name, known)
    return f' Did you mean "{near}"?' if near else ""


def name_meant(text: str) -> str:
    """The name that `did_you_mean` gives in a text; "" where it gives none, or several."""
    beginning, _, rest = text.partition(' Did you mean "')
    name, quote, more = rest.partition('"?')
    return name if beginning and quote and "Did you mean" not in more else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """The one of `known` that is probably meant; "" when none is."""
    near = nearest_names(name, known)
    return near[0] if near else ""


def nearest_names(name: str, known: Iterable[str], most: int = 1, likeness: float = 0.6) -> list[str]:
    """Those of `known` that may be meant, the nearest first: the same letters in another case before anything
    else. `likeness` (0 to 1) is how near is near.
    """
    from difflib import get_close_matches

    spellings: dict[str, list[str]] = {}
    for candidate in known:
        spellings.setdefault(candidate.casefold(), []).append(candidate)
    near: list[str] = []
    for letters in get_close_matches(name.casefold(), list(spellings), n=most, cutoff=likeness):
        alike = spellings[letters]
        near += get_close_matches(name, alike, n=len(alike), cutoff=0.0)
    return near[:most]
