"""What a command works on: a configuration with its variables, and where its state lives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from nexusform.configuration.declared.configuration import Configuration, Settings
from nexusform.configuration.loader import read_variables
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.planning.request import DataValues
from nexusform.ports import Files, Registries
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.values import Value
from nexusform.workflow.opening.backend_choice import choose_backend
from nexusform.workflow.opening.elsewhere import RemoteStates, Servers
from nexusform.workflow.opening.place import ENCRYPTION_VARIABLE, Place, load_configuration
from nexusform.workflow.opening.surroundings import RealFiles

NO_ANSWERS: Final[Mapping[str, str]] = {}


class Project(Struct, frozen=True):
    """An opened configuration. `sources` are all files read, for the source lines of messages;
    `data_values` stand in for data sources (in tests). `remote_states` reads the states of other
    configurations, `servers` asks servers for data sources.
    """

    place: Place
    configuration: Configuration
    variables: Mapping[str, Value]
    sources: Mapping[str, SourceFile]
    registries: Registries
    files: Files
    backend: StateBackend
    data_values: tuple[DataValues, ...] = ()
    remote_states: RemoteStates | None = None
    servers: Servers | None = None

    @property
    def workspace(self) -> str:
        """The workspace in use."""
        return self.place.workspace


class Opened(Struct, frozen=True):
    """What opening gave: the project unless there were errors, and all diagnostics."""

    project: Project | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


def open_project(place: Place) -> Opened:
    """Read everything a plan needs, short of the state."""
    configuration, problems = load_configuration(place)
    sources: dict[str, SourceFile] = dict(configuration.files) if configuration else {}
    if configuration is None:
        return Opened(None, tuple(problems), sources)
    variables, wrong = read_variables(
        configuration,
        environment=place.environment,
        var_options=place.variables,
        directory=place.directory,
        confinement=place.confinement,
    )
    problems += wrong
    backend, wrong = open_backend(place, configuration)
    problems += wrong
    if backend is None or has_errors(problems):
        # A configuration that cannot be planned: all its mistakes are told at once. Only then is the checking
        # of whole directories needed.
        from nexusform.workflow.opening.validate import further_problems

        problems += further_problems(place, configuration, problems)
        return Opened(None, tuple(problems), sources)
    values = {name: value for name, (value, _) in variables.items()}
    project = project_with(place, configuration, values, sources, backend)
    return Opened(project, tuple(problems), sources)


def project_with(
    place: Place,
    configuration: Configuration,
    variables: Mapping[str, Value],
    sources: Mapping[str, SourceFile],
    backend: StateBackend,
    answers: Mapping[str, str] = NO_ANSWERS,
) -> Project:
    """The project of a configuration that was read, be it from a directory or from a saved plan: then
    `answers` are what servers said to it.
    """
    return Project(
        place=place,
        configuration=configuration,
        variables=variables,
        sources=sources,
        registries=registries(),
        files=RealFiles(place.confinement, place.limits_over(configuration.settings.limits).read_mib),
        backend=backend,
        remote_states=RemoteStates(place, configuration.settings),
        servers=Servers(place, dict(answers)),
    )


def open_backend(
    place: Place, configuration: Configuration | None
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """The backend of the selected workspace. Commands that need only state call this themselves."""
    settings = configuration.settings if configuration else None
    backend, problems = choose_backend(settings, place)
    if backend is None:
        return None, problems
    return of_workspace(backend, problems, settings, place)


def of_workspace(
    backend: StateBackend, problems: list[Diagnostic], settings: Settings | None, place: Place
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """A backend that is open, as it is used: encrypted where the settings say so, and of the workspace that
    is selected. `problems` are those that opening it told.
    """
    if (settings is not None and settings.encryption) or place.environment.get(ENCRYPTION_VARIABLE):
        from nexusform.workflow.opening.encryption import encrypted

        sealed, wrong = encrypted(backend, settings, place)
        problems += wrong
        if sealed is None:
            return None, problems
        backend = sealed
    try:
        return backend.for_workspace(place.workspace), problems
    except BackendProblem as problem:
        return None, [*problems, error("invalid-workspace", str(problem))]


def find_backend(place: Place) -> tuple[StateBackend | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """The backend for commands that work on state alone, with the files read.

    Mistakes elsewhere in the configuration do not stop them, and a directory without configuration
    has the default backend.
    """
    configuration, _ = load_configuration(place)
    backend, problems = open_backend(place, configuration)
    return backend, problems, configuration.files if configuration else {}
