"""State of one evaluation: scope, diagnostics, amount of work, and its ports.

The module also has access to parts of values, `.name` and `[key]`, with messages for errors.

The ports (files to read, and the time) are declared here, because file() and timestamp() need
them and language is below ports, which exports them too. Implementations are in workflow; tests
pass their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Problem,
    Span,
    ValueNote,
    build_error,
    has_errors,
    select_errors,
    suggest_name,
)
from nexusform.diagnostics.phrases import select_word_form
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.syntax.syntax_nodes import Expression, Step, Traversal, TraverseAttribute
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import (
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
    describe_type,
)
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, UNKNOWN, Value, convert_decimal

# Limits on what one expression may produce: elements of collections and pieces of text. They are
# far above real use, and low enough that nested `for` expressions end with an error message.
MAX_WORK: Final = 2_000_000
# Limit on the size of one value. Its parts may be shared, so a few lines of local values could
# otherwise exceed the memory when the value is written or compared.
MAX_SIZE: Final = 4_000_000
# Work of a function call besides its result.
CALL_UNITS: Final = 2
_CHARACTERS_PER_UNIT: Final = 32
# About the whole value: the path is ().
_build_problem: Final = partial(Problem, ())
MAX_TRACES: Final = 20
UNKNOWN_STRING: Final = Value(STRING, UNKNOWN)
_NO_ELEMENT: Final = "The given key does not identify an element in this collection value"


class Requirement(Struct, frozen=True):
    """Type required of a part of an expression, and the errors about other values.

    The first error is about null, the second about a value of another type. The sentence of the
    second error is `lead`, the reason and a full stop.
    """

    type: PrimitiveType
    null_id: str
    null_detail: str
    type_id: str
    lead: str


class Scope(Protocol):
    """Scope of an expression: the values of its names and its functions."""

    @property
    def functions(self) -> Mapping[str, Any]:
        """Functions of the scope by name, as `Function` objects of functions/function.py."""

    def lookup(self, traversal: Traversal) -> tuple[Value, int, Sequence[Diagnostic]]:
        """Return the value of a reference such as `a.b.c`, the applied steps, and the problems.

        The applied steps are the number of its steps already applied (of `.b` and `.c`). The caller
        applies the other steps. The value is unknown after an error.
        """


def check_value_size(value: Value) -> Value:
    """Return the value itself.

    Raises MemoryError if it is larger than MAX_SIZE.
    """
    if value.size > MAX_SIZE:
        raise MemoryError
    return value


Handler: TypeAlias = Callable[[Any, "ExpressionRun"], Value]


class ExpressionRun:
    """One run of `evaluate_expression`: each expression goes to the handler of its class."""

    __slots__ = (
        "_handlers",
        "_is_building_notes",
        "diagnostics",
        "element",
        "names",
        "scope",
        "work",
    )

    def __init__(self, scope: Scope, handlers: Mapping[type, Handler]) -> None:
        """Start without diagnostics and loop variables.

        `handlers` evaluate expressions by their class.
        """
        self.scope = scope
        self.diagnostics: list[Diagnostic] = []
        # Variables of the enclosing loops.
        self.names: dict[str, Value] = {}
        # Of the enclosing splat: an `x` of `list[*]`.
        self.element: Value = DYNAMIC_UNKNOWN
        # Units so far, up to MAX_WORK.
        self.work = 0
        # By class of expression.
        self._handlers = handlers
        # True while references are evaluated for the notes of an error message.
        self._is_building_notes = False

    def evaluate(self, expression: Expression) -> Value:
        """Evaluate an expression.

        After an error the value is unknown, and a diagnostic is added.
        """
        return self._handlers[expression.__class__](expression, self)

    def evaluate_separately(self, expression: Expression) -> tuple[Value, list[Diagnostic]]:
        """Evaluate an expression.

        Return its value and its diagnostics, without adding them to those of the run.
        """
        return self.run_separately(self.evaluate, expression)

    def run_separately(
        self, work: Callable[..., Value], *arguments: Any
    ) -> tuple[Value, list[Diagnostic]]:
        """Call `work`.

        Return its value and its diagnostics, without adding them to those of the run.
        """
        outer_diagnostics = self.diagnostics
        self.diagnostics = []
        try:
            value = work(*arguments)
            return value, self.diagnostics
        finally:
            self.diagnostics = outer_diagnostics

    def has_failed_since(self, count: int) -> bool:
        """Check for errors among the diagnostics beyond the first `count`."""
        return len(self.diagnostics) > count and has_errors(self.diagnostics[count:])

    def count_work(self, units: int) -> None:
        """Count units of work, such as elements.

        Raises MemoryError beyond MAX_WORK.
        """
        self.work += units
        if self.work > MAX_WORK:
            raise MemoryError

    def count_result(self, value: Value) -> None:
        """Count the size of a value as work (0 for short text, numbers, bools).

        Raises MemoryError beyond MAX_WORK.
        """
        raw = value.raw
        if raw.__class__ is str:
            if len(raw) > _CHARACTERS_PER_UNIT:
                self.count_work(len(raw) // _CHARACTERS_PER_UNIT)
        elif raw.__class__ is tuple or raw.__class__ is dict:
            self.count_work(len(raw))
            check_value_size(value)

    def report_problem(
        self,
        diagnostic_id: str,
        detail: str,
        node: Expression | Span,
        enclosing: Expression | None = None,
        **details: Any,
    ) -> Value:
        """Add an error about an expression, and return the unknown value in its place.

        `node` is the offending part, `enclosing` the expression to display around it. The
        references of the displayed expression are listed with their values. `details` are further
        fields of the error.
        """
        subject = node if isinstance(node, Span) else node.span
        displayed = enclosing if enclosing is not None else node
        # The notes are the references and values. Problems while building notes are discarded, and
        # need no notes.
        notes = (
            ()
            if isinstance(displayed, Span) or self._is_building_notes
            else self.build_notes(displayed)
        )
        context = enclosing.span if enclosing is not None and enclosing.span != subject else None
        self.diagnostics.append(
            build_error(diagnostic_id, detail, subject, context=context, values=notes, **details)
        )
        return DYNAMIC_UNKNOWN

    def convert_to_required(
        self, value: Value, requirement: Requirement, node: Expression, enclosing: Expression
    ) -> Value | None:
        """Convert the value of a part (`node`) to its required type.

        Report null or a wrong type, and return None.
        """
        if value.raw is None:
            self.report_problem(requirement.null_id, requirement.null_detail, node, enclosing)
            return None
        try:
            return convert_value(value, requirement.type)
        except ConversionProblem as problem:
            detail = f"{requirement.lead} {describe_problem(problem)}."
            self.report_problem(requirement.type_id, detail, node, enclosing)
            return None

    def build_notes(self, expression: Expression) -> tuple[ValueNote, ...]:
        """Build the notes of an expression: its references with their values."""
        from nexusform.language.value_descriptions import build_value_notes

        return build_value_notes(expression, self._evaluate_note_reference)

    def _evaluate_note_reference(self, traversal: Traversal) -> tuple[str, Value] | None:
        """Return the text and value of a reference, or of its longest valid part.

        Return None if even the name is invalid.
        """
        from nexusform.language.value_descriptions import format_traversal

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
        """Return the value at a traversal.

        It starts at a variable of an enclosing `for`, else in the scope.
        """
        name = traversal.root.name
        if self.names and name in self.names:
            return self.apply_steps(self.names[name], traversal.steps, traversal)
        # consumed: the number of steps used.
        value, consumed, diagnostics = self.scope.lookup(traversal)
        if diagnostics:
            self.diagnostics.extend(diagnostics)
            if has_errors(diagnostics):
                return DYNAMIC_UNKNOWN
        if consumed == len(traversal.steps):
            return value
        return self.apply_steps(value, traversal.steps[consumed:], traversal)

    def apply_steps(self, value: Value, steps: tuple[Step, ...], enclosing: Expression) -> Value:
        """Return the part of a value at literal steps.

        If it has none, report an error and return an unknown value.
        """
        for step in steps:
            outcome = apply_traversal_step(value, step)
            if isinstance(outcome, Problem):
                return self.report_problem(outcome.id, outcome.detail, step.span, enclosing)
            value = outcome
        return value


class EvaluationTrace:
    """Value of an expression, and the traces of its parts.

    In a loop an expression occurs once per evaluation, up to MAX_TRACES times; `omitted` counts the
    rest. With `has_failed` the expression has an error, so its value is meaningless. `problem` is
    the summary of the error if it is its own and not that of a part.
    """

    __slots__ = ("expression", "has_failed", "omitted", "parts", "problem", "value")

    def __init__(self, expression: Expression) -> None:
        """Start a trace without parts; the value is unknown until it is evaluated."""
        self.expression = expression
        self.value: Value = DYNAMIC_UNKNOWN
        # Of the expressions evaluated for this one, up to MAX_TRACES.
        self.parts: list[EvaluationTrace] = []
        # Number of further parts, beyond MAX_TRACES.
        self.omitted = 0
        self.has_failed = False
        # Summary of its first error, unless the error is that of a part.
        self.problem = ""


class TracingEvaluator(ExpressionRun):
    """Run that records the value of every part."""

    __slots__ = ("current",)

    def __init__(
        self, scope: Scope, handlers: Mapping[type, Handler], root_expression: Expression
    ) -> None:
        """Begin with an outermost trace.

        The traces of evaluated expressions become its parts.
        """
        super().__init__(scope, handlers)
        self.current = EvaluationTrace(root_expression)

    def evaluate(self, expression: Expression) -> Value:
        """Evaluate as in any run, and record the result in a part of the trace.

        The trace is that of the enclosing expression; the result is the value and the errors.
        """
        enclosing = self.current
        trace = EvaluationTrace(expression)
        # A value for a message is no part of the expression.
        if not self._is_building_notes:
            if len(enclosing.parts) < MAX_TRACES:
                enclosing.parts.append(trace)
            else:
                enclosing.omitted += 1
        self.current = trace
        diagnostics = self.diagnostics
        previous_count = len(self.diagnostics)
        try:
            trace.value = super().evaluate(expression)
        finally:
            self.current = enclosing
        errors = select_errors(diagnostics[previous_count:])
        trace.has_failed = bool(errors)
        # The error is not that of a part.
        if errors and not any(part.has_failed for part in trace.parts):
            trace.problem = errors[0].summary
        return trace.value


def apply_traversal_step(value: Value, step: Step) -> Value | Problem:
    """Return the part of a value at one literal step, or a problem if it has none.

    A legacy `.0` is an index.
    """
    if isinstance(step, TraverseAttribute):
        name = step.name
        if name.isdecimal():
            return get_element(value, Value(NUMBER, int(name)))
        return get_attribute(value, name)
    key = step.key
    if isinstance(key, str):
        return get_element(value, Value(STRING, key))
    return get_element(value, Value(NUMBER, key if isinstance(key, int) else convert_decimal(key)))


class FileProblem(Exception):
    """File that cannot be read or created; the message is for the user."""


class MissingDirectory(FileProblem):
    """Missing directory."""


class Files(Protocol):
    """Bounded reads of regular files (never a device or a pipe).

    Paths are relative to the current directory of the command unless absolute. Every method
    may raise FileProblem.
    """

    def read(self, path: str) -> bytes:
        """Read the whole content of a file.

        Raises FileProblem, also for a file above the size limit.
        """

    def is_file(self, path: str) -> bool:
        """Check whether a regular file exists at the path."""

    def find_files(self, base: str, pattern: str) -> list[str]:
        """Find regular files below `base` that match the pattern (`*`, `**`, `?`, `[]`, `{}`).

        Returns sorted slash-separated paths relative to `base`. Raises MissingDirectory.
        """

    def resolve_path(self, path: str) -> str:
        """Return the absolute, cleaned form of a path."""

    def expand_home(self, path: str) -> str:
        """Replace `~` at the start by the home directory."""


class Clock(Protocol):
    """Only source of time."""

    def read_time(self) -> datetime:
        """Return the current time, UTC."""

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""


def get_attribute(value: Value, name: str) -> Value | Problem:
    """Return `value.name`, or the problem.

    The attribute of an unknown value is unknown, with its type if known.
    """
    raw = value.raw
    if raw.__class__ is dict:
        member: Value | None = raw.get(name)
        if member is not None:
            return member.add_marks(value.marks) if value.marks else member
    value_type = value.type
    if raw is None:
        detail = (
            f'This value is null, so it does not have any attributes; "{name}" cannot be read '
            "from it."
        )
        return _build_problem("attempt-to-get-attribute-from-null-value", detail)
    if value_type is DYNAMIC:
        return DYNAMIC_UNKNOWN.add_marks(value.marks)
    if isinstance(value_type, ObjectType):
        attribute_type = value_type.get_attribute(name)
        if attribute_type is not None:
            # The object is unknown.
            return Value(attribute_type, UNKNOWN, value.marks)
        # Messages do not reveal sensitive names.
        names = () if value.marks else value_type.names
        hint = suggest_name(name, names) or _format_quoted_name_list("Its attributes are", names)
        return _build_problem(
            "unsupported-attribute", f'This object does not have an attribute named "{name}".{hint}'
        )
    if isinstance(value_type, MapType):
        if raw is UNKNOWN:
            return Value(value_type.element, UNKNOWN, value.marks)
        hint = "" if value.marks else suggest_name(name, raw)
        return _build_problem(
            "missing-map-element", f'This map does not have an element with the key "{name}".{hint}'
        )
    return _build_problem(
        "unsupported-attribute", _describe_unsupported_attribute_access(value_type, name)
    )


def _describe_unsupported_attribute_access(value_type: Type, name: str) -> str:
    """Return why values of a type, neither map nor object, have no attribute of this name."""
    if isinstance(value_type, PrimitiveType):
        return f"Can't access attributes on a primitive-typed value ({value_type.name})."
    kind = {ListType: "list", SetType: "set", TupleType: "tuple"}[value_type.__class__]
    element = value_type.element if isinstance(value_type, (ListType, SetType)) else None
    if isinstance(element, ObjectType) and isinstance(value_type, SetType):
        question = (
            "Did you mean to access an attribute across all elements of it, as in value[*].name?"
        )
        return f"Can't access attributes on a set of objects. {question}"
    if isinstance(element, ObjectType) or isinstance(value_type, TupleType):
        return (
            f'Can\'t access attribute "{name}" on a {kind}. Did you mean to access it for a '
            "specific "
            f"element of the {kind}, as in value[0].{name}, or across all elements, as in "
            f"value[*].{name}?"
        )
    return "This value does not have any attributes."


def _format_quoted_name_list(lead: str, names: Sequence[str]) -> str:
    """Return ` LEAD "a", "b" and more.` with up to a dozen names; "" without names."""
    if not names:
        return ""
    listed_names = ", ".join(f'"{n}"' for n in names[:12])
    return f" {lead} {listed_names}{' and more' if len(names) > 12 else ''}."


def get_element(value: Value, key: Value) -> Value | Problem:
    """Return `value[key]`, or the problem.

    The element of an unknown value is unknown, with its type if known.
    """
    marks = value.marks | key.marks
    if value.raw is None:
        return _build_problem(
            "attempt-to-index-null-value", "This value is null, so it does not have any indices."
        )
    if key.raw is None:
        return _build_problem("invalid-index", "Can't use a null value as an indexing key.")
    if value.type is DYNAMIC:
        # Of unknown value and type.
        return DYNAMIC_UNKNOWN.add_marks(marks)
    value_type = value.type
    if isinstance(value_type, (ListType, TupleType)):
        outcome = _get_sequence_element(value, key)
    elif isinstance(value_type, (MapType, ObjectType)):
        outcome = _get_map_entry(value, key)
    elif isinstance(value_type, SetType):
        outcome = _build_problem(
            "invalid-index",
            "Elements of a set are identified only by their value and don't have any separate "
            "index or key "
            "to select with, so it's only possible to perform operations across all elements of "
            "the set.",
        )
    else:
        outcome = _build_problem("invalid-index", "This value does not have any indices.")
    return outcome if isinstance(outcome, Problem) else outcome.add_marks(marks)


def _get_sequence_element(value: Value, key: Value) -> Value | Problem:
    """Return the element of a list or tuple at a position, or the problem.

    Unknown if either is unknown. The length of a tuple, and the types of its elements, are known
    from its type even if its value is unknown.
    """
    value_type = value.type
    try:
        position = convert_value(key, NUMBER).raw
    except ConversionProblem as problem:
        return _build_problem("invalid-index", f"{_NO_ELEMENT}: {problem.message}.")
    if position is UNKNOWN:
        return (
            Value(value_type.element, UNKNOWN)
            if isinstance(value_type, ListType)
            else DYNAMIC_UNKNOWN
        )
    if not isinstance(position, int):
        reason = (
            "indexing a sequence requires a whole number, but the given index has a fractional part"
        )
        return _build_problem("invalid-index", f"{_NO_ELEMENT}: {reason}.")
    if position < 0:
        reason = "a negative number is not a valid index for a sequence"
        return _build_problem("invalid-index", f"{_NO_ELEMENT}: {reason}.")
    if isinstance(value_type, ListType) and value.raw is UNKNOWN:
        return Value(value_type.element, UNKNOWN)
    # Known for any tuple.
    length = len(value_type.elements) if isinstance(value_type, TupleType) else len(value.raw)
    if position >= length:
        is_sensitive = bool(key.marks or value.marks)
        reason = (
            "the index is past the end of the collection"
            if is_sensitive
            else _describe_range(position, length)
        )
        return _build_problem("invalid-index", f"{_NO_ELEMENT}: {reason}.")
    if value.raw is UNKNOWN:
        assert isinstance(value_type, TupleType)
        return Value(value_type.elements[position], UNKNOWN)
    element: Value = value.raw[position]
    return element


def _describe_range(position: int, length: int) -> str:
    """Explain why a collection of this length has no element at a position."""
    if length == 0:
        return "the collection has no elements"
    last = "only the index 0 exists" if length == 1 else f"the indices are 0 to {length - 1}"
    elements = select_word_form(length, "element")
    return f"the index {position} is past the end of a collection of {length} {elements} ({last})"


def _get_map_entry(value: Value, key: Value) -> Value | Problem:
    """Return the entry of a map or object at a key (unknown if either is unknown), or the problem.

    The keys of an object are known from its type even if its value is unknown; those of a
    map are not.
    """
    value_type = value.type
    try:
        name = convert_value(key, STRING).raw
    except ConversionProblem as problem:
        return _build_problem("invalid-index", f"{_NO_ELEMENT}: {problem.message}.")
    if isinstance(value_type, MapType) and (value.raw is UNKNOWN or name is UNKNOWN):
        return Value(value_type.element, UNKNOWN)
    if name is UNKNOWN:
        return DYNAMIC_UNKNOWN
    # The type of an object has its keys.
    if value.raw is UNKNOWN:
        assert isinstance(value_type, ObjectType)
        attribute_type = value_type.get_attribute(name)
        if attribute_type is not None:
            return Value(attribute_type, UNKNOWN)
        names = value_type.names
    elif name in value.raw:
        entry: Value = value.raw[name]
        return entry
    else:
        names = tuple(value.raw)
    displayed_key = '"(sensitive)"' if key.marks else f'"{name}"'
    is_sensitive = bool(key.marks or value.marks)
    hint = (
        ""
        if is_sensitive
        else suggest_name(name, names) or _format_quoted_name_list("Its keys are", names)
    )
    detail = (
        f"{_NO_ELEMENT}: there is no {displayed_key} in this {describe_type(value_type)}.{hint}"
    )
    return _build_problem("invalid-index", detail)


class TracedExpression(Struct, frozen=True):
    """One part of an expression.

    `text` is its source, and `span` its position (None: in the evaluated expression itself).
    `reasons` explain why its value is sensitive, unknown or an error. With `has_failed` it has
    no value. `parts` are its own parts, and `omitted` counts omitted iterations of a loop.
    With `is_hidden` its value would reveal a sensitive one. With `is_repeated` its parts are
    already listed above.
    """

    text: str
    value: Value
    span: Span | None = None
    reasons: tuple[str, ...] = ()
    parts: tuple[TracedExpression, ...] = ()
    omitted: int = 0
    is_hidden: bool = False
    is_repeated: bool = False
    has_failed: bool = False
