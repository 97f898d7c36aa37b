"""List of the modules of a configuration, and their mirror."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from nexusform.configuration.declarations.configuration import Module
from nexusform.configuration.remote_modules.module_lock import LockedModule, format_call
from nexusform.configuration.remote_modules.module_packages import read_lock_file
from nexusform.configuration.remote_modules.module_sources import (
    hide_server_parameters,
    is_local_path,
)
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.files.file_trees import UnsafeTree
from nexusform.workflow.module_packages.package_download import DownloadError
from nexusform.workflow.module_packages.package_mirror import write_mirror
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration


class ListedModule(Struct, frozen=True):
    """Module call of a configuration: its path, the block's source, and what the lock selects."""

    call: str
    source: str
    constraints: str
    directory: str
    locked: LockedModule | None = None


class ModuleList(Struct, frozen=True):
    """Modules of a configuration, with all problems."""

    modules: tuple[ListedModule, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


def list_project_modules(context: CommandContext) -> ModuleList:
    """List all module calls in source order, callers first."""
    configuration, problems = load_project_configuration(context)
    locked, _, lock_problems = read_lock_file(context.directory, context.confinement)
    if has_errors(lock_problems):
        # The configuration reports it if it has remote modules.
        locked = {}
    modules = (*_list_calls(configuration.root, locked), *_list_modules_of_tests(context, locked))
    return ModuleList(modules, tuple(problems), configuration.files)


def _list_calls(module: Module, locked: Mapping[str, LockedModule]) -> Iterator[ListedModule]:
    for call in module.calls.values():
        name = format_call(call.module.path)
        selection = None if is_local_path(call.source) else locked.get(name)
        shown_source = hide_server_parameters(call.source)
        yield ListedModule(name, shown_source, call.version, call.module.directory, selection)
        yield from _list_calls(call.module, locked)


def _list_modules_of_tests(
    context: CommandContext, locked: Mapping[str, LockedModule]
) -> Iterator[ListedModule]:
    """Yield the remote modules of run blocks, as `init` locked them."""
    for name, module in locked.items():
        if name.startswith("@"):
            directory = os.path.join(context.packages_directory, name)  # noqa: PTH118
            shown_source = hide_server_parameters(module.source)
            yield ListedModule(name, shown_source, module.constraints, directory, module)


def mirror_modules(context: CommandContext, directory: str) -> tuple[int, ModuleList]:
    """Write the packages of the lock file to a mirror.

    Return the number of new packages, and the modules with all problems.
    """
    listing = list_project_modules(context)
    if has_errors(listing.diagnostics):
        return 0, listing
    packages = [
        (module.locked, Path(context.packages_directory, module.call))
        for module in listing.modules
        if module.locked is not None
    ]
    try:
        target = context.confinement.resolve_path_of_operator(directory)
        return write_mirror(Path(target), packages), listing
    except OSError as problem:
        reason = f'"{directory}" cannot be written: {problem.strerror}.'
    except (DownloadError, UnsafeTree) as problem:
        reason = f"{str(problem).rstrip('.')}."
    error = build_error("module-mirror-failed", reason)
    return 0, ModuleList(listing.modules, (*listing.diagnostics, error), listing.sources)
