"""Prepare a directory: check its configuration, choose its backend, take state along; offer a directory
that is new to nexusform a first configuration and a .gitignore.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from nexusform.configuration.declared.configuration import DEFAULT_PROVIDER, Configuration, Module, Settings
from nexusform.configuration.loader import JSON, NATIVE
from nexusform.configuration.overlooked import listed
from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.regular_files import PRIVATE, create, write_whole
from nexusform.source import SourceFile
from nexusform.state import codec
from nexusform.state.objects import State
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.words import counted
from nexusform.workflow.opening.backend_choice import (
    PLAIN,
    BackendChoice,
    backend_settings,
    backend_type,
    configured_choice,
    migration_file,
    open_choice,
    remember_choice,
    remembered_choice,
)
from nexusform.workflow.opening.encryption import encrypted
from nexusform.workflow.opening.place import DEFAULT_WORKSPACE, Place, load_configuration
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.opening.surroundings import SystemClock
from nexusform.workflow.runs.locking import Locking, acquire


class InitOptions(Struct, frozen=True):
    """What to do when the backend changed."""

    reconfigure: bool = False
    migrate: bool = False
    force_copy: bool = False
    locking: Locking = field(default_factory=Locking)


class Initialised(Struct, frozen=True):
    """What `init` did. `lines` tell it to people."""

    lines: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


def init_directory(place: Place, options: InitOptions) -> Initialised:
    """Check the configuration and prepare its backend."""
    configuration, problems = load_configuration(place)
    sources = configuration.files if configuration else {}
    if configuration is None or has_errors(problems):
        return Initialised((), tuple(problems), sources)
    known = remembered_choice(place)
    from_flags, wrong = backend_settings(place)
    problems += wrong
    # What was given for another kind of backend says nothing of this one.
    again = known is not None and known.kind == backend_type(configuration.settings)
    if known is not None and again and not place.backend_config and not options.reconfigure:
        from_flags = dict(known.from_flags)
        problems += _remembered_flags(configuration.settings, known, place)
    choice, wrong = configured_choice(configuration.settings, from_flags, place)
    problems += wrong
    if choice is None or has_errors(problems):
        return Initialised((), tuple(problems), sources)
    lines, wrong = _settle_backend(place, configuration.settings, choice, known, options)
    problems += wrong
    if not has_errors(problems):
        lines += _contents(configuration)
    return Initialised(tuple(lines), tuple(problems), sources)


def _settle_backend(
    place: Place, settings: Settings, choice: BackendChoice, known: BackendChoice | None, options: InitOptions
) -> tuple[list[str], list[Diagnostic]]:
    """Open the chosen backend, take the state along when asked to, and remember the choice."""
    backend, problems = _open(choice, place, settings)
    if backend is None:
        return [], problems
    lines: list[str] = []
    before = known or _default_in_use(place, settings, choice)
    if before is not None and before != choice and not options.reconfigure:
        if options.migrate:
            moved, wrong = _migrate(place, settings, before, backend, options)
            problems += wrong
            if has_errors(wrong):
                return [], problems
            lines += moved
        elif _holds_something(before, place, settings):
            return [], [*problems, _undecided(before, choice)]
        else:
            lines.append(f'The earlier backend ("{before.kind}") holds no state; it is left behind.')
    contents, wrong = _what_stands(choice, backend, place.workspace)
    problems += wrong
    if has_errors(problems):
        return [], problems
    try:
        if choice != PLAIN or known is not None:
            remember_choice(choice, place.data_directory)
        migration_file(place.data_directory).unlink(missing_ok=True)
    except OSError as problem:
        return [], [*problems, _not_remembered(place, problem)]
    return [*lines, contents], problems


def _not_remembered(place: Place, problem: OSError) -> Diagnostic:
    detail = f"{place.data_directory} cannot be written: {problem.strerror}."
    return error("the-backend-cannot-be-remembered", detail)


def _open(
    choice: BackendChoice, place: Place, settings: Settings
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """The backend of a choice, seen through the configured encryption."""
    backend, problems = open_choice(choice, settings, place)
    if backend is None:
        return None, problems
    seen, wrong = encrypted(backend, settings, place)
    return seen, [*problems, *wrong]


def _default_in_use(place: Place, settings: Settings, choice: BackendChoice) -> BackendChoice | None:
    """The default backend, when it holds a state and init never ran here."""
    if choice == PLAIN:
        return None
    backend, _ = _open(PLAIN, place, settings)
    chosen, _ = _open(choice, place, settings)
    if backend is None or (chosen is not None and chosen.describe() == backend.describe()):
        return None
    try:
        return PLAIN if backend.read() is not None else None
    except BackendProblem:
        return None


def _holds_something(choice: BackendChoice, place: Place, settings: Settings) -> bool:
    """Whether any workspace of a backend holds a state; one that cannot be looked at may."""
    backend, _ = _open(choice, place, settings)
    if backend is None:
        return True
    try:
        here = [backend.for_workspace(name) for name in backend.workspaces()]
        return any(each.read() is not None or each.journal() for each in here)
    except BackendProblem:
        return True


def _what_stands(
    choice: BackendChoice, backend: StateBackend, workspace: str
) -> tuple[str, list[Diagnostic]]:
    """A line on what the backend holds."""
    try:
        here = backend.for_workspace(workspace)
    except BackendProblem as problem:
        return "", [error("invalid-workspace", str(problem))]
    stored, problems = read_stored(here)
    if stored is None:
        return "", problems
    state = stored.state
    held = f"serial {state.serial}, {counted(len(state.instances), 'object')}"
    what = held if state.lineage else "no state yet"
    return f'Backend "{choice.kind}": {here.describe()} (workspace "{workspace}", {what}).', problems


def _contents(configuration: Configuration) -> list[str]:
    """What the configuration holds, a line each."""
    modules = list(_modules(configuration.root))
    resources = sum(len(module.resources) for module in modules)
    files, blocks = counted(len(configuration.files), "file"), counted(resources, "resource or data block")
    lines = [f"Configuration: {files}, {blocks}."]
    if len(modules) > 1:
        sources = sorted({module.directory for module in modules[1:]})
        lines.append(f"Modules: {', '.join(sources)}.")
    named = sorted({block.name for block in configuration.root.providers.values()} | {DEFAULT_PROVIDER})
    lines.append(f"Providers: {', '.join(named)} (built in; nothing is downloaded).")
    return lines


def _modules(module: Module) -> list[Module]:
    modules = [module]
    for call in module.calls.values():
        modules += _modules(call.module)
    return modules


def _remembered_flags(settings: Settings, known: BackendChoice, place: Place) -> list[Diagnostic]:
    """A warning for what the block says and what a -backend-config of an earlier init says otherwise."""
    written, _ = configured_choice(settings, {}, place)
    block = settings.backend
    if written is None or block is None or written.kind != known.kind:
        return []
    names = [
        name
        for name in known.from_flags
        if name in written.settings and written.settings[name] != known.settings.get(name)
    ]
    if not names:
        return []
    listed = ", ".join(f'"{name}"' for name in names)
    return [
        warning(
            "remembered-backend-config-counts",
            f"The block says otherwise of {listed} than -backend-config did at the last init, and what that "
            "said is used. `nexusform init -reconfigure` forgets it; with -migrate-state and a new "
            "-backend-config the state is taken along.",
            block.header_span,
        )
    ]


# --- taking the state along --------------------------------------------------------------------


def _migrate(
    place: Place, settings: Settings, before: BackendChoice, target: StateBackend, options: InitOptions
) -> tuple[list[str], list[Diagnostic]]:
    """Copy every workspace from the backend that was in use."""
    source, problems = _open(before, place, settings)
    if source is None:
        return [], problems
    lines: list[str] = []
    try:
        for name in source.workspaces():
            copied, wrong = _copy(
                place, source.for_workspace(name), target.for_workspace(name), name, options
            )
            problems += wrong
            lines += [copied] if copied else []
            if has_errors(wrong):
                break
    except BackendProblem as problem:
        problems.append(error("the-state-cannot-be-migrated", str(problem)))
    return lines, problems


def _copy(
    place: Place, source: StateBackend, target: StateBackend, name: str, options: InitOptions
) -> tuple[str, list[Diagnostic]]:
    """Take the state of one workspace along, under the locks of both backends; a line on it ("": nothing was
    taken).
    """
    problems: list[Diagnostic] = []
    with ExitStack() as leaving:
        for backend, way_out in ((source, _UNLOCK_EARLIER), (target, _unlock_new(name))):
            held, wrong = acquire(
                backend,
                "migrate",
                options.locking,
                clock=SystemClock(),
                environment=place.environment,
                waiting=lambda _: None,
                way_out=way_out,
            )
            problems += wrong
            if held is not None:
                leaving.callback(held.release)
        if has_errors(problems):
            return "", problems
        stored, wrong = read_stored(source, closely=False)
        standing, more = read_stored(target, closely=False)
        problems += [*wrong, *more]
        if stored is None or standing is None or not stored.state.lineage:
            return "", problems
        if stored.open_intents:
            return "", [*problems, _unfinished(name)]
        refusal = _occupied(stored.state, standing.state, name, target)
        if refusal is not None and not options.force_copy:
            return "", [*problems, refusal]
        try:
            _mark_migration(place)
        except OSError as problem:
            return "", [*problems, _not_remembered(place, problem)]
        target.compact(codec.encode(stored.state), stored.kept_lines())
    return f'Took the state of workspace "{name}" along to {target.describe()}.', problems


_UNLOCK_EARLIER: Final = (
    "go back to the earlier backend settings, break its lock with `nexusform force-unlock ID`, and migrate "
    "again"
)


def _unlock_new(workspace: str) -> str:
    """What breaks a lock in the new backend, which no command but this one speaks to yet."""
    where = "" if workspace == DEFAULT_WORKSPACE else f"NF_WORKSPACE={shlex.quote(workspace)} "
    return (
        f"break its lock with `{where}nexusform force-unlock -backend-config=... ID`, with the settings that "
        "this init was given (one of the block again where it was given none), and migrate again"
    )


def _mark_migration(place: Place) -> None:
    """From the first state that is copied until `init` has come to its end, no backend is to be believed.

    Raises OSError.
    """
    mark = migration_file(place.data_directory)
    mark.parent.mkdir(parents=True, exist_ok=True)
    write_whole(mark, b"", PRIVATE)


def _occupied(source: State, standing: State, name: str, target: StateBackend) -> Diagnostic | None:
    """Why a state that stands at the target must not be written over, if it must not."""
    if not standing.lineage or (standing.lineage == source.lineage and standing.serial <= source.serial):
        return None
    return error(
        "the-new-backend-holds-another-state",
        f'For the workspace "{name}" {target.describe()} holds a state with lineage {standing.lineage}, '
        f"serial {standing.serial}. To write over it, add -force-copy; to use it, run init -reconfigure "
        "instead.",
    )


def _unfinished(name: str) -> Diagnostic:
    return error(
        "an-interrupted-apply-comes-first",
        f'In the workspace "{name}" an apply was interrupted. Go back to the earlier backend settings, run '
        "`nexusform apply -resume`, then migrate.",
    )


def _undecided(before: BackendChoice, choice: BackendChoice) -> Diagnostic:
    what = (
        f'from "{before.kind}" to "{choice.kind}"' if before.kind != choice.kind else "its settings changed"
    )
    return error(
        "the-backend-changed",
        f"The backend of this configuration changed ({what}), and the earlier one holds a state, or "
        "cannot be looked at. Run "
        "`nexusform init -migrate-state` to take the state along, or `nexusform init -reconfigure` to leave "
        "it where it is and use what the new place holds.",
    )


_CONFIGURATION: Final = """\
# Two racks of four servers, and a cluster of seven VMs on them.

resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  for_each = toset(["1", "2"])

  site_id       = nexus_site.lab.id
  name          = "rack${each.key}"
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "workers" {
    count       = 4
    vm_sku_name = "NC_P22_112_v1"
  }
}

output "machine_of_each_node" {
  value = { for name, node in nexus_kubernetes_cluster.web.nodes : name => node.machine }
}
"""
_GITIGNORE: Final = """\
# nexusform: its working directory, plans and local states, in which secrets may stand
.nexusform/
*.nfplan
state/*.nfstate*
"""
_TEXTS: Final = {"main.nf.hcl": _CONFIGURATION, ".gitignore": _GITIGNORE}


def missing_files(directory: str) -> tuple[str, ...]:
    """The files that could be offered: a configuration where there is none at all, a .gitignore where there
    is none and the directory belongs to a git work tree or is new.
    """
    names = listed(directory)
    new = not any(name.endswith((NATIVE, JSON)) for name in names)
    offered = ["main.nf.hcl"] if new else []
    if ".gitignore" not in names and (new or _in_work_tree(Path(directory))):
        offered.append(".gitignore")
    return tuple(offered)


def write_first_file(directory: str, name: str) -> None:
    """Write one of them; what stands there already stays. Raises OSError."""
    with os.fdopen(create(Path(directory) / name, 0o666), "wb") as stream:
        stream.write(_TEXTS[name].encode())


def _in_work_tree(directory: Path) -> bool:
    top = directory.absolute()
    return any((folder / ".git").exists() for folder in (top, *top.parents))
