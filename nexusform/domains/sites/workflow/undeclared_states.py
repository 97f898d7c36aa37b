"""Sites no longer in nexusform.sites.hcl but with objects in their state.

Removing a row deletes nothing: the site's objects keep running. Such sites are found by state
files in the usual places, and by a list of states from earlier commands, since not every backend
can be listed.
"""

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Settings
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    build_error,
    build_warning,
)
from nexusform.domains.sites.types.fleet_plan import ANY_SITE, SITE_NAME, SiteEntry, UndeclaredSite
from nexusform.domains.sites.types.site_tasks import FleetContext, SiteResult
from nexusform.domains.sites.workflow.fleet_tasks import Fleet, is_site_requested
from nexusform.domains.sites.workflow.site_project import (
    build_fleet_context,
    normalize_state_location,
    open_state,
)
from nexusform.domains.sites.workflow.site_results import summarize_problem
from nexusform.files.directories import make_directories
from nexusform.files.regular_files import read_regular
from nexusform.interfaces.state_storage import StateBackend
from nexusform.planning.conclusion.placement_accounting import collect_names, list_placement_kinds
from nexusform.resource_types.registry import build_registries
from nexusform.state.objects import State
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.opening.system_io import write_output

# Not a valid name of a site.
_STATE_LIST: Final = "sites/.seen.json"
_MAX_BYTES: Final = 64 << 20  # bytes


class _KnownState(Struct, frozen=True):
    """State location of a site at the last command."""

    backend: str
    state_location: str


def find_undeclared_sites(
    fleet: Fleet, location: CommandContext, patterns: Sequence[str] = ()
) -> tuple[UndeclaredSite, ...]:
    """Find the sites with a state but no declaration, by name, matching `patterns`.

    Nothing is locked or written. Raises DiagnosticsError if the list of known states is unreadable.
    """
    definition = fleet.definition
    context = fleet.context
    declared = definition.sites_by_name
    # Local files of all declared sites.
    declared_states = {
        normalize_state_location(
            "local", str(Path(context.root, str(site.settings.get("path", ""))))
        )
        for site in definition.sites
        if site.backend == "local"
    }
    known_states = _read_known_states(location)
    for template in definition.templates:
        known_states |= {
            name: _KnownState("local", path) for name, path in _find_state_files(template, context)
        }
    results: list[UndeclaredSite] = []
    for name, known_state in sorted(known_states.items()):
        if name in declared or not is_site_requested(name, patterns):
            continue
        if known_state.state_location in declared_states:
            # The state of a renamed site.
            continue
        site = _read_undeclared_site(name, known_state, definition.templates, context)
        if site is not None:
            relative_location = site.state_location.removeprefix(f"{context.root}/")
            results.append(replace(site, state_location=relative_location))
    return tuple(results)


def record_state_locations(
    fleet: Fleet, location: CommandContext, results: Iterable[SiteResult]
) -> list[Diagnostic]:
    """Record the locations of states with content; return a warning if that fails."""
    sites = fleet.definition.sites_by_name
    path = _get_list_path(location)
    try:
        known_states = _read_known_states(location)
    except DiagnosticsError as failure:
        # It is kept as it is.
        return failure.diagnostics
    current_states = {
        result.site: _KnownState(sites[result.site].backend, result.state_location)
        for result in results
        # With serial 0 there is no state yet.
        if result.serial and result.site in sites
    }
    states = known_states | current_states
    if states == known_states:
        return []
    content = msgspec.json.encode(dict(sorted(states.items())))
    try:
        make_directories(path.parent)
        write_output(str(path), msgspec.json.format(content, indent=1), private=True, durable=False)
    except OSError as problem:
        detail = (
            f'"{path}", the list of known states, cannot be written: {problem.strerror}. If a row '
            "of nexusform.sites.hcl is deleted later, its state may not be noticed. Make it "
            "writable, or set NF_DATA_DIR."
        )
        return [build_warning("known-states-not-recorded", detail)]
    return []


def _get_list_path(location: CommandContext) -> Path:
    return Path(location.data_directory, _STATE_LIST)


def _read_known_states(location: CommandContext) -> dict[str, _KnownState]:
    """Read the recorded states, {} without a file.

    Raises DiagnosticsError if it cannot be read: sites that are declared no longer would be missed.
    """
    path = _get_list_path(location)
    try:
        data = read_regular(path, _MAX_BYTES, follow=False)
        return msgspec.json.decode(data, type=dict[str, _KnownState])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as problem:
        reason = problem.strerror or str(problem)
    except msgspec.MsgspecError:
        reason = "it is damaged"
    detail = (
        f'"{path}", the list of known states, cannot be read: {reason}. Sites that '
        "nexusform.sites.hcl declares no longer may be missed. Restore the file, or begin a new "
        f"list:\nrm {quote(str(path))}"
    )
    raise DiagnosticsError(build_error("unreadable-known-states", detail))


def _find_state_files(template: SiteEntry, fleet: FleetContext) -> Iterator[tuple[str, str]]:
    """Find state files by the template's path, with a placeholder as the site's name.

    Yield site name and path.
    """
    backend = _open_backend(template, fleet)
    if template.backend != "local" or backend is None or ANY_SITE not in backend.describe():
        # Only local paths with the site's name can be searched.
        return
    pattern = normalize_state_location("local", backend.describe())
    # Later occurrences must be the same name.
    head, _, tail = re.escape(pattern).partition(ANY_SITE)
    path_pattern = re.compile(
        f"{head}(?P<site>{SITE_NAME.pattern}){tail.replace(ANY_SITE, '(?P=site)')}"
    )
    glob_pattern = glob.escape(pattern).replace(ANY_SITE, "*")
    for path in sorted(glob.glob(glob_pattern)):  # noqa: PTH207 - from the root of all
        match = path_pattern.fullmatch(path)
        is_state = not path.endswith((".backup", ".journal", ".lock.info", ".tmp"))
        if match is not None and is_state and os.path.isfile(path):  # noqa: PTH113
            yield match["site"], path


def _open_backend(site: SiteEntry, fleet: FleetContext) -> StateBackend | None:
    """Open the backend of a site; None if it cannot be opened."""
    backend, _ = open_state(fleet, build_fleet_context(fleet, os.environ), site, Settings())
    return backend


def _read_undeclared_site(
    name: str, known_state: _KnownState, templates: Sequence[SiteEntry], fleet: FleetContext
) -> UndeclaredSite | None:
    """Read a site's state from a backend of `templates`; None if empty.

    For an unreadable one, return the reason.
    """
    backend = _open_known_state(name, known_state, templates, fleet)
    if backend is None:
        reason = "No backend of nexusform.sites.hcl covers it, so it was not read."
        return UndeclaredSite(name, known_state.state_location, reason=reason)
    stored, problems = read_stored_state(backend, checks_objects=False)
    if stored is None:
        reason = summarize_problem(next(iter(problems), None))
        return UndeclaredSite(name, known_state.state_location, reason=reason)
    state = stored.state
    if not state.instances:
        return None
    return UndeclaredSite(
        name,
        known_state.state_location,
        len(state.instances),
        count_placements(state),
        state.serial,
    )


def _open_known_state(
    name: str, known_state: _KnownState, templates: Sequence[SiteEntry], fleet: FleetContext
) -> StateBackend | None:
    """Open the backend of the known state of the site `name`.

    Try the settings of each template, with this name in place of ANY_SITE, until they give the
    known location. Otherwise open a local file by its path; for other backends return None.
    """
    for template in templates:
        if template.backend != known_state.backend:
            continue
        settings = dict(template.settings)
        for key, value in template.settings.items():
            if isinstance(value, str):
                settings[key] = value.replace(ANY_SITE, name)
        backend = _open_backend(replace(template, name=name, settings=settings), fleet)
        # It cannot be opened with these settings.
        if backend is None:
            continue
        state_location = normalize_state_location(known_state.backend, backend.describe())
        if state_location == known_state.state_location:
            return backend
    if known_state.backend != "local" or not templates:
        return None
    return _open_backend(
        replace(
            templates[0], name=name, backend="local", settings={"path": known_state.state_location}
        ),
        fleet,
    )


def count_placements(state: State) -> dict[str, int]:
    """Count the VMs, bindings and pods in a state by kind."""
    types = build_registries().resource_types
    counts: Counter[str] = Counter()
    for address, instance in state.instances.items():
        resource_type = types.get(address.type)
        if resource_type is not None and instance.current is not None:
            for kind in list_placement_kinds(resource_type):
                counts[kind] += collect_names(
                    kind, resource_type, instance.current.attributes
                ).total()
    return dict(sorted((+counts).items()))  # without zeros
