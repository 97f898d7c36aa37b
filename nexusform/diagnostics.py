"""A problem as a value: what is wrong, where, and what to do about it.

Functions return their result together with the diagnostics they met and go on, so that a user
sees every mistake of a run at once. Exceptions are for bugs.

Wording: `summary` is short and constant (tools group by it), `detail` is full sentences that say
what is wrong, why it matters when that is not plain, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from nexusform.source import Span


class Severity(StrEnum):
    """How bad it is: an error stops the run before anything is written."""

    ERROR = "error"
    WARNING = "warning"


class ValueNote(Struct, frozen=True):
    """The value of a sub-expression involved, e.g. traversal `var.zones`, statement `is null`."""

    traversal: str
    statement: str


class Diagnostic(Struct, frozen=True):
    """One problem.

    `id` is the stable name of a lint rule or of a family of errors ("zones-pinned"), empty when
    there is none. `address` is the resource instance concerned. `subject` is the offending
    range; `context` the wider construct to show around it. `block` is the header of the block
    that the subject stands in, as shown after the line number (`resource "t" "n"`).
    `function` is the function call being evaluated. `extra` is data for the JSON form only
    (for example `fit`: the ways out of a placement that does not fit).
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
    extra: Mapping[str, Any] = field(default_factory=dict)


def error(summary: str, detail: str = "", subject: Span | None = None, **more: Any) -> Diagnostic:
    """An error; `more` takes the other fields of Diagnostic."""
    return Diagnostic(Severity.ERROR, summary, detail, subject, **more)


def warning(summary: str, detail: str = "", subject: Span | None = None, **more: Any) -> Diagnostic:
    """A warning; `more` takes the other fields of Diagnostic."""
    return Diagnostic(Severity.WARNING, summary, detail, subject, **more)


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any of them is an error."""
    return any(d.severity is Severity.ERROR for d in diagnostics)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A closing sentence ` Did you mean "x"?` naming the nearest of `known`, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f' Did you mean "{near[0]}"?' if near else ""
