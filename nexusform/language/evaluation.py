"""The state of one evaluation: where names come from, what went wrong, how much was done.

And what it asks of the outside: files to read and the time. They are declared here because file() and
timestamp() need them and language stands below ports, which names them again; implementations live in
workflow, tests pass their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias

from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Problem, Severity, ValueNote, error, has_errors
from nexusform.exact_numbers import number_from_decimal
from nexusform.language.functions.function import Function
from nexusform.language.operators import attribute, index
from nexusform.language.syntax.nodes import Expression, Step, Traversal, TraverseAttribute
from nexusform.language.value_notes import traversal_text, value_notes
from nexusform.source import Span
from nexusform.value_types import NUMBER, STRING
from nexusform.values import DYNAMIC_UNKNOWN, UNKNOWN, Value

# What one expression may produce, in elements of collections and stretches of text. Far above any
# honest use, and low enough that a nest of `for` expressions ends in a message.
WORK_LIMIT: Final = 2_000_000
# What one value may hold in all. Parts may be shared, so that a few lines of local values could
# otherwise stand for more than any memory holds once it is written out or compared.
SIZE_LIMIT: Final = 4_000_000
CALL_UNITS: Final = 2  # what a function call counts beside its result
_CHARACTERS_PER_UNIT: Final = 32


class Scope(Protocol):
    """Where an expression stands: what its names and functions mean."""

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions that may be called, by name."""
        ...

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """The value of the root name and as many further steps as the scope understands.

        Gives the value, how many steps after the root it covers, and what was wrong.
        """
        ...


def bounded(value: Value) -> Value:
    """The value itself. Raises MemoryError when it holds more than SIZE_LIMIT."""
    if value.size > SIZE_LIMIT:
        raise MemoryError
    return value


Handler: TypeAlias = Callable[[Any, "ExpressionRun"], Value]


class ExpressionRun:
    """One run of `evaluate`: gives every expression its value by the handler of its class."""

    __slots__ = ("_handlers", "_noting", "diagnostics", "element", "names", "scope", "work")

    def __init__(self, scope: Scope, handlers: Mapping[type, Handler]) -> None:
        self.scope = scope
        self.diagnostics: list[Diagnostic] = []
        self.names: dict[str, Value] = {}
        self.element: Value = DYNAMIC_UNKNOWN
        self.work = 0
        self._handlers = handlers
        self._noting = False

    def value(self, expression: Expression) -> Value:
        """The value of an expression; on an error a diagnostic is kept and the value is unknown."""
        return self._handlers[expression.__class__](expression, self)

    def attempt(self, expression: Expression) -> tuple[Value, list[Diagnostic]]:
        """The value of an expression, its diagnostics apart from those of the whole."""
        kept, self.diagnostics = self.diagnostics, []
        try:
            value = self.value(expression)
            return value, self.diagnostics
        finally:
            self.diagnostics = kept

    def attempt_all(self, work: Callable[[], Value]) -> tuple[Value, list[Diagnostic]]:
        """As `attempt`, for any piece of work."""
        kept, self.diagnostics = self.diagnostics, []
        try:
            value = work()
            return value, self.diagnostics
        finally:
            self.diagnostics = kept

    def failed_since(self, before: int) -> bool:
        """Whether there are errors among the diagnostics beyond the first `before`."""
        return len(self.diagnostics) > before and has_errors(self.diagnostics[before:])

    def charge(self, units: int) -> None:
        """Count work done. Raises MemoryError beyond the limit."""
        self.work += units
        if self.work > WORK_LIMIT:
            raise MemoryError

    def charge_result(self, value: Value) -> None:
        """Count what a value takes."""
        raw = value.raw
        if raw.__class__ is str:
            if len(raw) > _CHARACTERS_PER_UNIT:
                self.charge(len(raw) // _CHARACTERS_PER_UNIT)
        elif raw.__class__ is tuple or raw.__class__ is dict:
            self.charge(len(raw))
            bounded(value)

    def problem(
        self,
        kind: str,
        detail: str,
        at: Expression | Span,
        whole: Expression | None = None,
        **more: Any,
    ) -> Value:
        """Keep an error about an expression and give the unknown that stands for its value.

        `at` is the offending part, `whole` the expression to show around it, whose references are
        noted with their values.
        """
        subject = at if isinstance(at, Span) else at.span
        around = whole if whole is not None else at
        notes = () if isinstance(around, Span) or self._noting else value_notes(around, self._note_value)
        context = whole.span if whole is not None and whole.span != subject else None
        self.diagnostics.append(error(kind, detail, subject, context=context, values=notes, **more))
        return DYNAMIC_UNKNOWN

    def notes(self, around: Expression) -> tuple[ValueNote, ...]:
        """The references of an expression with their values."""
        return value_notes(around, self._note_value)

    def _note_value(self, traversal: Traversal) -> tuple[str, Value] | None:
        # The value of a reference, or of as much of it as there is.
        self._noting = True
        try:
            for count in range(len(traversal.steps), -1, -1):
                part = replace(traversal, steps=traversal.steps[:count])
                value, diagnostics = self.attempt(part)
                if not has_errors(diagnostics):
                    return traversal_text(part), value
        finally:
            self._noting = False
        return None

    @contextmanager
    def local_names(self) -> Iterator[dict[str, Value]]:
        """Names that hold for a while, over those that are there already."""
        before = self.names
        self.names = dict(before)
        try:
            yield self.names
        finally:
            self.names = before

    def traverse(self, traversal: Traversal) -> Value:
        """The value that a traversal leads to."""
        name = traversal.root.name
        if self.names and name in self.names:
            return self.follow(self.names[name], traversal.steps, traversal)
        value, consumed, diagnostics = self.scope.lookup(traversal)
        if diagnostics:
            self.diagnostics.extend(diagnostics)
            if has_errors(diagnostics):
                return DYNAMIC_UNKNOWN
        if consumed == len(traversal.steps):
            return value
        return self.follow(value, traversal.steps[consumed:], traversal)

    def follow(self, value: Value, steps: tuple[Step, ...], whole: Expression) -> Value:
        """The value that literal steps into a value lead to."""
        for step in steps:
            outcome = step_into(value, step)
            if isinstance(outcome, Problem):
                return self.problem(outcome.id, outcome.detail, step.span, whole)
            value = outcome
        return value


class Trace:
    """What an expression came to while another was evaluated, and those that it was made of.

    In a loop an expression comes as often as it was evaluated, up to TRACED times; `omitted` counts the rest.
    `failed`: it is in error, so that its value says nothing; `problem` is the summary of the error where it
    is its own and not that of a part.
    """

    __slots__ = ("expression", "failed", "omitted", "parts", "problem", "value")

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.value: Value = DYNAMIC_UNKNOWN
        self.parts: list[Trace] = []
        self.omitted = 0
        self.failed = False
        self.problem = ""


TRACED: Final = 20


class Tracing(ExpressionRun):
    """An evaluation that keeps what every part came to."""

    __slots__ = ("at",)

    def __init__(self, scope: Scope, handlers: Mapping[type, Handler], whole: Expression) -> None:
        super().__init__(scope, handlers)
        self.at = Trace(whole)

    def value(self, expression: Expression) -> Value:
        """As in any evaluation."""
        around, trace = self.at, Trace(expression)
        if self._noting:
            pass
        elif len(around.parts) < TRACED:
            around.parts.append(trace)
        else:
            around.omitted += 1
        self.at = trace
        diagnostics, before = self.diagnostics, len(self.diagnostics)
        try:
            trace.value = super().value(expression)
        finally:
            self.at = around
        errors = [d for d in diagnostics[before:] if d.severity is Severity.ERROR]
        trace.failed = bool(errors)
        if errors and not any(part.failed for part in trace.parts):
            trace.problem = errors[0].summary
        return trace.value


def step_into(value: Value, step: Step) -> Value | Problem:
    """One literal step into a value; a legacy `.0` is an index."""
    if isinstance(step, TraverseAttribute):
        name = step.name
        if name[0].isdigit() and name.isdecimal():
            return index(value, Value(NUMBER, int(name)))
        return attribute(value, name)
    key = step.key
    if isinstance(key, str):
        return index(value, Value(STRING, key))
    return index(value, Value(NUMBER, key if isinstance(key, int) else number_from_decimal(key)))


UNKNOWN_STRING: Final = Value(STRING, UNKNOWN)


class FileProblem(Exception):
    """A file that cannot be read or made; the message is for the user."""


class NoDirectory(FileProblem):
    """That there is no such directory."""


class Files(Protocol):
    """Bounded reads of regular files (never a device or a pipe). Paths are relative to the
    directory where the command runs unless absolute. Every method may raise FileProblem.
    """

    def read(self, path: str) -> bytes:
        """The whole content; refused above the size cap."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a regular file stands there."""
        ...

    def glob(self, base: str, pattern: str) -> list[str]:
        """Regular files below `base` matching the pattern (`*`, `**`, `?`, `[]`, `{}`), as
        sorted slash-separated paths relative to `base`. Raises NoDirectory.
        """
        ...

    def absolute(self, path: str) -> str:
        """The absolute, cleaned form of a path."""
        ...

    def expand_home(self, path: str) -> str:
        """`~` at the start replaced by the home directory."""
        ...


class Clock(Protocol):
    """Time: the only source of it."""

    def now(self) -> datetime:
        """The current time, UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
