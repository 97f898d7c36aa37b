"""Modules of run blocks: local directories, and packages that `init` installs.

In the lock file, the path of such a module is the test file and the run: `@tests.@main.setup`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import (
    CallHeader,
    Configuration,
    Module,
    Settings,
)
from nexusform.configuration.loader import load_configuration
from nexusform.configuration.remote_modules.module_packages import InstalledPackage, PackageFinder
from nexusform.configuration.remote_modules.module_sources import (
    ModuleSource,
    is_local_path,
    parse_module_source,
)
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.domains.testing.configuration.test_file_blocks import RunBlock, TestFile
from nexusform.domains.testing.workflow.test_files import ENDINGS, find_test_files, read_test_file
from nexusform.resource_types.registry import build_registries
from nexusform.workflow.opening.command_context import CommandContext


class _RunPackages:
    """Finder of the modules below a run, whose paths start with that of the run."""

    def __init__(self, packages: PackageFinder, path: tuple[str, ...]) -> None:
        self._packages = packages
        self._path = path

    @property
    def lock_file(self) -> SourceFile | None:
        """The lock file as read."""
        return self._packages.lock_file

    def find_package(
        self, path: tuple[str, ...], call: CallHeader, source: ModuleSource
    ) -> tuple[InstalledPackage | None, list[Diagnostic]]:
        """Return the package of a call, and None with errors."""
        return self._packages.find_package((*self._path, *path), call, source)


def load_run_module(
    context: CommandContext, file: TestFile, run: RunBlock, packages: PackageFinder
) -> tuple[Configuration, list[Diagnostic]]:
    """Load the module of a run block with another module than the tested one.

    Return it with all problems.
    """
    path = _build_run_path(context, file, run)
    package = ""
    directory = os.path.join(context.directory, run.source)  # noqa: PTH118 - a shown path
    if not is_local_path(run.source):
        source = parse_module_source(run.source)
        call = _build_call(run)
        installed, problems = packages.find_package(path, call, source)
        if installed is None:
            empty = Configuration(Module(path=(), directory=""), Settings(), files={})
            return empty, [replace(problem, block=run.header) for problem in problems]
        package = installed.directory
        directory = installed.find_module_directory(source)
    types = build_registries()
    return load_configuration(
        os.path.normpath(directory),
        cache_directory=None,
        managed=types.schemas["managed"],
        data=types.schemas["data"],
        confinement=context.confinement,
        open_packages=lambda: _RunPackages(packages, path),
        package=package,
    )


def install_test_modules(
    context: CommandContext,
    test_directory: str,
    packages: PackageFinder,
    sources: dict[str, SourceFile],
) -> list[Diagnostic]:
    """Load the modules of all run blocks, so that `packages` installs the remote ones.

    Return the errors; texts of files are added to `sources`. Test files with errors are left out:
    `validate` and `test` report them.
    """
    problems: list[Diagnostic] = []
    for path in find_test_files(context, test_directory, requested_files=(), problems=[]):
        file, _ = read_test_file(path, context, sources)
        if file is None:
            continue
        for run in list_module_runs(file):
            configuration, new_problems = load_run_module(context, file, run, packages)
            sources.update(configuration.files)
            if not is_local_path(run.source) or has_remote_calls(configuration.root):
                problems += new_problems
    return problems


def list_module_runs(file: TestFile) -> Iterator[RunBlock]:
    """Yield the first run of each other module than the tested one."""
    seen: set[tuple[str, str]] = set()
    for run in file.runs:
        key = (run.source, run.version)
        if run.source and key not in seen:
            seen.add(key)
            yield run


def has_remote_calls(module: Module) -> bool:
    """Return whether a module calls a remote one, or calls one that does."""
    return any(
        not is_local_path(call.source) or has_remote_calls(call.module)
        for call in module.calls.values()
    )


def _build_run_path(context: CommandContext, file: TestFile, run: RunBlock) -> tuple[str, ...]:
    """Return the path of a run in the lock file: its first one with the same module.

    Files of different paths have different paths there: dots, spaces and others are escaped
    as in URLs.
    """
    name = Path(os.path.relpath(file.name, context.directory)).as_posix()
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    first = next(
        other for other in file.runs if (other.source, other.version) == (run.source, run.version)
    )
    parts = [quote(part, safe="").replace(".", "%2E") for part in name.split("/")]
    return (*(f"@{part}" for part in parts), first.name)


def _build_call(run: RunBlock) -> CallHeader:
    return CallHeader(
        name=run.name,
        source=run.source,
        version=run.version,
        source_span=run.source_span,
        inputs={},
        count=None,
        for_each=None,
        depends_on=(),
        span=run.span,
        header_span=run.span,
        enabled=None,
    )
