"""Several states of one configuration: list, make, select, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

import nexusform
from nexusform.address import address_order
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors, warning
from nexusform.regular_files import write_whole
from nexusform.source import SourceFile
from nexusform.state import codec
from nexusform.state.objects import EMPTY, State
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.workflow.opening.place import DEFAULT_WORKSPACE, Place, selection_file
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.runs.locking import Locking, acquire
from nexusform.workflow.states.state_commands import Session

OVERRIDE = "NF_WORKSPACE"


class Workspaces(Struct, frozen=True):
    """What a command on workspaces gave; `names` are those that exist, empty on errors."""

    names: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


def list_workspaces(place: Place) -> Workspaces:
    """The names of all workspaces, the default one first."""
    backend, problems, sources = _backend(place)
    if backend is None:
        return Workspaces((), tuple(problems), sources)
    try:
        names = tuple(backend.workspaces())
    except BackendProblem as problem:
        return Workspaces((), (*problems, _refused(problem)), sources)
    return Workspaces(names, tuple(problems), sources)


def select(place: Place, name: str, *, create: bool = False) -> Workspaces:
    """Select a workspace for the commands to come; one that does not exist is made if `create`."""
    if place.environment.get(OVERRIDE):
        return Workspaces((), (_overridden(),))
    known = list_workspaces(place)
    if has_errors(known.diagnostics):
        return known
    if name not in known.names:
        if create:
            return make(place, name, Locking())
        return replace(known, names=(), diagnostics=(*known.diagnostics, _unknown(name, known.names)))
    return _remember(place, name, known)


def make(
    place: Place, name: str, locking: Locking, *, state: State | None = None, session: Session | None = None
) -> Workspaces:
    """Make a workspace, with a given state if there is one, and select it."""
    if place.environment.get(OVERRIDE):
        return Workspaces((), (_overridden(),))
    known = list_workspaces(place)
    if has_errors(known.diagnostics):
        return known
    if name in known.names:
        problem = error("workspace-exists", f'There is a workspace "{name}" already; select it instead.')
        return replace(known, names=(), diagnostics=(*known.diagnostics, problem))
    backend, _, sources = _backend(place)
    assert backend is not None
    session = session or Session()
    try:
        target = backend.for_workspace(name)
        held, problems = acquire(
            target,
            "workspace new",
            locking,
            clock=session.clock,
            environment=place.environment,
            waiting=session.waiting,
        )
        if not has_errors(problems):
            target.write(codec.encode(state or replace(EMPTY, nexusform_version=nexusform.__version__)))
        if held is not None:
            problems += held.release()
    except BackendProblem as problem:
        return Workspaces((), (*known.diagnostics, _refused(problem)), sources)
    if has_errors(problems):
        return Workspaces((), (*known.diagnostics, *problems), sources)
    return _remember(place, name, Workspaces((*known.names, name), (*known.diagnostics, *problems), sources))


def delete(
    place: Place, name: str, locking: Locking, *, force: bool = False, session: Session | None = None
) -> Workspaces:
    """Delete a workspace that holds nothing, or any if `force`."""
    known = list_workspaces(place)
    if has_errors(known.diagnostics):
        return known
    refusal = _undeletable(place, name, known.names)
    if refusal is not None:
        return replace(known, names=(), diagnostics=(*known.diagnostics, refusal))
    backend, _, sources = _backend(place)
    assert backend is not None
    session = session or Session()
    target = backend.for_workspace(name)
    held, problems = acquire(
        target,
        "workspace delete",
        locking,
        clock=session.clock,
        environment=place.environment,
        waiting=session.waiting,
    )
    if not has_errors(problems):
        problems += _holdings(target, name, force=force)
    if held is not None:
        problems += held.release()
    if not has_errors(problems):
        try:
            backend.delete_workspace(name)
        except BackendProblem as problem:
            problems.append(_refused(problem))
    left = () if has_errors(problems) else tuple(other for other in known.names if other != name)
    return Workspaces(left, (*known.diagnostics, *problems), sources)


def _undeletable(place: Place, name: str, names: Sequence[str]) -> Diagnostic | None:
    """Why a workspace cannot be deleted."""
    if name == DEFAULT_WORKSPACE:
        return error("workspace-cannot-be-deleted", f'The workspace "{DEFAULT_WORKSPACE}" always exists.')
    if name == place.workspace:
        return error(
            "workspace-is-in-use",
            f'"{name}" is the selected workspace. Select another one first (nexusform workspace select).',
        )
    return None if name in names else _unknown(name, names)


def _holdings(target: StateBackend, name: str, *, force: bool) -> list[Diagnostic]:
    """What speaks against deleting a workspace: objects that nobody would know of any more."""
    stored, problems = read_stored(target, closely=False)
    if stored is None:
        return [] if force else problems
    addresses = [str(address) for address in sorted(stored.state.instances, key=address_order)]
    if not addresses:
        return problems
    shown = "\n".join(f"  {address}" for address in addresses[:20])
    more = f"\n  and {len(addresses) - 20} more" if len(addresses) > 20 else ""
    holdings = f'The workspace "{name}" holds:\n{shown}{more}\n'
    if force:
        return [
            warning("objects-were-forgotten", f"{holdings}They stand as before; no state knows of them now.")
        ]
    return [
        error(
            "workspace-is-not-empty",
            f"{holdings}Destroy them first. With -force the workspace is deleted all the same, and no state "
            "knows of them any more.",
        )
    ]


def _remember(place: Place, name: str, known: Workspaces) -> Workspaces:
    """Note which workspace is selected."""
    file = selection_file(place)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, name.encode(), 0o644)
    except OSError as problem:
        refusal = error("workspace-cannot-be-selected", f'"{file}" cannot be written: {problem.strerror}.')
        return replace(known, names=(), diagnostics=(*known.diagnostics, refusal))
    return known


def _backend(place: Place) -> tuple[StateBackend | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """The backend whatever workspace is selected: one that is no longer there must not stop us."""
    return find_backend(replace(place, environment={**place.environment, OVERRIDE: DEFAULT_WORKSPACE}))


def _overridden() -> Diagnostic:
    return error(
        "workspace-is-fixed-by-the-environment",
        f"The environment variable {OVERRIDE} names the workspace. Unset it to select another one.",
    )


def _unknown(name: str, names: Sequence[str]) -> Diagnostic:
    return error(
        "no-such-workspace",
        f'There is no workspace "{name}".{did_you_mean(name, names)} Make it with `nexusform workspace new`, '
        "or with -or-create when selecting.",
    )


def _refused(problem: BackendProblem) -> Diagnostic:
    return error("the-backend-refused", str(problem))
