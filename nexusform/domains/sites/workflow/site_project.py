"""Project of one site: its root module with inputs, and its own state."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration, Settings
from nexusform.configuration.loader import check_constant_variables, read_root_variables
from nexusform.configuration.variable_values import Assignment, parse_variable_file
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    build_warning,
    has_errors,
    suggest_name,
)
from nexusform.diagnostics.levels import MISSING_VALUE
from nexusform.domains.sites.types.fleet_plan import FILE_NAME, SiteEntry
from nexusform.domains.sites.types.site_tasks import FleetContext
from nexusform.domains.sites.workflow.definition_file import describe_data_location
from nexusform.files.regular_files import Confinement
from nexusform.interfaces.state_storage import StateBackend
from nexusform.state import json_codec
from nexusform.values.typed_value import SENSITIVE
from nexusform.workflow.opening.backend_choice import (
    BackendChoice,
    explain_rejected_settings,
    open_chosen_backend,
)
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.project import (
    OpenResult,
    create_project,
    prepare_backend,
    select_variable_values,
)
from nexusform.workflow.plan_files.plan_execution import RESCUE


def build_fleet_context(fleet: FleetContext, environment: Mapping[str, str]) -> CommandContext:
    """Create the context of a command in the current directory.

    It has the permissions and limits of the fleet.
    """
    context = CommandContext(
        environment=environment, allow_remote=fleet.allow_remote, limits=fleet.limits
    )
    confinement = Confinement(fleet.confine, fleet.hidden_paths)
    return replace(
        context,
        confinement=confinement.reveal(context.packages_directory),
        # Sites of one root module have data directories of their own.
        modules_directory=context.packages_directory,
    )


def make_site_location(
    fleet: FleetContext, site: SiteEntry, environment: Mapping[str, str]
) -> CommandContext:
    """Create the context of a command for a site; its root module is the current directory.

    Local data of the site is in its own directory, since sites may share a root module.
    """
    location = build_fleet_context(fleet, environment)
    data_directory = str(Path(fleet.root, location.data_directory, "sites", site.name))
    unsaved_state_path = str(Path(data_directory, RESCUE))
    return replace(
        location,
        environment={**environment, "NF_DATA_DIR": data_directory},
        rescue_path=unsaved_state_path,
    )


def open_site_project(
    fleet: FleetContext, site: SiteEntry, environment: Mapping[str, str]
) -> OpenResult:
    """Open the project of a site: configuration, variables and backend, but not the state.

    After errors it is None.
    """
    location = make_site_location(fleet, site, environment)
    configuration, problems = load_cached_configuration(location)
    sources = configuration.files
    assignments, input_problems = _build_assignments(site, configuration)
    variables, further_problems = read_root_variables(
        configuration,
        environment=location.environment,
        var_options=(),
        directory=location.directory,
        confinement=location.confinement,
        assignments_override=assignments,
    )
    further_problems += check_constant_variables(
        configuration, {name: value for name, (value, _) in variables.items()}
    )
    further_problems = [
        *input_problems,
        *(_locate_problem_at_inputs(problem, site) for problem in further_problems),
    ]
    if further_problems and site.data_files:
        data_location = describe_data_location(
            site.data_files, site.key, fleet.root, location.confinement
        )
        further_problems = [
            replace(problem, detail=f"{problem.detail}{data_location}")
            for problem in further_problems
        ]
    problems += further_problems
    module_backend = configuration.settings.backend
    if module_backend is not None:
        detail = (
            f"The state location of a site comes from {FILE_NAME}. The backend block of the root "
            "module has no effect here."
        )
        problems.append(
            build_warning("backend-configuration-ignored", detail, module_backend.header_span)
        )
    backend, further_problems = open_state(fleet, location, site, configuration.settings)
    problems += further_problems
    if backend is None or has_errors(problems):
        return OpenResult(project=None, diagnostics=tuple(problems), sources=sources)
    values = select_variable_values(configuration, variables)
    for name in site.sensitive:
        if name in values:
            values[name] = values[name].add_marks(SENSITIVE)
    return OpenResult(
        create_project(location, configuration, values, sources, backend), tuple(problems), sources
    )


class _CachedConfiguration(Struct, frozen=True):
    """Cached configuration with the signature of its files."""

    signature: tuple[tuple[str, int, int, int], ...]
    configuration: Configuration
    problems: tuple[Diagnostic, ...]


_CACHE: Final[dict[tuple[str, Confinement], _CachedConfiguration]] = {}
_MAX_CACHED: Final = 64


def load_cached_configuration(location: CommandContext) -> tuple[Configuration, list[Diagnostic]]:
    """Load the root module in the current directory.

    Sites with the same module share it until its files change.
    """
    key = (str(Path.cwd()), location.confinement)
    cached = _CACHE.get(key)
    if (
        cached is not None
        and cached.signature
        and cached.signature == _compute_signature(cached.configuration)
    ):
        return cached.configuration, list(cached.problems)
    configuration, problems = load_project_configuration(location)
    # If there is one, its files have changed.
    _CACHE.pop(key, None)
    if not has_errors(problems):
        if len(_CACHE) >= _MAX_CACHED:
            _CACHE.clear()
        _CACHE[key] = _CachedConfiguration(
            _compute_signature(configuration), configuration, tuple(problems)
        )
    return configuration, problems


def _compute_signature(configuration: Configuration) -> tuple[tuple[str, int, int, int], ...]:
    """Compute a signature of files, changed by each write, addition or deletion.

    Return () if a file is unreadable.
    """
    files = list(configuration.files)
    directories = {os.path.dirname(name) or "." for name in files}  # noqa: PTH120 - as strings
    marks = []
    for name in (*files, *sorted(directories)):
        try:
            status = os.stat(name)  # noqa: PTH116 - as strings
        except OSError:
            return ()
        marks.append((name, status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(marks)


def _build_inputs_file_name(site: SiteEntry) -> str:
    return f"{FILE_NAME}, site {site.name}.json"


def _build_assignments(
    site: SiteEntry, configuration: Configuration
) -> tuple[Sequence[Assignment], list[Diagnostic]]:
    """Read the inputs like a JSON file of variables.

    Inputs not declared by the root module are reported.
    """
    variables = configuration.root.variables
    problems = [
        build_error(
            "value-for-undeclared-variable",
            f'"{site.source}" declares no variable "{name}", an input of the site '
            f'"{site.name}".{suggest_name(name, variables)}',
            site.inputs_span,
        )
        for name in site.inputs
        # "": it could not be read.
        if name not in variables and configuration.root.directory
    ]
    inputs = {name: value for name, value in site.inputs.items() if name in variables}
    text = json_codec.render_json(inputs).decode()
    assignments, file_problems = parse_variable_file(
        SourceFile(_build_inputs_file_name(site), text)
    )
    return assignments, [*problems, *file_problems]


def _locate_problem_at_inputs(problem: Diagnostic, site: SiteEntry) -> Diagnostic:
    """Locate a problem with an input at the inputs of the site.

    The message for a missing input refers to them instead of -var.
    """
    if problem.subject is not None and problem.subject.filename == _build_inputs_file_name(site):
        return replace(problem, subject=site.inputs_span, context=None)
    if problem.id == MISSING_VALUE:
        detail = f"{problem.detail.partition('. Use a -var')[0]}. Set it in the inputs of the site."
        return replace(problem, detail=detail)
    return problem


def open_state(
    fleet: FleetContext, location: CommandContext, site: SiteEntry, settings: Settings
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Open the backend of a site's state for the current workspace; None on errors.

    Paths start at the fleet's root.
    """
    rejection = explain_rejected_settings(site.backend, site.settings, location)
    if rejection:
        return None, [build_error("remote-address-not-allowed", rejection, site.span)]
    choice = BackendChoice(site.backend, site.settings, from_flags={})
    backend, problems = open_chosen_backend(
        choice, settings, replace(location, directory=fleet.root)
    )
    if backend is None:
        return None, problems
    return prepare_backend(backend, problems, settings, location)


def normalize_state_location(kind: str, description: str) -> str:
    """Normalize the location of a state for comparison."""
    return os.path.realpath(description) if kind == "local" else description
