"""What a plan stands on that lies elsewhere: states of other configurations, read as they are at this moment
and without their locks, and what servers answer. Each is asked once in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from nexusform.backends.backend_kind import Directories
from nexusform.backends.registry import BACKENDS
from nexusform.configuration.declared.configuration import Settings
from nexusform.diagnostics import Diagnostic, Problem, did_you_mean, has_errors
from nexusform.exact_numbers import number_text
from nexusform.planning.names.setting import key_of_question
from nexusform.ports import Question, StateQuery
from nexusform.schema import Attribute
from nexusform.state.objects import State
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.value_types import BOOL
from nexusform.workflow.opening.backend_choice import refusal_of_settings
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.stored import read_stored

Answer = tuple[State | None, list[Problem]]


class RemoteStates(Struct, frozen=True):
    """Reads each state once: whatever a run plans again is planned from the same.

    `settings` are those of the configuration that reads: they say how encrypted states are opened. `places`
    are the kinds of backends and where in them the states are that were asked for.
    """

    place: Place
    settings: Settings
    answers: dict[str, Answer] = field(default_factory=dict)
    places: dict[tuple[str, str], None] = field(default_factory=dict)

    def read(self, query: StateQuery) -> Answer:
        """The state that is asked for; None with problems when there is none or it cannot be read."""
        key = repr(query)
        if key not in self.answers:
            self.answers[key] = self._read(query)
        return self.answers[key]

    def _read(self, query: StateQuery) -> Answer:
        """The state that a query asks for; None with problems when it cannot be read."""
        backend, problems = self._backend(query)
        if backend is None:
            return None, problems
        self.places[query.backend, backend.describe()] = None
        stored, diagnostics = read_stored(backend)
        problems += [_explained(diagnostic, query) for diagnostic in diagnostics]
        if stored is None:
            return None, problems
        if not stored.state.lineage:
            return None, [*problems, _missing(backend, query)]
        return stored.state, problems

    def _backend(self, query: StateQuery) -> tuple[StateBackend | None, list[Problem]]:
        """The backend of the workspace, seen through encryption where the configuration says so."""
        settings, problems = _settings(query)
        if settings is None:
            return None, problems
        place = self.place
        refusal = refusal_of_settings(query.backend, settings, place)
        if refusal:
            return None, [Problem(("config",), "remote-address-is-not-allowed", refusal)]
        try:
            largest = place.largest_file(self.settings.limits)
            directories = Directories(place.directory, place.data_directory, place.confinement, largest)
            opened = BACKENDS[query.backend].open(settings, directories)
        except BackendProblem as problem:
            return None, [Problem(("config",), "the-backend-cannot-be-opened", str(problem))]
        from nexusform.workflow.opening.encryption import opened_for_reading

        backend, wrong = opened_for_reading(opened, query.reader, self.settings, place)
        problems += [Problem((), each.id, each.detail, each.severity) for each in wrong]
        if backend is None or has_errors(wrong):
            return None, problems
        try:
            return backend.for_workspace(query.workspace), problems
        except BackendProblem as problem:
            return None, [*problems, Problem(("workspace",), "invalid-workspace", str(problem))]


def _explained(diagnostic: Diagnostic, query: StateQuery) -> Problem:
    """What is wrong with the state that was read, at the block that reads it."""
    detail = diagnostic.detail
    if diagnostic.id == "the-state-is-encrypted":
        detail = (
            "The state is encrypted, and nothing says how this block may open it. Add to the `encryption` "
            "block `remote_state_data_sources`, with a `default` or a "
            f'`remote_state_data_source "{query.reader}"` that names the method it was written with.'
        )
    return Problem((), diagnostic.id, detail, diagnostic.severity)


def _missing(backend: StateBackend, query: StateQuery) -> Problem:
    return Problem(
        (),
        "remote-state-is-missing",
        f'There is no state at {backend.describe()} (workspace "{query.workspace}"). Apply its configuration '
        "first, or mend backend, config or workspace of this block.",
    )


# --- settings ----------------------------------------------------------------------------------


def _settings(query: StateQuery) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The settings of the backend as plain data of their types, None when something is wrong with them."""
    kind = BACKENDS.get(query.backend)
    if kind is None:
        known = ", ".join(BACKENDS)
        near = did_you_mean(query.backend, BACKENDS)
        detail = f'There is no backend "{query.backend}". Known are: {known}.{near}'
        return None, [Problem(("backend",), "unknown-backend", detail)]
    if not isinstance(query.config, Mapping):
        detail = "An object is needed: config = { NAME = VALUE, ... }."
        return None, [Problem(("config",), "invalid-backend-setting", detail)]
    attributes = kind.schema.attributes
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in query.config.items():
        if name not in attributes:
            detail = f'The backend "{query.backend}" has no setting "{name}".{did_you_mean(name, attributes)}'
            problems.append(Problem(("config",), "unknown-backend-setting", detail))
        elif value is not None:
            values[name] = _value(name, value, attributes[name], problems)
    missing = [name for name, each in attributes.items() if each.required and name not in values]
    if missing and not problems:
        problems.append(_lacking(query.backend, missing))
    return (None if problems else values), problems


def _value(name: str, value: Any, attribute: Attribute, problems: list[Problem]) -> Any:
    """One setting as plain data of its type."""
    if attribute.type == BOOL:
        if isinstance(value, bool) or value in ("true", "false"):
            return value in (True, "true")
    elif isinstance(value, str):
        return value
    elif isinstance(value, int | Fraction) and not isinstance(value, bool):
        return number_text(Fraction(value))
    needed = "true or false" if attribute.type == BOOL else "a string"
    problems.append(Problem(("config",), "invalid-backend-setting", f'config: "{name}" must be {needed}.'))
    return None


def _lacking(kind: str, names: Sequence[str]) -> Problem:
    listed = " and ".join(f'"{name}"' for name in names)
    return Problem(("config",), "missing-backend-setting", f'The backend "{kind}" needs {listed} in config.')


# --- servers ---------------------------------------------------------------------------------

# (arguments, whether the run is confined) -> the answer. Raises OutsideProblem.
Reader: TypeAlias = Callable[[Mapping[str, Any], bool], str]


class Servers(Struct, frozen=True):
    """What servers answered: whatever a run plans again is planned from the same. `answers` may begin with
    those that a saved plan was made of.
    """

    place: Place
    answers: dict[str, str] = field(default_factory=dict)

    def ask(self, question: Question) -> str:
        """The answer to a question. Raises OutsideProblem."""
        key = key_of_question(question)
        if key not in self.answers:
            module, _, name = question.reader.partition(":")
            reader = cast("Reader", getattr(import_module(module), name))
            self.answers[key] = reader(question.arguments, bool(self.place.confinement.root))
        return self.answers[key]
