"""Earlier versions of a state: what the backend keeps, and going back to one."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Severity, error, has_errors, warning
from nexusform.source import SourceFile
from nexusform.state import codec
from nexusform.state.objects import State
from nexusform.state_ports import BackendProblem, KeepsHistory, StateBackend
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.states.state_commands import StateChange


class Version(Struct, frozen=True):
    """One version of a state: `written` as the backend says it ("" for the current one)."""

    serial: int
    written: str
    state: State


class History(Struct, frozen=True):
    """The current state and the earlier ones, newest first."""

    versions: tuple[Version, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = {}


def read_history(place: Place) -> History:
    """Every version of the selected workspace's state that its backend keeps."""
    backend, diagnostics, sources = find_backend(place)
    if backend is None:
        return History((), tuple(diagnostics), sources)
    stored, problems = read_stored(backend, closely=False)
    diagnostics += problems
    if stored is None:
        return History((), tuple(diagnostics), sources)
    versions = [Version(stored.state.serial, "", stored.state)] if stored.state.lineage else []
    earlier, problems = earlier_versions(backend)
    return History((*versions, *earlier), (*diagnostics, *problems), sources)


def earlier_versions(backend: StateBackend) -> tuple[list[Version], list[Diagnostic]]:
    """The versions before the current one, newest first, where the backend keeps them."""
    if not isinstance(backend, KeepsHistory):
        detail = f"{backend.describe()} keeps no earlier versions that nexusform could list."
        return [], [warning("no-history-is-kept", detail)]
    versions: list[Version] = []
    diagnostics: list[Diagnostic] = []
    try:
        for kept in backend.history():
            document = backend.read_version(kept.id)
            state, problems = codec.decode(document, f"{backend.describe()}, version {kept.id}")
            diagnostics += [replace(problem, severity=Severity.WARNING) for problem in problems]
            if state is not None:
                versions.append(Version(state.serial, kept.written, state))
    except BackendProblem as problem:
        diagnostics.append(error("the-state-cannot-be-read", str(problem)))
    return versions, diagnostics


def rollback(
    place: Place, serial: int
) -> tuple[StateChange | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """The change that makes the version with this serial the state again; None with the reasons."""
    history = read_history(place)
    if has_errors(history.diagnostics):
        return None, list(history.diagnostics), history.sources
    version = next((each for each in history.versions if each.serial == serial), None)
    if version is None:
        serials = ", ".join(str(each.serial) for each in history.versions) or "none"
        problem = error("no-such-version", f"No version with serial {serial} is kept. Kept are: {serials}.")
        return None, [*history.diagnostics, problem], history.sources

    def change(standing: State) -> tuple[State | None, list[Diagnostic]]:
        if standing.lineage and standing.lineage != version.state.lineage:
            detail = f"Serial {serial} belongs to another state (lineage {version.state.lineage})."
            return None, [error("no-such-version", detail)]
        # A creation number is never given twice, whatever the older state knows of.
        newest = max(standing.last_creation, version.state.last_creation)
        serial_now = max(standing.serial, version.state.serial) + 1
        return replace(version.state, serial=serial_now, last_creation=newest), []

    return change, list(history.diagnostics), history.sources
