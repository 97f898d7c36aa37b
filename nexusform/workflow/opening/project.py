"""Project of a command: a configuration with its variables and the location of its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from nexusform.configuration.declarations.configuration import Configuration, Module, Settings
from nexusform.configuration.variable_values import VariableValueSource
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.interfaces.plugins import Files, PluginRegistries
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.planning.plan_request import ValueOverride
from nexusform.resource_types.registry import build_registries
from nexusform.values.typed_value import Value
from nexusform.workflow.opening.backend_choice import choose_backend
from nexusform.workflow.opening.command_context import (
    ENCRYPTION_VARIABLE,
    CommandContext,
    load_project_configuration,
    read_project_variables,
)
from nexusform.workflow.opening.system_io import ConfinedFileAccess

if TYPE_CHECKING:
    from nexusform.workflow.opening.remote_inputs import RemoteStateReader, ServerResponseCache

NO_ANSWERS: Final[Mapping[str, str]] = {}


class Project(Struct, frozen=True):
    """An opened configuration.

    `sources` are all files read, for source lines in messages; `data_values` override data
    sources in tests. `remote_states` reads states of other configurations, `servers` queries
    servers for data sources.
    """

    context: CommandContext
    configuration: Configuration
    variables: Mapping[str, Value]
    sources: Mapping[str, SourceFile]
    registries: PluginRegistries
    files: Files
    backend: StateBackend
    data_values: tuple[ValueOverride, ...] = ()
    planned_values: tuple[ValueOverride, ...] = ()
    remote_states: RemoteStateReader | None = None
    servers: ServerResponseCache | None = None

    @property
    def workspace(self) -> str:
        """The selected workspace."""
        return self.context.workspace


class OpenResult(Struct, frozen=True):
    """The project, None after errors, with all diagnostics."""

    project: Project | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


def open_project(context: CommandContext) -> OpenResult:
    """Open all inputs of a plan except the state; None with errors."""
    configuration, problems = load_project_configuration(context)
    sources = configuration.files
    variables, new_problems = read_project_variables(
        context, configuration, can_ask=not has_errors(problems)
    )
    problems += [problem for problem in new_problems if problem not in problems]
    backend, new_problems = open_backend(context, configuration)
    problems += new_problems
    if backend is None or has_errors(problems):
        # Report all errors of a configuration at once, those of planning, too. Only this
        # needs the import.
        from nexusform.workflow.opening.directory_validation import find_planning_problems

        problems += find_planning_problems(context, configuration, problems)
        return OpenResult(project=None, diagnostics=tuple(problems), sources=sources)
    project = create_project(
        context, configuration, select_variable_values(configuration, variables), sources, backend
    )
    return OpenResult(project, tuple(problems), sources)


def select_variable_values(
    configuration: Configuration, variables: Mapping[str, tuple[Value, VariableValueSource]]
) -> dict[str, Value]:
    """Return the values of variables, without unset ephemeral ones.

    Plans record only the names of the set ones.
    """
    declared = configuration.root.variables
    return {
        name: value
        for name, (value, origin) in variables.items()
        if not (declared[name].ephemeral and origin.is_default)
    }


def create_project(
    context: CommandContext,
    configuration: Configuration,
    variables: Mapping[str, Value],
    sources: Mapping[str, SourceFile],
    backend: StateBackend,
    answers: Mapping[str, str] = NO_ANSWERS,
) -> Project:
    """Create the project of a configuration.

    `answers` are the saved server responses of a plan, for data sources.
    """
    remote_states = None
    servers = None
    # Only these read states and servers.
    if _has_data_blocks(configuration.root):
        from nexusform.workflow.opening.remote_inputs import RemoteStateReader, ServerResponseCache

        remote_states = RemoteStateReader(context, configuration.settings)
        servers = ServerResponseCache(context, dict(answers))
    return Project(
        context=context,
        configuration=configuration,
        variables=variables,
        sources=sources,
        registries=build_registries(),
        files=ConfinedFileAccess(
            context.confinement, context.merge_limits(configuration.settings.limits).read_mib
        ),
        backend=backend,
        remote_states=remote_states,
        servers=servers,
    )


def _has_data_blocks(module: Module) -> bool:
    """Return whether a module or one called by it has a data block, also inside of a `check`."""
    modes = {mode for mode, _, _ in module.resources}
    return (
        "data" in modes
        or any(check.data is not None for check in module.checks)
        or any(_has_data_blocks(call.module) for call in module.calls.values())
    )


def open_backend(
    context: CommandContext, configuration: Configuration
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Open the backend of the selected workspace, with encryption if configured.

    Return None with errors.
    """
    backend, problems = choose_backend(configuration.settings, context)
    if backend is None:
        return None, problems
    return prepare_backend(backend, problems, configuration.settings, context)


def prepare_backend(
    backend: StateBackend, problems: list[Diagnostic], settings: Settings, context: CommandContext
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Add encryption if configured, and select the workspace; None with errors.

    `problems` are returned, too.
    """
    if settings.encryption or context.environment.get(ENCRYPTION_VARIABLE):
        from nexusform.workflow.opening.encryption_settings import wrap_backend

        wrapped_backend, new_problems = wrap_backend(backend, settings, context)
        problems += new_problems
        if wrapped_backend is None:
            return None, problems
        backend = wrapped_backend
    try:
        return backend.select_workspace(context.workspace), problems
    except BackendProblem as problem:
        return None, [*problems, build_error("invalid-workspace", str(problem))]


def find_backend(
    context: CommandContext,
) -> tuple[StateBackend | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """Return the backend for commands needing only the state, and the files read; None with errors.

    Errors elsewhere in the configuration are ignored; a directory without configuration has
    the default backend.
    """
    configuration, _ = load_project_configuration(context)
    backend, problems = open_backend(context, configuration)
    return backend, problems, configuration.files
