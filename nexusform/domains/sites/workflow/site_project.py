"""One site of a fleet as a project: its root module with its inputs, and its own state."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import Configuration
from nexusform.configuration.loader import read_variables
from nexusform.configuration.variable_values import Assignment, from_file
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors, warning
from nexusform.domains.sites.types.definition import FILE_NAME, SiteEntry
from nexusform.domains.sites.types.work import Fleet
from nexusform.domains.sites.workflow.listed_sites import where_listed
from nexusform.regular_files import Confinement
from nexusform.source import SourceFile
from nexusform.state import json_text
from nexusform.state_ports import StateBackend
from nexusform.values import SENSITIVE
from nexusform.workflow.opening.backend_choice import BackendChoice, open_choice, refusal_of_settings
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.project import Opened, of_workspace, project_with
from nexusform.workflow.plan_files.apply import RESCUE


def place_of_fleet(fleet: Fleet, environment: Mapping[str, str]) -> Place:
    """The directory that the process has entered: that of nexusform.sites.hcl, or a root module's."""
    return Place(
        environment=environment,
        confinement=Confinement(fleet.confine, fleet.hidden),
        allow_remote=fleet.allow_remote,
        limits=fleet.limits,
    )


def place_of_site(fleet: Fleet, site: SiteEntry, environment: Mapping[str, str]) -> Place:
    """A site's root module, which the process has entered, as it does for `nexusform plan`. What this
    machine remembers of the site has a directory of its own: sites may share a root module.
    """
    place = place_of_fleet(fleet, environment)
    own = str(Path(fleet.root, place.data_directory, "sites", site.name))
    rescue = str(Path(own, RESCUE))
    return replace(place, environment={**environment, "NF_DATA_DIR": own}, rescue=rescue)


def open_site(fleet: Fleet, site: SiteEntry, environment: Mapping[str, str]) -> Opened:
    """Read everything that a plan of a site needs, short of its state."""
    place = place_of_site(fleet, site, environment)
    configuration, problems = known_configuration(place)
    if configuration is None:
        return Opened(None, tuple(problems), {})
    sources = configuration.files
    assignments, undeclared = _assignments(site, configuration)
    variables, wrong = read_variables(
        configuration,
        environment=place.environment,
        var_options=(),
        directory=place.directory,
        confinement=place.confinement,
        assigned=assignments,
    )
    wrong = [*undeclared, *(_at_the_inputs(problem, site) for problem in wrong)]
    if wrong and site.listed_in:
        where = where_listed(site.listed_in, site.key, fleet.root, place.confinement)
        wrong = [replace(problem, detail=f"{problem.detail}{where}") for problem in wrong]
    problems += wrong
    problems += _own_backend(configuration)
    backend, wrong = open_state(fleet, place, site, configuration)
    problems += wrong
    if backend is None or has_errors(problems):
        return Opened(None, tuple(problems), sources)
    values = {name: value for name, (value, _) in variables.items()}
    for name in site.sensitive:
        if name in values:
            values[name] = values[name].with_marks(SENSITIVE)
    return Opened(project_with(place, configuration, values, sources, backend), tuple(problems), sources)


# --- root modules ------------------------------------------------------------------------------


class _Known(Struct, frozen=True):
    """A configuration that was read, and what told its files from others."""

    signature: tuple[tuple[str, int, int, int], ...]
    configuration: Configuration
    problems: tuple[Diagnostic, ...]


_KNOWN: Final[dict[tuple[str, Confinement], _Known]] = {}
_MOST_KNOWN: Final = 64


def known_configuration(place: Place) -> tuple[Configuration | None, list[Diagnostic]]:
    """The configuration of a place: sites that share a root module share one reading of it, as long as none
    of its files and directories has changed.
    """
    key = (str(Path.cwd()), place.confinement)
    known = _KNOWN.get(key)
    if known is not None and known.signature == _signature(known.configuration):
        return known.configuration, list(known.problems)
    configuration, problems = load_configuration(place)
    _KNOWN.pop(key, None)
    if configuration is not None and not has_errors(problems):
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = _Known(_signature(configuration), configuration, tuple(problems))
    return configuration, problems


def _signature(configuration: Configuration) -> tuple[tuple[str, int, int, int], ...]:
    """What changes when a file is written, added or taken away."""
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


# --- inputs ------------------------------------------------------------------------------------


def _label(site: SiteEntry) -> str:
    return f"{FILE_NAME}, site {site.name}.json"


def _assignments(
    site: SiteEntry, configuration: Configuration
) -> tuple[Sequence[Assignment], list[Diagnostic]]:
    """The inputs as assignments; an error for each that the root module does not declare."""
    declared = configuration.root.variables
    problems = [
        error(
            "value-for-undeclared-variable",
            f'"{site.source}" declares no variable "{name}", which is an input of the site "{site.name}".'
            f"{did_you_mean(name, declared)}",
            site.inputs_span,
        )
        for name in site.inputs
        if name not in declared and configuration.root.directory
    ]
    known = {name: _escaped(value) for name, value in site.inputs.items() if name in declared}
    text = json_text.dumps(known).decode()
    assignments, wrong = from_file(SourceFile(_label(site), text))
    return assignments, [*problems, *wrong]


def _escaped(value: Any) -> Any:
    """Plain data as the JSON syntax has it, whose texts are templates."""
    if isinstance(value, str):
        return value.replace("${", "$${").replace("%{", "%%{")
    if isinstance(value, dict):
        return {_escaped(key): _escaped(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_escaped(part) for part in value]
    return value


def _at_the_inputs(problem: Diagnostic, site: SiteEntry) -> Diagnostic:
    """What is wrong with a value, at the inputs of the site."""
    if problem.subject is not None and problem.subject.filename == _label(site):
        return replace(problem, subject=site.inputs_span, context=None)
    if problem.id == "no-value-for-required-variable":
        detail = f"{problem.detail.partition('. Use a -var')[0]}. Give it in the inputs of the site."
        return replace(problem, detail=detail)
    return problem


# --- state -------------------------------------------------------------------------------------


def _own_backend(configuration: Configuration) -> list[Diagnostic]:
    """That a backend of the root module itself does not count."""
    block = configuration.settings.backend
    if block is None:
        return []
    detail = (
        f"The state of a site is where {FILE_NAME} says, so that sites may share a root module: the backend "
        "block of the module itself has no effect here."
    )
    return [warning("backend-configuration-ignored", detail, block.header_span)]


def open_state(
    fleet: Fleet, place: Place, site: SiteEntry, configuration: Configuration | None
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """The backend of a site's state, of the workspace in use. Its paths start at the fleet's directory."""
    refusal = refusal_of_settings(site.backend, site.settings, place)
    if refusal:
        return None, [error("remote-address-is-not-allowed", refusal, site.span)]
    settings = configuration.settings if configuration else None
    choice = BackendChoice(site.backend, site.settings, {})
    backend, problems = open_choice(choice, settings, replace(place, directory=fleet.root))
    if backend is None:
        return None, problems
    return of_workspace(backend, problems, settings, place)


def whereabouts(kind: str, described: str) -> str:
    """Where a state is, the same for all who speak of it."""
    return os.path.realpath(described) if kind == "local" else described
