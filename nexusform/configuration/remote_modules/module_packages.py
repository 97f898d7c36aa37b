"""Downloaded packages of remote modules, as the lock file names them."""

import os
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from nexusform.configuration.declarations.configuration import CallHeader
from nexusform.configuration.remote_modules.module_lock import (
    LOCK_FILE,
    MAX_LOCK_BYTES,
    LockedModule,
    format_call,
    parse_lock_file,
    split_directories,
)
from nexusform.configuration.remote_modules.module_sources import (
    ModuleSource,
    hide_server_parameters,
)
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.files.file_trees import UnsafeTree
from nexusform.files.regular_files import UNCONFINED, Confinement, read_regular
from nexusform.files.tree_hash_cache import TreeHashCache

_INIT: Final = "Run `nexusform init`."


class InstalledPackage(Struct, frozen=True):
    """Package in a directory.

    `subdirectory` is the directory in it that a registry names, `incomplete` are directories of
    which files were left out.
    """

    directory: str
    subdirectory: str = ""
    incomplete: frozenset[str] = frozenset()

    def find_module_directory(self, source: ModuleSource) -> str:
        """Return the directory of the module of a source."""
        parts = (self.directory, self.subdirectory, source.subdirectory)
        return os.path.normpath(os.path.join(*parts))  # noqa: PTH118 - a shown path


def build_incomplete_error(
    directory: str, package: InstalledPackage, call: CallHeader
) -> Diagnostic | None:
    """Build an error if files of a directory of a package were left out."""
    path = os.path.relpath(directory, package.directory).replace(os.sep, "/")
    if path not in package.incomplete:
        return None
    detail = (
        f'Files of "{directory}" were left out: unusable names, or links out of the package. A '
        "module needs all files of its directory."
    )
    return build_package_error("module-package-rejected", detail, call)


class PackageFinder(Protocol):
    """Directories of the packages of remote modules."""

    @property
    def lock_file(self) -> SourceFile | None:
        """The lock file as read; None without remote modules or without the file."""

    def find_package(
        self, path: tuple[str, ...], call: CallHeader, source: ModuleSource
    ) -> tuple[InstalledPackage | None, list[Diagnostic]]:
        """Return the package of a call, and None with errors."""


def build_package_error(diagnostic_id: str, detail: str, call: CallHeader) -> Diagnostic:
    """Build an error at the source of a module block."""
    return build_error(diagnostic_id, detail, call.source_span, block=f'module "{call.name}"')


class NoPackages:
    """Finder of a configuration without a directory for modules."""

    lock_file: SourceFile | None = None

    def find_package(
        self, path: tuple[str, ...], call: CallHeader, source: ModuleSource
    ) -> tuple[InstalledPackage | None, list[Diagnostic]]:
        """Return an error: nothing is installed."""
        detail = f'The module "{format_call(path)}" ({source.package}) is not installed. {_INIT}'
        return None, [build_package_error("module-not-installed", detail, call)]


class LockedPackages:
    """Installed packages that match the lock file of a root module."""

    def __init__(
        self,
        directory: str,
        modules_directory: str,
        confinement: Confinement = UNCONFINED,
        cache_directory: str | None = None,
    ) -> None:
        """Use the lock file in `directory` and the packages below `modules_directory`.

        Hashes of unchanged packages are cached in `cache_directory` if given.
        """
        self._hashes = TreeHashCache(cache_directory)
        self._directory = directory
        self._modules_directory = modules_directory
        self._confinement = confinement
        self._modules: dict[str, LockedModule] | None = None
        self.lock_file: SourceFile | None = None

    def find_package(
        self, path: tuple[str, ...], call: CallHeader, source: ModuleSource
    ) -> tuple[InstalledPackage | None, list[Diagnostic]]:
        """Return a locked and unchanged package; None with errors."""
        problems: list[Diagnostic] = []
        if self._modules is None:
            self._modules, self.lock_file, problems = read_lock_file(
                self._directory, self._confinement
            )
        if has_errors(problems):
            return None, problems
        name = format_call(path)
        locked = self._modules.get(name)
        if locked is None or not is_locked_call(locked, call):
            reason = (
                f'The module "{name}" ({source.package}) is not in {LOCK_FILE}.'
                if locked is None
                else f'{LOCK_FILE} names another source or version for the module "{name}".'
            )
            return None, [build_package_error("module-not-installed", f"{reason} {_INIT}", call)]
        wrong_commit = describe_wrong_commit(source, locked.commit, f"{LOCK_FILE} has")
        if wrong_commit:
            detail = f"{wrong_commit} `nexusform init -upgrade` corrects it."
            return None, [build_package_error("module-changed", detail, call)]
        directory = os.path.join(self._modules_directory, name)  # noqa: PTH118 - a shown path
        return self._check_package(directory, locked, call)

    def _check_package(
        self, directory: str, locked: LockedModule, call: CallHeader
    ) -> tuple[InstalledPackage | None, list[Diagnostic]]:
        """Return the package if its files have the hash of the lock."""
        try:
            tree = Path(self._confinement.resolve(directory))
            if not tree.is_dir():
                shown_source = hide_server_parameters(locked.source)
                detail = (
                    f'The module "{locked.call}" ({shown_source}) is not in "{directory}". {_INIT}'
                )
                return None, [build_package_error("module-not-installed", detail, call)]
            actual_hash = self._hashes.compute_hash(tree)
        except (OSError, UnsafeTree) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else str(problem)
            detail = f'The module "{locked.call}" in "{directory}" cannot be used: {reason}'
            return None, [
                build_package_error("module-changed", f"{detail.rstrip('.')}. {_INIT}", call)
            ]
        if actual_hash != locked.hash:
            detail = (
                f'The files of the module "{locked.call}" in "{directory}" differ from '
                f"{LOCK_FILE}: the hash is {actual_hash}, not {locked.hash}. `nexusform init` "
                "restores them."
            )
            return None, [build_package_error("module-changed", detail, call)]
        return build_installed_package(directory, locked), []


class PlannedPackages:
    """Packages of a saved plan: its lock file and configuration files are in the plan."""

    def __init__(self, root: str, modules_directory: str, lock_text: str) -> None:
        """Use the files of the plan below `root`."""
        relative_path = modules_directory.lstrip("/")
        self._modules_directory = os.path.join(root, relative_path)  # noqa: PTH118
        self._modules: dict[str, LockedModule] | None = None
        self.lock_file: SourceFile | None = SourceFile(LOCK_FILE, lock_text) if lock_text else None

    def find_package(
        self, path: tuple[str, ...], call: CallHeader, source: ModuleSource
    ) -> tuple[InstalledPackage | None, list[Diagnostic]]:
        """Return a package as in the plan."""
        if self._modules is None and self.lock_file is not None:
            self._modules, _ = parse_lock_file(self.lock_file)
        name = format_call(path)
        locked = (self._modules or {}).get(name)
        directory = os.path.join(self._modules_directory, name)  # noqa: PTH118
        if locked is None or not is_locked_call(locked, call) or not Path(directory).is_dir():
            detail = (
                f'The saved plan has no files of the module "{name}" ({source.package}). Plan '
                "again."
            )
            return None, [build_package_error("module-not-installed", detail, call)]
        return build_installed_package(directory, locked), []


def build_installed_package(directory: str, locked: LockedModule) -> InstalledPackage:
    """Build the package in a directory from its lock entry."""
    return InstalledPackage(directory, locked.subdirectory, split_directories(locked.incomplete))


def describe_wrong_commit(source: ModuleSource, commit: str, place: str) -> str:
    """Return a sentence about a commit that is not that of the source; "" if it is right.

    A source with a branch or tag may be any commit. `place` is the start of the sentence.
    """
    if not source.is_commit or commit == source.ref:
        return ""
    wrong_text = f"the commit {commit}" if commit else "no commit"
    return f"{place} {wrong_text}, but the source names {source.ref}. Find out who changed it."


def is_locked_call(locked: LockedModule, call: CallHeader) -> bool:
    """Return whether a lock entry is for the source and version constraints of a block.

    Parameters of a server do not count: the checksum identifies an archive.
    """
    locked_source = hide_server_parameters(locked.source)
    is_same_source = locked_source == hide_server_parameters(call.source)
    return is_same_source and locked.constraints == call.version


def read_lock_file(
    directory: str, confinement: Confinement = UNCONFINED
) -> tuple[dict[str, LockedModule], SourceFile | None, list[Diagnostic]]:
    """Read the lock file of a root module.

    Return its modules by call, its text (None without the file), and its errors.
    """
    path = os.path.normpath(os.path.join(directory, LOCK_FILE))  # noqa: PTH118 - a shown path
    try:
        text = read_regular(confinement.resolve(path), MAX_LOCK_BYTES).decode()
    except FileNotFoundError:
        return {}, None, []
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        detail = f'"{path}" cannot be read: {reason}. Restore the file from version control.'
        return {}, None, [build_error("invalid-module-lock", detail)]
    source = SourceFile(path, text)
    modules, problems = parse_lock_file(source)
    return modules, source, problems
