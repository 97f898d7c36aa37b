"""State of one evaluation: scope, diagnostics, amount of work, and its ports.

The ports (files to read, and the time) are declared here, because file() and timestamp() need them and
language is below ports, which exports them too. Implementations are in workflow; tests pass their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity, ValueNote, build_error, has_errors
from nexusform.diagnostics.source import Span
from nexusform.language.operators import get_attribute, get_element
from nexusform.language.syntax.syntax_nodes import Expression, Step, Traversal, TraverseAttribute
from nexusform.schemas.value_types import NUMBER, STRING
from nexusform.values.exact_numbers import convert_decimal
from nexusform.values.value import DYNAMIC_UNKNOWN, UNKNOWN, Value

if TYPE_CHECKING:
    from nexusform.language.functions.function import Function

# Limits on what one expression may produce: elements of collections and pieces of text. They are far above
# real use, and low enough that nested `for` expressions end with an error message.
MAX_WORK: Final = 2_000_000
# Limit on the size of one value. Its parts may be shared, so a few lines of local values could otherwise
# exceed the memory when the value is written or compared.
MAX_SIZE: Final = 4_000_000
CALL_UNITS: Final = 2  # work of a function call besides its result
_CHARACTERS_PER_UNIT: Final = 32


class Scope(Protocol):
    """Scope of an expression: the values of its names and its functions."""

    @property
    def functions(self) -> Mapping[str, Function]:
        """Functions that may be called, by name."""
        ...

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Return the value of the root name, followed by as many further steps as the scope understands.
        Returns the value, the number of steps after the root, and the problems.
        """
        ...


def check_size(value: Value) -> Value:
    """Return the value itself. Raises MemoryError if it is larger than MAX_SIZE."""
    if value.size > MAX_SIZE:
        raise MemoryError
    return value


Handler: TypeAlias = Callable[[Any, "ExpressionRun"], Value]


class ExpressionRun:
    """One run of `evaluate_expression`: evaluates every expression with the handler of its class."""

    __slots__ = ("_handlers", "_is_building_notes", "diagnostics", "element", "names", "scope", "work")

    def __init__(self, scope: Scope, handlers: Mapping[type, Handler]) -> None:
        self.scope = scope
        self.diagnostics: list[Diagnostic] = []
        self.names: dict[str, Value] = {}
        self.element: Value = DYNAMIC_UNKNOWN
        self.work = 0
        self._handlers = handlers
        self._is_building_notes = False

    def evaluate(self, expression: Expression) -> Value:
        """Evaluate an expression; after an error a diagnostic is added and the value is unknown."""
        return self._handlers[expression.__class__](expression, self)

    def evaluate_separately(self, expression: Expression) -> tuple[Value, list[Diagnostic]]:
        """Evaluate an expression, with separate diagnostics."""
        outer_diagnostics, self.diagnostics = self.diagnostics, []
        try:
            value = self.evaluate(expression)
            return value, self.diagnostics
        finally:
            self.diagnostics = outer_diagnostics

    def run_separately(self, work: Callable[[], Value]) -> tuple[Value, list[Diagnostic]]:
        """Run a piece of work as `evaluate_separately`."""
        outer_diagnostics, self.diagnostics = self.diagnostics, []
        try:
            value = work()
            return value, self.diagnostics
        finally:
            self.diagnostics = outer_diagnostics

    def has_failed_since(self, count: int) -> bool:
        """Check for errors among the diagnostics beyond the first `count`."""
        return len(self.diagnostics) > count and has_errors(self.diagnostics[count:])

    def count_work(self, units: int) -> None:
        """Count work done. Raises MemoryError beyond the limit."""
        self.work += units
        if self.work > MAX_WORK:
            raise MemoryError

    def count_result(self, value: Value) -> None:
        """Count the size of a value as work."""
        raw = value.raw
        if raw.__class__ is str:
            if len(raw) > _CHARACTERS_PER_UNIT:
                self.count_work(len(raw) // _CHARACTERS_PER_UNIT)
        elif raw.__class__ is tuple or raw.__class__ is dict:
            self.count_work(len(raw))
            check_size(value)

    def report_problem(
        self,
        diagnostic_id: str,
        detail: str,
        node: Expression | Span,
        enclosing: Expression | None = None,
        **details: Any,
    ) -> Value:
        """Add an error about an expression, and return the unknown value in its place.

        `node` is the offending part, `enclosing` the expression to display around it; its references are
        listed with their values.
        """
        from nexusform.language.value_notes import build_value_notes

        subject = node if isinstance(node, Span) else node.span
        displayed = enclosing if enclosing is not None else node
        notes = (
            ()
            if isinstance(displayed, Span) or self._is_building_notes
            else build_value_notes(displayed, self._evaluate_reference)
        )
        context = enclosing.span if enclosing is not None and enclosing.span != subject else None
        self.diagnostics.append(build_error(diagnostic_id, detail, subject, context=context, values=notes, **details))
        return DYNAMIC_UNKNOWN

    def build_notes(self, expression: Expression) -> tuple[ValueNote, ...]:
        """Build the notes of an expression: its references with their values."""
        from nexusform.language.value_notes import build_value_notes

        return build_value_notes(expression, self._evaluate_reference)

    def _evaluate_reference(self, traversal: Traversal) -> tuple[str, Value] | None:
        # Returns the value of a reference, or of its longest valid part.
        from nexusform.language.value_notes import format_traversal

        self._is_building_notes = True
        try:
            for step_count in range(len(traversal.steps), -1, -1):
                part = replace(traversal, steps=traversal.steps[:step_count])
                value, diagnostics = self.evaluate_separately(part)
                if not has_errors(diagnostics):
                    return format_traversal(part), value
        finally:
            self._is_building_notes = False
        return None

    @contextmanager
    def extend_names(self) -> Iterator[dict[str, Value]]:
        """Add temporary names that hide existing ones."""
        outer_names = self.names
        self.names = dict(outer_names)
        try:
            yield self.names
        finally:
            self.names = outer_names

    def traverse(self, traversal: Traversal) -> Value:
        """Return the value at a traversal."""
        name = traversal.root.name
        if self.names and name in self.names:
            return self.apply_steps(self.names[name], traversal.steps, traversal)
        value, consumed, diagnostics = self.scope.lookup(traversal)
        if diagnostics:
            self.diagnostics.extend(diagnostics)
            if has_errors(diagnostics):
                return DYNAMIC_UNKNOWN
        if consumed == len(traversal.steps):
            return value
        return self.apply_steps(value, traversal.steps[consumed:], traversal)

    def apply_steps(self, value: Value, steps: tuple[Step, ...], enclosing: Expression) -> Value:
        """Return the value at literal steps into a value."""
        for step in steps:
            outcome = apply_step(value, step)
            if isinstance(outcome, Problem):
                return self.report_problem(outcome.id, outcome.detail, step.span, enclosing)
            value = outcome
        return value


class EvaluationTrace:
    """Value of an expression, and the traces of its parts.

    In a loop an expression occurs once per evaluation, up to MAX_TRACES times; `omitted` counts the rest.
    `has_failed`: it has an error, so its value is meaningless; `problem` is the summary of the error if it is
    its own and not that of a part.
    """

    __slots__ = ("expression", "has_failed", "omitted", "parts", "problem", "value")

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.value: Value = DYNAMIC_UNKNOWN
        self.parts: list[EvaluationTrace] = []
        self.omitted = 0
        self.has_failed = False
        self.problem = ""


MAX_TRACES: Final = 20


class TracingRun(ExpressionRun):
    """Run that records the value of every part."""

    __slots__ = ("current",)

    def __init__(self, scope: Scope, handlers: Mapping[type, Handler], root_expression: Expression) -> None:
        super().__init__(scope, handlers)
        self.current = EvaluationTrace(root_expression)

    def evaluate(self, expression: Expression) -> Value:
        """Evaluate as in any run, and record the trace."""
        outer, trace = self.current, EvaluationTrace(expression)
        if self._is_building_notes:
            pass
        elif len(outer.parts) < MAX_TRACES:
            outer.parts.append(trace)
        else:
            outer.omitted += 1
        self.current = trace
        diagnostics, previous_count = self.diagnostics, len(self.diagnostics)
        try:
            trace.value = super().evaluate(expression)
        finally:
            self.current = outer
        errors = [diagnostic for diagnostic in diagnostics[previous_count:] if diagnostic.severity is Severity.ERROR]
        trace.has_failed = bool(errors)
        if errors and not any(part.has_failed for part in trace.parts):
            trace.problem = errors[0].summary
        return trace.value


def apply_step(value: Value, step: Step) -> Value | Problem:
    """Apply one literal step to a value; a legacy `.0` is an index."""
    if isinstance(step, TraverseAttribute):
        name = step.name
        if name[0].isdigit() and name.isdecimal():
            return get_element(value, Value(NUMBER, int(name)))
        return get_attribute(value, name)
    key = step.key
    if isinstance(key, str):
        return get_element(value, Value(STRING, key))
    return get_element(value, Value(NUMBER, key if isinstance(key, int) else convert_decimal(key)))


UNKNOWN_STRING: Final = Value(STRING, UNKNOWN)


class FileProblem(Exception):
    """File that cannot be read or created; the message is for the user."""


class MissingDirectory(FileProblem):
    """Missing directory."""


class Files(Protocol):
    """Bounded reads of regular files (never a device or a pipe).

    Paths are relative to the current directory of the command unless absolute. Every method may raise
    FileProblem.
    """

    def read(self, path: str) -> bytes:
        """Read the whole content; rejected above the size limit."""
        ...

    def is_file(self, path: str) -> bool:
        """Check whether a regular file exists at the path."""
        ...

    def find_files(self, base: str, pattern: str) -> list[str]:
        """Find regular files below `base` that match the pattern (`*`, `**`, `?`, `[]`, `{}`).

        Returns sorted slash-separated paths relative to `base`. Raises MissingDirectory.
        """
        ...

    def resolve_path(self, path: str) -> str:
        """Return the absolute, cleaned form of a path."""
        ...

    def expand_home(self, path: str) -> str:
        """Replace `~` at the start by the home directory."""
        ...


class Clock(Protocol):
    """Only source of time."""

    def read_time(self) -> datetime:
        """Return the current time, UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
