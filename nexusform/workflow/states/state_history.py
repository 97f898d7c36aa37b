"""Earlier versions of a state in the backend, and rollback."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Severity,
    SourceFile,
    build_error,
    build_warning,
    has_errors,
)
from nexusform.interfaces.state_storage import BackendProblem, StateBackend, VersionedBackend
from nexusform.schemas.block_schema import BlockSchema
from nexusform.state import state_codec
from nexusform.state.objects import State
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored_state import load_schemas, read_stored_state
from nexusform.workflow.states.state_commands import StateChange


class StateVersion(Struct, frozen=True):
    """One version of a state: `timestamp` as reported by the backend ("" for the current one)."""

    serial: int
    timestamp: str
    state: State


class StateHistory(Struct, frozen=True):
    """The current state and earlier ones, newest first."""

    versions: tuple[StateVersion, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = {}


def read_history(context: CommandContext, *, checks_objects: bool = False) -> StateHistory:
    """Read every version of the selected workspace's state in its backend.

    An empty state has no current version. With `checks_objects`, earlier versions that no plan
    would read are unreadable, too.
    """
    backend, diagnostics, sources = find_backend(context)
    if backend is None:
        return StateHistory(versions=(), diagnostics=tuple(diagnostics), sources=sources)
    stored, problems = read_stored_state(backend, checks_objects=False)
    diagnostics += problems
    if stored is None:
        return StateHistory(versions=(), diagnostics=tuple(diagnostics), sources=sources)
    versions = (
        [StateVersion(stored.state.serial, timestamp="", state=stored.state)]
        if stored.state.lineage
        else []
    )
    schemas = load_schemas() if checks_objects else None
    earlier, problems = list_earlier_versions(backend, schemas)
    return StateHistory((*versions, *earlier), (*diagnostics, *problems), sources)


def list_earlier_versions(
    backend: StateBackend, schemas: Mapping[str, BlockSchema] | None = None
) -> tuple[list[StateVersion], list[Diagnostic]]:
    """Return the readable versions before the current one, newest first.

    Each unreadable one is a warning: it may be encrypted with a key that is no longer configured.
    If the backend keeps none, a warning is returned, too.
    """
    if not isinstance(backend, VersionedBackend):
        return [], [
            build_warning("no-state-history", f"{backend.describe()} has no version history.")
        ]
    versions: list[StateVersion] = []
    diagnostics: list[Diagnostic] = []
    try:
        stored_versions = backend.list_versions()
    except BackendProblem as problem:
        return [], [build_error("unreadable-state", str(problem))]
    for stored_version in stored_versions:
        try:
            document = backend.read_version(stored_version.id)
        except BackendProblem as problem:
            diagnostics.append(build_warning("unreadable-version", str(problem)))
            continue
        state, problems = state_codec.decode_state(
            document,
            f"{backend.describe()}, version {stored_version.id}",
            schemas,
            "It is left out of the history.",
        )
        diagnostics += [replace(problem, severity=Severity.WARNING) for problem in problems]
        if state is not None:
            versions.append(StateVersion(state.serial, stored_version.written_at, state))
    return versions, diagnostics


def create_rollback_change(
    context: CommandContext, serial: int
) -> tuple[StateChange | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """Create the change to restore the version with this serial; None with errors.

    Also return the files read.
    """
    history = read_history(context, checks_objects=True)
    if has_errors(history.diagnostics):
        return None, list(history.diagnostics), history.sources
    version = next(
        (candidate for candidate in history.versions if candidate.serial == serial), None
    )
    if version is None:
        serials = ", ".join(str(candidate.serial) for candidate in history.versions) or "none"
        # Another version may have it, but is unreadable.
        rejection = "No readable version has" if history.diagnostics else "There is no version with"
        problem = build_error(
            "no-such-version", f"{rejection} serial {serial}. Available: {serials}."
        )
        return None, [*history.diagnostics, problem], history.sources

    def change(current_state: State) -> tuple[State | None, list[Diagnostic]]:
        if current_state.lineage and current_state.lineage != version.state.lineage:
            detail = f"Serial {serial} belongs to another state (lineage {version.state.lineage})."
            return None, [build_error("no-such-version", detail)]
        # Creation numbers are never reused, regardless of the older state.
        last_creation = max(current_state.last_creation, version.state.last_creation)
        new_serial = max(current_state.serial, version.state.serial) + 1
        return replace(version.state, serial=new_serial, last_creation=last_creation), []

    return change, list(history.diagnostics), history.sources
