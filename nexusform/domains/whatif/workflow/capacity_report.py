"""The room of many sites, each as its state has it, with the pace at which its states filled it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.backends.backend_kind import Directories
from nexusform.backends.registry import BACKENDS
from nexusform.configuration.declared.configuration import Settings
from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.domains.whatif.questions.capacity_report import (
    SiteLine,
    Taken,
    find_other_outlooks,
    find_outlook,
    room_of,
    taken_on,
)
from nexusform.plans.room.other_room import OtherRoom
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state.objects import State
from nexusform.state_ports import BackendProblem
from nexusform.workflow.opening.encryption import encrypted
from nexusform.workflow.opening.place import NO_LIMITS, Place, load_configuration
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.opening.surroundings import plan_time
from nexusform.workflow.states.state_history import Version, earlier_versions
from nexusform.worlds.world_view import WorldView, things_of_state, view_world

_ADVICE: Final = (
    "-states=GLOB names state files, for example -states='sites/*/state/*.nfstate'; ** goes into all folders."
)
_MOST_FILES: Final = 20  # that are named beside the first one


class CapacityReport(Struct, frozen=True):
    """The sites in order of their ids, and what is wrong with the states."""

    lines: tuple[SiteLine, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


class _History(Struct):
    """The versions of one lineage: the current one with its file, and when the earlier ones were written."""

    path: str
    current: State
    earlier: list[tuple[str, State]]


def report_capacity(place: Place, pattern: str) -> CapacityReport:
    """Read the states that match. Files of one lineage are one history: the highest serial counts, the
    others are earlier versions by when they were written, as is what the backend keeps.
    """
    configuration, _ = load_configuration(place)
    settings = configuration.settings if configuration else None
    sources = configuration.files if configuration else {}
    # Path.glob takes no absolute pattern.
    matches = glob(pattern, recursive=True)  # noqa: PTH207
    paths = sorted(path for path in matches if Path(path).is_file())
    if not paths:
        problem = error("no-such-file", f'No file matches "{pattern}". {_ADVICE}')
        return CapacityReport((), (problem,), sources)
    histories: dict[str, _History] = {}
    problems: list[tuple[str, Diagnostic]] = []
    for path in paths:
        problems += [(path, problem) for problem in _read(path, settings, place, histories)]
    if has_errors(problem for _, problem in problems):
        return CapacityReport((), _each_kind_once(problems), sources)
    now = datetime.fromisoformat(plan_time(place.environment))
    lines: list[SiteLine] = []
    for history in histories.values():
        of_state = list(_lines(history, now))
        lines += of_state
        if not of_state:
            no_site = warning("state-without-a-site", f"{history.path} holds no site to report on.")
            problems.append((history.path, no_site))
    lines.sort(key=lambda line: (line.room.site_id.encode(), line.state))
    return CapacityReport(tuple(lines), _each_kind_once(problems), sources)


def _each_kind_once(problems: Iterable[tuple[str, Diagnostic]]) -> tuple[Diagnostic, ...]:
    """What is wrong with the files: of every kind the first, and which files it is the same with."""
    kinds: dict[str, dict[str, Diagnostic]] = {}
    for path, problem in problems:
        kinds.setdefault(problem.id, {}).setdefault(path, problem)
    return tuple(_with_other_files(files) for files in kinds.values())


def _with_other_files(problems: Mapping[str, Diagnostic]) -> Diagnostic:
    """The problem of the first file, naming the others with the same one."""
    first, *others = problems
    problem = problems[first]
    if not others:
        return problem
    names = [f"  - {path}" for path in others[:_MOST_FILES]]
    if len(others) > _MOST_FILES:
        names.append(f"  - and {len(others) - _MOST_FILES} more")
    return replace(problem, detail="\n".join([problem.detail, "", "The same of:", *names]))


def _read(
    path: str, settings: Settings | None, place: Place, histories: dict[str, _History]
) -> Sequence[Diagnostic]:
    """Add one file to the history of its lineage."""
    try:
        largest = place.largest_file(settings.limits if settings else NO_LIMITS)
        confinement = place.confinement.of_operator(path)
        directories = Directories(place.directory, place.data_directory, confinement, largest)
        local = BACKENDS["local"].open({"path": path}, directories)
        backend, problems = encrypted(local, settings, place)
    except BackendProblem as problem:
        return [error("the-state-cannot-be-read", str(problem))]
    if backend is None:
        return problems
    stored, wrong = read_stored(backend)
    problems += wrong
    if stored is None or has_errors(problems):
        return problems
    versions, wrong = earlier_versions(backend)
    _add(histories, path, stored.state, versions)
    return [*problems, *wrong]


def _add(histories: dict[str, _History], path: str, state: State, versions: Iterable[Version]) -> None:
    """Add a state to the history of its lineage; the highest serial is the current one."""
    earlier = [(version.written, version.state) for version in versions]
    known = histories.get(state.lineage)
    if known is None:
        histories[state.lineage] = _History(path, state, earlier)
        return
    known.earlier += earlier
    if state.serial > known.current.serial:
        known.earlier.append((_written(known.path), known.current))
        known.path, known.current = path, state
    else:
        known.earlier.append((_written(path), state))


def _written(path: str) -> str:
    """When a file was written, RFC 3339."""
    return datetime.fromtimestamp(Path(path).stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _lines(history: _History, now: datetime) -> Iterable[SiteLine]:
    """A line per site: its room now, and when it will be full."""
    earlier: dict[str, dict[str, Taken]] = {}
    others: dict[str, dict[str, tuple[OtherRoom, ...]]] = {}
    for written, state in history.earlier:
        for site in _world(state).sites.values():
            earlier.setdefault(site.id, {})[written] = taken_on(site)
            others.setdefault(site.id, {})[written] = site.other
    for site in _world(history.current).sites.values():
        room = room_of(site)
        outlook = find_outlook(room, earlier.get(site.id, {}), now)
        other = find_other_outlooks(site.other, others.get(site.id, {}), now)
        yield SiteLine(history.path, history.current.serial, room, outlook, other)


def _world(state: State) -> WorldView:
    return view_world(things_of_state(state), registries(), state.catalogue)
