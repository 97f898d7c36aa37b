"""Preparation of a directory.

Check or create the configuration, prepare the backend, migrate state.
"""

import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import (
    DEFAULT_PROVIDER,
    Configuration,
    Settings,
)
from nexusform.configuration.loader import JSON, NATIVE
from nexusform.configuration.remote_modules.module_packages import PackageFinder
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    build_warning,
    has_errors,
)
from nexusform.diagnostics.phrases import format_count
from nexusform.domain_table import LazyTable, collect_installed_modules
from nexusform.files.regular_files import (
    PRIVATE,
    create_file,
    list_directory,
    remove_file,
    write_file_atomically,
)
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.planning.preparation.planning_order import iterate_modules
from nexusform.state import state_codec
from nexusform.state.objects import State
from nexusform.workflow.module_packages.module_installation import ModuleInstaller, ModuleOptions
from nexusform.workflow.opening.backend_choice import (
    DEFAULT_CHOICE,
    BackendChoice,
    get_migration_path,
    load_backend_choice,
    open_chosen_backend,
    parse_backend_flags,
    read_configured_choice,
    save_backend_choice,
)
from nexusform.workflow.opening.command_context import (
    DEFAULT_WORKSPACE,
    CommandContext,
    load_project_configuration,
)
from nexusform.workflow.opening.encryption_settings import wrap_backend
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.opening.system_io import SystemClock
from nexusform.workflow.runs.state_locking import LockOptions, acquire_lock

_UNLOCK_OLD_BACKEND: Final = (
    "restore the previous backend settings, break its lock with `nexusform force-unlock ID`, and "
    "migrate again"
)


# Further modules of domains: (context, directory of test files, packages, texts so far) -> errors.
_INSTALLED_MODULES: Final[
    Mapping[
        str, Callable[[CommandContext, str, PackageFinder, dict[str, SourceFile]], list[Diagnostic]]
    ]
] = LazyTable(collect_installed_modules())


class InitOptions(Struct, frozen=True):
    """Options for a changed backend.

    Without `has_backend`, only the configuration is checked.
    """

    reconfigure: bool = False
    migrate: bool = False
    force_copy: bool = False
    has_backend: bool = True
    modules: ModuleOptions = field(default_factory=ModuleOptions)
    locking: LockOptions = field(default_factory=LockOptions)


class InitResult(Struct, frozen=True):
    """The result of `init`.

    `lines` describe it.
    """

    lines: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


def init_directory(
    context: CommandContext, options: InitOptions, report: Callable[[str], None] = lambda _: None
) -> InitResult:
    """Install the modules, check the configuration and open its backend.

    Migrate the state if requested. Record the backend as chosen. `report` shows the
    progress of downloads.
    """
    configuration, problems = install_modules(context, options.modules, report)
    sources = configuration.files
    if has_errors(problems):
        return InitResult(lines=(), diagnostics=tuple(problems), sources=sources)
    if not options.has_backend:  # -backend=false
        return InitResult(tuple(_describe_configuration(configuration)), tuple(problems), sources)
    saved_choice = load_backend_choice(context)
    from_flags, new_problems = parse_backend_flags(context, configuration.settings.backend_type)
    problems += new_problems
    uses_saved_flags = not context.backend_config and not options.reconfigure
    # Flags for another kind of backend do not apply to this one.
    if (
        saved_choice is not None
        and uses_saved_flags
        and saved_choice.kind == configuration.settings.backend_type
    ):
        # The -backend-config of the last init stays in force.
        from_flags = dict(saved_choice.from_flags)
        problems += _check_saved_flags(configuration.settings, saved_choice, context)
    choice, new_problems = read_configured_choice(configuration.settings, from_flags, context)
    problems += new_problems
    if choice is None or has_errors(problems):
        return InitResult(lines=(), diagnostics=tuple(problems), sources=sources)
    lines, new_problems = _prepare_backend(
        context, configuration.settings, choice, saved_choice, options
    )
    problems += new_problems
    if not has_errors(problems):
        lines += _describe_configuration(configuration)
    return InitResult(tuple(lines), tuple(problems), sources)


def install_modules(
    context: CommandContext, options: ModuleOptions, report: Callable[[str], None]
) -> tuple[Configuration, list[Diagnostic]]:
    """Load the configuration, and download its remote modules.

    A directory may also have test files or sites only. Return the configuration with all problems.
    """
    installer = ModuleInstaller(context, options, report)
    try:
        configuration, problems = load_project_configuration(context, packages=installer)
        sources = dict(configuration.files)
        other_problems = [problem for problem in problems if not _is_about_no_files(problem)]
        if not has_errors(other_problems):
            further_problems: list[Diagnostic] = []
            for install in _INSTALLED_MODULES.values():
                further_problems += install(context, options.test_directory, installer, sources)
            # A file that cannot be read has a problem, and is not among the sources.
            if further_problems or len(sources) > len(configuration.files):
                problems = [*other_problems, *further_problems]
        configuration = replace(configuration, files=sources)
    except BaseException:
        # Interrupted: what was downloaded stays.
        installer.finish(is_complete=False)
        raise
    return configuration, [
        *problems,
        *installer.warnings,
        *installer.finish(is_complete=not has_errors(problems)),
    ]


def _is_about_no_files(problem: Diagnostic) -> bool:
    """Return whether an error says that the directory of the command has no configuration."""
    return problem.id == "no-configuration-files" and problem.subject is None


def _prepare_backend(
    context: CommandContext,
    settings: Settings,
    choice: BackendChoice,
    saved_choice: BackendChoice | None,
    options: InitOptions,
) -> tuple[list[str], list[Diagnostic]]:
    """Open the chosen backend, migrate the state of the old one if requested, save the choice.

    Return lines to show. The old backend is that of the last `init`. Without one it is the default
    backend, if it has a state. With errors the old choice stays recorded, and there are no lines.
    """
    backend, problems = _open_backend(choice, context, settings)
    if backend is None:
        return [], problems
    lines: list[str] = []
    old_choice = saved_choice or _find_default_choice(context, settings, choice, backend)
    # Its state must not get lost.
    if old_choice is not None and old_choice != choice and not options.reconfigure:
        if options.migrate:  # -migrate-state
            migration_lines, new_problems = _migrate_workspaces(
                context, settings, old_choice, backend, options
            )
            problems += new_problems
            # The old choice stays recorded.
            if has_errors(new_problems):
                return [], problems
            lines += migration_lines
        elif _has_any_state(old_choice, context, settings):
            return [], [*problems, _build_backend_changed_error(old_choice, choice)]
        else:
            lines.append(
                f'The previous backend ("{old_choice.kind}") has no state; nothing to migrate.'
            )
    contents_line, new_problems = _describe_backend(choice, backend, context.workspace)
    problems += new_problems
    if has_errors(problems):
        return [], problems
    try:
        # The default needs no record.
        if choice != DEFAULT_CHOICE or saved_choice is not None:
            save_backend_choice(choice, context.data_directory)
        # The marker of a running migration.
        remove_file(get_migration_path(context.data_directory), missing_ok=True)
    except OSError as problem:
        return [], [*problems, _build_write_error(context, problem)]
    return [*lines, contents_line], problems


def _build_write_error(context: CommandContext, problem: OSError) -> Diagnostic:
    return build_error(
        "backend-record-failed", f"{context.data_directory} cannot be written: {problem.strerror}."
    )


def _open_backend(
    choice: BackendChoice, context: CommandContext, settings: Settings
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Open the backend of a choice with the configured encryption; None with errors."""
    backend, problems = open_chosen_backend(choice, settings, context)
    if backend is None:
        return None, problems
    wrapped_backend, new_problems = wrap_backend(backend, settings, context)
    return wrapped_backend, [*problems, *new_problems]


def _find_default_choice(
    context: CommandContext, settings: Settings, choice: BackendChoice, chosen_backend: StateBackend
) -> BackendChoice | None:
    """Return DEFAULT_CHOICE if it has a state in another place than `chosen_backend`.

    This is the state without a `backend` block.
    """
    if choice == DEFAULT_CHOICE:
        return None
    backend, _ = _open_backend(DEFAULT_CHOICE, context, settings)
    # Other settings, but the same location.
    if backend is None or chosen_backend.describe() == backend.describe():
        return None
    try:
        return DEFAULT_CHOICE if backend.read() is not None else None
    except BackendProblem:
        # It is ignored, because the configuration does not use the default backend.
        return None


def _has_any_state(choice: BackendChoice, context: CommandContext, settings: Settings) -> bool:
    """Return whether any workspace of a backend has a state, or a journal of an apply.

    A backend that cannot be read counts as one with a state.
    """
    backend, _ = _open_backend(choice, context, settings)
    if backend is None:
        # A state is assumed, to lose none.
        return True
    try:
        for name in backend.list_workspaces():
            workspace_backend = backend.select_workspace(name)
            if workspace_backend.read() is not None or workspace_backend.read_journal():
                return True
    except BackendProblem:
        return True
    return False


def _describe_backend(
    choice: BackendChoice, backend: StateBackend, workspace: str
) -> tuple[str, list[Diagnostic]]:
    """Return a line about the contents of the backend ("" with errors), and its diagnostics."""
    try:
        workspace_backend = backend.select_workspace(workspace)
    except BackendProblem as problem:
        return "", [build_error("invalid-workspace", str(problem))]
    stored, problems = read_stored_state(workspace_backend)
    if stored is None:
        return "", problems
    state = stored.state
    content_text = "no state yet"
    # Every written state has one.
    if state.lineage:
        content_text = f"serial {state.serial}, {format_count(len(state.instances), 'object')}"
    line = (
        f'Backend "{choice.kind}": {workspace_backend.describe()} (workspace "{workspace}", '
        f"{content_text})."
    )
    return line, problems


def _describe_configuration(configuration: Configuration) -> list[str]:
    """Return lines about the contents of the configuration."""
    modules = list(iterate_modules(configuration.root))
    resources = sum(len(module.resources) for module in modules)
    files = format_count(len(configuration.files), "file")
    lines = [f"Configuration: {files}, {format_count(resources, 'resource or data block')}."]
    # The first is the root module.
    if len(modules) > 1:
        directories = sorted({module.directory for module in modules[1:]})
        lines.append(f"Modules: {', '.join(directories)}.")
    provider_names = sorted(
        {block.name for block in configuration.root.providers.values()} | {DEFAULT_PROVIDER}
    )
    lines.append(f"Providers: {', '.join(provider_names)} (built in; nothing is downloaded).")
    return lines


def _check_saved_flags(
    settings: Settings, saved_choice: BackendChoice, context: CommandContext
) -> list[Diagnostic]:
    """Warn if the block now sets other values than the -backend-config of an earlier init.

    The values of the earlier init are still in force.
    """
    block_choice, _ = read_configured_choice(settings, from_flags={}, context=context)
    block = settings.backend
    # The caller reports an invalid block.
    if block_choice is None or block is None:
        return []
    different_names: list[str] = []
    for name in saved_choice.from_flags:
        saved_value = saved_choice.settings.get(name)
        # The block sets another value.
        if block_choice.settings.get(name, saved_value) != saved_value:
            different_names.append(f'"{name}"')
    if not different_names:
        return []
    return [
        build_warning(
            "remembered-backend-config-counts",
            f"The values of {', '.join(different_names)} in the block differ from -backend-config "
            "of the last init, "
            "which still apply. To use the block, run `nexusform init -reconfigure`. To migrate "
            "the state, run "
            "init with -migrate-state and a new -backend-config.",
            block.header_span,
        )
    ]


def _migrate_workspaces(
    context: CommandContext,
    settings: Settings,
    old_choice: BackendChoice,
    target: StateBackend,
    options: InitOptions,
) -> tuple[list[str], list[Diagnostic]]:
    """Copy the workspaces of the old backend to `target` until one has errors.

    Return a line for each copy.
    """
    source, problems = _open_backend(old_choice, context, settings)
    if source is None:
        return [], problems
    lines: list[str] = []
    try:
        for name in source.list_workspaces():
            line, new_problems = _migrate_workspace(
                context, source.select_workspace(name), target.select_workspace(name), name, options
            )
            problems += new_problems
            if line:
                lines.append(line)
            if has_errors(new_problems):
                break
    except BackendProblem as problem:
        problems.append(build_error("state-migration-failed", str(problem)))
    return lines, problems


def _migrate_workspace(
    context: CommandContext,
    source: StateBackend,
    target: StateBackend,
    name: str,
    options: InitOptions,
) -> tuple[str, list[Diagnostic]]:
    """Lock a workspace in both backends and copy its state to the new one, `target`.

    Return a line about it, or "".
    """
    problems: list[Diagnostic] = []
    # The new backend is not recorded yet, so `force-unlock` needs its settings as flags.
    environment_prefix = "" if name == DEFAULT_WORKSPACE else f"NF_WORKSPACE={shlex.quote(name)} "
    unlock_new_backend = (
        f"break its lock with `{environment_prefix}nexusform force-unlock -backend-config=... ID` "
        "and the backend settings of this init, then migrate again"
    )
    with ExitStack() as exit_stack:
        for backend, remedy in ((source, _UNLOCK_OLD_BACKEND), (target, unlock_new_backend)):
            lock, new_problems = acquire_lock(
                backend,
                "migrate",
                options.locking,
                clock=SystemClock(),
                environment=context.environment,
                on_wait=lambda _: None,
                remedy=remedy,
            )
            problems += new_problems
            if lock is not None:
                exit_stack.callback(lock.release)
        # A lock is held by another run.
        if has_errors(problems):
            return "", problems
        line, new_problems = _copy_locked_state(
            context, source, target, name, force_copy=options.force_copy
        )
    return line, [*problems, *new_problems]


def _copy_locked_state(
    context: CommandContext,
    source: StateBackend,
    target: StateBackend,
    name: str,
    *,
    force_copy: bool,
) -> tuple[str, list[Diagnostic]]:
    """Copy the state of a workspace, also with invalid objects.

    Return a line about it, or "" with errors or without a state.
    """
    stored, problems = read_stored_state(source, checks_objects=False)
    target_stored, target_problems = read_stored_state(target, checks_objects=False)
    problems += target_problems
    # A state is unreadable, or there is nothing to copy.
    if stored is None or target_stored is None or not stored.state.lineage:
        return "", problems
    # Steps of an apply were started, but have no result.
    if stored.open_intents:
        unfinished_error = build_error(
            "unresolved-interrupted-apply",
            f'An apply in the workspace "{name}" was interrupted. Restore the previous backend '
            "settings, run `nexusform apply -resume`, then migrate.",
        )
        return "", [*problems, unfinished_error]
    rejection = _check_target_state(stored.state, target_stored.state, name, target)
    if rejection is not None and not force_copy:
        return "", [*problems, rejection]
    try:
        # The mark makes other commands report an interrupted migration.
        mark = get_migration_path(context.data_directory)
        write_file_atomically(mark, b"", PRIVATE, makes_directories=True)
    except OSError as problem:
        return "", [*problems, _build_write_error(context, problem)]
    # The records continue no journal of the target.
    preserved_lines = replace(stored, journal_end=None).list_preserved_lines()
    target.write_merged_state(state_codec.encode_state(stored.state), preserved_lines)
    return f'Migrated the state of workspace "{name}" to {target.describe()}.', problems


def _check_target_state(
    source: State, target_state: State, name: str, target: StateBackend
) -> Diagnostic | None:
    """Return an error if the state at the target is a different one or newer than the source."""
    if not target_state.lineage or (
        target_state.lineage == source.lineage and target_state.serial <= source.serial
    ):
        # The target is empty, or has an older version of the same state.
        return None
    return build_error(
        "backend-state-conflict",
        f'{target.describe()} already has a state for the workspace "{name}" (lineage '
        f"{target_state.lineage}, serial {target_state.serial}). To overwrite it, add -force-copy; "
        "to use it, run init -reconfigure instead.",
    )


def _build_backend_changed_error(old_choice: BackendChoice, choice: BackendChoice) -> Diagnostic:
    """Build the error for another backend than before.

    Its use needs -migrate-state or -reconfigure.
    """
    change_text = "its settings changed"
    if old_choice.kind != choice.kind:
        change_text = f'from "{old_choice.kind}" to "{choice.kind}"'
    return build_error(
        "backend-changed",
        f"The backend of this configuration changed ({change_text}), and the previous one has a "
        "state or cannot be read. To migrate the state, run `nexusform init -migrate-state`. To "
        "use the state of the new backend, run `nexusform init -reconfigure`.",
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
# nexusform: its working directory, plans and local states, which may contain secrets
.nexusform/
*.nfplan
state/*.nfstate*
"""
_TEXTS: Final = {"main.nf.hcl": _CONFIGURATION, ".gitignore": _GITIGNORE}


def find_missing_files(directory: str) -> tuple[str, ...]:
    """Return the names of the files to offer for creation, without existing ones.

    main.nf.hcl is offered if there is no configuration. .gitignore is offered with it, or in a
    git work tree.
    """
    names = list_directory(directory)
    missing_names = () if ".gitignore" in names else (".gitignore",)
    if not any(name.endswith((NATIVE, JSON)) for name in names):
        return ("main.nf.hcl", *missing_names)
    top = Path(directory).absolute()
    is_in_work_tree = any((folder / ".git").exists() for folder in (top, *top.parents))
    return missing_names if is_in_work_tree else ()


def write_first_file(directory: str, name: str) -> None:
    """Write one of the offered files; existing files are kept.

    Raises OSError.
    """
    with os.fdopen(create_file(Path(directory) / name, 0o666), "wb") as stream:
        stream.write(_TEXTS[name].encode())
