"""Workspaces, the states of one configuration: list, create, select, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct, field
from msgspec.structs import replace

import nexusform
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    build_warning,
    has_errors,
    suggest_name,
)
from nexusform.files.regular_files import write_file_atomically
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.resources.address import compute_address_order
from nexusform.state import state_codec
from nexusform.state.objects import EMPTY, State
from nexusform.workflow.opening.command_context import (
    DEFAULT_WORKSPACE,
    CommandContext,
    get_selection_path,
)
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.runs.state_locking import LockOptions
from nexusform.workflow.states.state_commands import (
    DEFAULT_SESSION,
    MAX_LISTED_OBJECTS,
    StateCommandContext,
    format_first_lines,
)

WORKSPACE_VARIABLE = "NF_WORKSPACE"


class Workspaces(Struct, frozen=True):
    """The result of a workspace command.

    `names` are the existing workspaces, empty after errors.
    """

    names: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)

    def reject(self, problem: Diagnostic) -> Workspaces:
        """Return the result of a failed command: no names, and this error."""
        return replace(self, names=(), diagnostics=(*self.diagnostics, problem))


def list_workspaces(context: CommandContext) -> Workspaces:
    """List the names of all workspaces, the default one first; none with errors."""
    backend, problems, sources = _find_backend(context)
    if backend is None:
        return Workspaces(names=(), diagnostics=tuple(problems), sources=sources)
    try:
        names = tuple(backend.list_workspaces())
    except BackendProblem as problem:
        rejection = build_error("backend-rejection", str(problem))
        return Workspaces(names=(), diagnostics=(*problems, rejection), sources=sources)
    return Workspaces(names, tuple(problems), sources)


def select_workspace(context: CommandContext, name: str, *, create: bool = False) -> Workspaces:
    """Select a workspace for later commands; with `create`, create a missing one.

    NF_WORKSPACE must not override it.
    """
    if context.environment.get(WORKSPACE_VARIABLE):
        return Workspaces(names=(), diagnostics=(_build_workspace_variable_override_error(),))
    existing = list_workspaces(context)
    if has_errors(existing.diagnostics):
        return existing
    if name not in existing.names:
        if create:
            return create_workspace(context, name, LockOptions())
        return existing.reject(_build_unknown_workspace_error(name, existing.names))
    return _save_selected_workspace(context, name, existing)


def create_workspace(
    context: CommandContext,
    name: str,
    locking: LockOptions,
    *,
    state: State | None = None,
    session: StateCommandContext = DEFAULT_SESSION,
) -> Workspaces:
    """Create a workspace with the given `state` (None: empty), and select it."""
    if context.environment.get(WORKSPACE_VARIABLE):
        return Workspaces(names=(), diagnostics=(_build_workspace_variable_override_error(),))
    existing = list_workspaces(context)
    if has_errors(existing.diagnostics):
        return existing
    if name in existing.names:
        problem = build_error(
            "workspace-exists", f'The workspace "{name}" already exists. Select it instead.'
        )
        return existing.reject(problem)
    backend, _, sources = _find_backend(context)
    assert backend is not None

    def write_state(target: StateBackend) -> list[Diagnostic]:
        target.write(
            state_codec.encode_state(
                state or replace(EMPTY, nexusform_version=nexusform.__version__)
            )
        )
        return []

    problems = _run_locked(session, context, backend, name, "workspace new", locking, write_state)
    diagnostics = (*existing.diagnostics, *problems)
    if has_errors(problems):
        return Workspaces(names=(), diagnostics=diagnostics, sources=sources)
    return _save_selected_workspace(
        context, name, Workspaces((*existing.names, name), diagnostics, sources)
    )


def _run_locked(
    session: StateCommandContext,
    context: CommandContext,
    backend: StateBackend,
    name: str,
    operation: str,
    locking: LockOptions,
    action: Callable[[StateBackend], list[Diagnostic]],
    *,
    ends_lock: bool = False,
) -> list[Diagnostic]:
    """Run an action on a workspace under its lock.

    Return the problems of the lock, the action and the release. With `ends_lock`, the action
    without errors ends the lock, too.
    """
    problems: list[Diagnostic] = []
    with ExitStack() as exit_stack:
        try:
            target = backend.select_workspace(name)
            lock, new_problems = session.acquire_lock(context, target, operation, locking)
            problems += new_problems
            if lock is not None:
                exit_stack.callback(lambda: problems.extend(lock.release()))
            if not has_errors(problems):
                problems += action(target)
                if ends_lock and not has_errors(problems):
                    exit_stack.pop_all()
        except BackendProblem as problem:
            problems.append(build_error("backend-rejection", str(problem)))
    return problems


def delete_workspace(
    context: CommandContext,
    name: str,
    locking: LockOptions,
    *,
    force: bool = False,
    session: StateCommandContext = DEFAULT_SESSION,
) -> Workspaces:
    """Delete an empty workspace, or any with `force`.

    The default and the selected one are never deleted.
    """
    existing = list_workspaces(context)
    if has_errors(existing.diagnostics):
        return existing
    rejection = _check_deletable(context, name, existing.names)
    if rejection is not None:
        return existing.reject(rejection)
    backend, _, sources = _find_backend(context)
    assert backend is not None

    def delete(target: StateBackend) -> list[Diagnostic]:
        problems = _check_workspace_empty(target, name, force=force)
        if not has_errors(problems):
            target.delete_workspace(name)
        return problems

    problems = _run_locked(
        session, context, backend, name, "workspace delete", locking, delete, ends_lock=True
    )
    diagnostics = (*existing.diagnostics, *problems)
    if has_errors(problems):
        return Workspaces(names=(), diagnostics=diagnostics, sources=sources)
    return Workspaces(
        tuple(other for other in existing.names if other != name), diagnostics, sources
    )


def _check_deletable(context: CommandContext, name: str, names: Sequence[str]) -> Diagnostic | None:
    """Return an error for the default, the selected or an unknown workspace; otherwise None."""
    if name == DEFAULT_WORKSPACE:
        return build_error(
            "undeletable-workspace", f'The workspace "{DEFAULT_WORKSPACE}" always exists.'
        )
    if name == context.workspace:
        return build_error(
            "workspace-in-use",
            (
                f'"{name}" is the selected workspace. Select another one first (nexusform '
                "workspace select)."
            ),
        )
    return None if name in names else _build_unknown_workspace_error(name, names)


def _check_workspace_empty(target: StateBackend, name: str, *, force: bool) -> list[Diagnostic]:
    """Return an error for a workspace with objects, also with those of an interrupted step.

    With `force` it is a warning, and the state may be unreadable.
    """
    stored, problems = read_stored_state(target, checks_objects=False)
    if stored is None:
        if not force:
            return problems
        detail = f'The workspace "{name}" may have had objects: its state is unreadable. '
        return [
            build_warning("objects-forgotten", f"{detail}{problem.detail}") for problem in problems
        ]
    # The object of a step with unknown outcome may exist.
    open_addresses = {open_intent.intent.address for open_intent in stored.open_intents}
    addresses = sorted({*stored.state.instances, *open_addresses}, key=compute_address_order)
    if not addresses:
        return problems
    listed_addresses = format_first_lines(
        [
            f"{address} (an apply was interrupted while it changed this object)"
            if address in open_addresses
            else str(address)
            for address in addresses
        ],
        MAX_LISTED_OBJECTS,
        "  ",
    )
    content_text = f'The workspace "{name}" has objects:\n{listed_addresses}\n'
    if force:
        return [
            build_warning(
                "objects-forgotten",
                f"{content_text}They still exist, but no state manages them now.",
            )
        ]
    return [
        build_error(
            "workspace-not-empty",
            f"{content_text}Destroy them first. With -force the workspace is deleted, and no state "
            "manages these objects.",
        )
    ]


def _save_selected_workspace(
    context: CommandContext, name: str, workspaces: Workspaces
) -> Workspaces:
    """Record the selected workspace for later commands.

    Return `workspaces`, with an error if it fails.
    """
    file = get_selection_path(context)
    try:
        write_file_atomically(file, name.encode(), 0o644, makes_directories=True)
    except OSError as problem:
        rejection = build_error(
            "unselectable-workspace", f'"{file}" cannot be written: {problem.strerror}.'
        )
        return workspaces.reject(rejection)
    return workspaces


def _find_backend(
    context: CommandContext,
) -> tuple[StateBackend | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """Find the backend regardless of the selected workspace, because that may no longer exist."""
    return find_backend(
        replace(context, environment={**context.environment, WORKSPACE_VARIABLE: DEFAULT_WORKSPACE})
    )


def _build_workspace_variable_override_error() -> Diagnostic:
    return build_error(
        "workspace-set-by-environment",
        (
            f"The environment variable {WORKSPACE_VARIABLE} selects the workspace. Unset it to "
            "select another one."
        ),
    )


def _build_unknown_workspace_error(name: str, names: Sequence[str]) -> Diagnostic:
    return build_error(
        "no-such-workspace",
        f'There is no workspace "{name}".{suggest_name(name, names)} Create it with `nexusform '
        "workspace new`, or select it with -or-create.",
    )
