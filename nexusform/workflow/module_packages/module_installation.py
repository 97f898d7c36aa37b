"""Installation of remote modules by `init`: selects, downloads, checks and locks their packages.

`init` reads the configuration with this finder in place of that of plan and apply, so a module is
downloaded when its block is read, and its own modules after it.
"""

import os
import posixpath
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import CallHeader
from nexusform.configuration.remote_modules.module_lock import (
    LOCK_FILE,
    LockedModule,
    format_call,
    join_directories,
    render_lock_file,
)
from nexusform.configuration.remote_modules.module_packages import (
    InstalledPackage,
    build_installed_package,
    build_package_error,
    describe_wrong_commit,
    is_locked_call,
    read_lock_file,
)
from nexusform.configuration.remote_modules.module_sources import (
    ModuleSource,
    find_package_name,
    get_contacted_address,
    hide_server_parameters,
)
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    build_warning,
    has_errors,
)
from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.files.directories import OpenDirectory, make_directories, open_directory, remove_tree
from nexusform.files.file_trees import (
    TreeEntry,
    UnsafeTree,
    compute_tree_hash,
    read_tree,
    write_tree,
)
from nexusform.files.regular_files import remove_file, write_file_atomically
from nexusform.workflow.module_packages.archive_packages import download_archive
from nexusform.workflow.module_packages.git_packages import GitRepository, GitSelection
from nexusform.workflow.module_packages.package_download import DownloadError, build_rejection
from nexusform.workflow.module_packages.package_mirror import (
    MirroredPackage,
    read_mirror,
    select_mirrored_package,
)
from nexusform.workflow.module_packages.registry_packages import ModuleRegistry
from nexusform.workflow.opening.command_context import CommandContext

_LOCK_MODE: Final = 0o644
_SHORT_COMMIT: Final = 10
_MAX_NAMES: Final = 5
_TEMPORARY_PREFIX: Final = ".download-"
_ABANDONED_SECONDS: Final = 86_400


class ModuleOptions(Struct, frozen=True):
    """Options of `init` for modules.

    `test_directory` has test files whose modules are installed, too. `upgrade` selects the newest
    packages. `mirror` is a directory in place of the network. With `is_readonly` a change of the
    lock file is an error.
    """

    upgrade: bool = False
    mirror: str = ""
    is_readonly: bool = False
    test_directory: str = "tests"


class _Package(Struct, frozen=True):
    """Package in a directory: its selection without the path of a call, and its hash.

    `left_out` are its entries that are not written.
    """

    directory: Path
    hash: str
    version: str = ""
    commit: str = ""
    subdirectory: str = ""
    incomplete: str = ""
    warning: str = ""
    left_out: tuple[UnsafeTree, ...] = ()


class ModuleInstaller:
    """Finder of modules that downloads what the lock file lacks."""

    # The lock file belongs to no configuration before it is written.
    lock_file: SourceFile | None = None

    def __init__(
        self, context: CommandContext, options: ModuleOptions, report: Callable[[str], None]
    ) -> None:
        """Use the lock file of the context; `report` shows the progress."""
        self._context = context
        self.options = options
        self.report = report
        self._locked, source, self._lock_problems = read_lock_file(
            context.directory, context.confinement
        )
        self._lock_text = source.text if source else ""
        # Its lines are shown with its errors.
        if has_errors(self._lock_problems):
            self.lock_file = source
        self._selected: dict[str, LockedModule] = {}
        self._packages: dict[tuple[str, str, str], _Package] = {}
        # Messages by source: one server is not asked again.
        self._failures: dict[tuple[ModuleSource, str, str], DownloadError | UnsafeTree] = {}
        self._mirror: list[MirroredPackage] | None = None
        self._registries: dict[str, ModuleRegistry] = {}
        self._temporary_directories: list[Path] = []
        self.warnings: list[Diagnostic] = []

    def find_package(
        self, path: tuple[str, ...], call: CallHeader, source: ModuleSource
    ) -> tuple[InstalledPackage | None, list[Diagnostic]]:
        """Return an installed package; None with errors."""
        if has_errors(self._lock_problems):
            problems = self._lock_problems
            self._lock_problems = []
            return None, problems
        name = format_call(path)
        locked = self._locked.get(name)
        if locked is not None and not is_locked_call(locked, call):
            locked = None
        directory = os.path.join(self._context.packages_directory, name)  # noqa: PTH118
        # The lock file is committed, and a parameter of a server may be a secret.
        recorded_source = hide_server_parameters(call.source)
        try:
            tree = Path(self._context.confinement.resolve(directory))
            pinned = None if self.options.upgrade else locked or self._find_sibling(source, call)
            if pinned is not None:
                _check_commit(
                    source, pinned.commit, LOCK_FILE, "`nexusform init -upgrade` corrects it"
                )
            installed_hash = _compute_installed_hash(tree)
            if pinned is not None and installed_hash == pinned.hash:
                module = replace(pinned, call=name, source=recorded_source)
                self._selected[name] = module
                return build_installed_package(directory, module), []
            package = self._get_package(name, source, call.version, pinned)
            _check_module_directory(package, source)
            module = LockedModule(
                call=name,
                source=recorded_source,
                constraints=call.version,
                version=package.version,
                commit=package.commit,
                subdirectory=package.subdirectory,
                incomplete=package.incomplete,
                hash=package.hash,
            )
            recorded = self._locked.get(name)
            is_recorded = recorded is not None and replace(recorded, span=None) == module
            if self.options.is_readonly and not is_recorded:
                return None, [_build_readonly_error(call)]
            if package.hash != installed_hash:
                _replace_tree(tree, package.directory)
        except DownloadError as problem:
            reason = str(problem).rstrip(".")
            detail = f'The module "{name}" cannot be downloaded: {reason}.'
            return None, [build_package_error("module-download-failed", detail, call)]
        except UnsafeTree as problem:
            detail = f'The package of the module "{name}" is rejected. {problem}'
            return None, [build_package_error("module-package-rejected", detail, call)]
        except OSError as problem:
            detail = f'"{directory}" cannot be written: {problem.strerror}.'
            return None, [build_package_error("module-download-failed", detail, call)]
        self._select(module, call, package.warning, locked, directory)
        return build_installed_package(directory, module), []

    def _find_sibling(self, source: ModuleSource, call: CallHeader) -> LockedModule | None:
        """Return a locked module of another call with the same package and version constraints."""
        for module in (*self._selected.values(), *self._locked.values()):
            is_same = module.constraints == call.version
            if is_same and find_package_name(module.source) == source.package:
                return module
        return None

    def _select(
        self,
        module: LockedModule,
        call: CallHeader,
        warning: str,
        locked: LockedModule | None,
        directory: str,
    ) -> None:
        self._selected[module.call] = module
        if warning:
            self.warnings.append(build_warning("module-content-skipped", warning, call.source_span))
        old_text = _describe_selection(locked) if locked is not None else ""
        new_text = _describe_selection(module)
        change = f"{old_text} -> {new_text}" if old_text not in ("", new_text) else new_text
        self.report(f"- {module.call}{f' {change}' if change else ''} in {directory}")

    def _get_package(
        self, name: str, source: ModuleSource, constraints: str, pinned: LockedModule | None
    ) -> _Package:
        """Return a package, downloaded once for all calls.

        Raises DownloadError, UnsafeTree, OSError.
        """
        expected_hash = pinned.hash if pinned else ""
        key = (source.package, constraints, expected_hash)
        # Another signature in the address may be accepted.
        failure_key = (replace(source, subdirectory=""), constraints, expected_hash)
        if failure_key in self._failures:
            raise self._failures[failure_key]
        if key in self._packages:
            return self._packages[key]
        self.report(f"Downloading {source.package} for {name}...")
        try:
            package = self._download(source, constraints, pinned)
        except (DownloadError, UnsafeTree) as problem:
            self._failures[failure_key] = problem
            raise
        self._packages[key] = package
        # Later calls with this source find it as locked.
        self._packages[source.package, constraints, package.hash] = package
        return package

    def _download(
        self, source: ModuleSource, constraints: str, pinned: LockedModule | None
    ) -> _Package:
        """Download a package into a temporary directory and check its hash."""
        packages_directory = Path(
            self._context.confinement.resolve(self._context.packages_directory)
        )
        directory = packages_directory / f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        make_directories(directory)
        self._temporary_directories.append(directory)
        version = commit = subdirectory = incomplete = ""
        warnings: list[str] = []
        left_out: list[UnsafeTree] = []
        if self.options.mirror:
            mirror = self._context.confinement.resolve_path_of_operator(self.options.mirror)
            if self._mirror is None:
                self._mirror = read_mirror(Path(mirror))
            mirrored = select_mirrored_package(self._mirror, source, constraints, pinned)
            version = mirrored.version
            commit = mirrored.commit
            _check_commit(source, commit, "the index of the mirror", "Write the mirror again")
            if pinned is not None and pinned.commit != commit:
                raise DownloadError(
                    f"the index of the mirror has the commit {commit or '(none)'}, and {LOCK_FILE} "
                    f"has {pinned.commit or '(none)'}. Find out who changed it. Write the mirror "
                    "again, or `nexusform init -upgrade` accepts the commit of the mirror"
                )
            subdirectory = mirrored.subdirectory
            incomplete = mirrored.incomplete
            write_tree(directory, read_tree(Path(mirror, mirrored.directory)))
            expected_hash = mirrored.hash
        else:
            expected_hash = pinned.hash if pinned else ""
            if source.kind == "registry":
                host, _, module_name = source.address.partition("/")
                registry = self._get_registry(host)
                version = (
                    pinned.version if pinned else registry.select_version(module_name, constraints)
                )
                source = registry.find_source(module_name, version)
                subdirectory = source.subdirectory
            commit, left_out, submodules = self._download_files(source, pinned, directory)
            incomplete = join_directories(entry.directory for entry in left_out)
            warnings = list(_describe_skipped_content(left_out, submodules))
        tree_hash = compute_tree_hash(directory)
        if expected_hash and tree_hash != expected_hash:
            place = "the index of the mirror" if self.options.mirror else LOCK_FILE
            remedy = (
                "Write the mirror again"
                if self.options.mirror
                else "`nexusform init -upgrade` accepts the new content"
            )
            raise DownloadError(
                f"its hash is {tree_hash}, not {expected_hash} as in {place}. Find out who changed "
                f"it. {remedy}"
            )
        return _Package(
            directory,
            tree_hash,
            version,
            commit,
            subdirectory,
            incomplete,
            " ".join(warnings),
            tuple(left_out),
        )

    def _get_registry(self, host: str) -> ModuleRegistry:
        context = self._context
        return self._registries.setdefault(
            host, ModuleRegistry(host, context.environment, context.is_module_allowed)
        )

    def _download_files(
        self, source: ModuleSource, pinned: LockedModule | None, directory: Path
    ) -> tuple[str, list[UnsafeTree], list[str]]:
        """Write the files of a git repository or an archive.

        Return the commit, the entries left out, and the names of submodules.
        """
        if source.kind == "archive":
            entries = download_archive(source, self._context.is_module_allowed)
            if source.strips_top_directory:
                entries = _strip_top_directory(entries)
            return "", write_tree(directory, entries), []
        address = get_contacted_address(source)
        if not self._context.is_module_allowed(address):
            raise DownloadError(build_rejection(address))
        is_confined = bool(self._context.confinement.root)
        with GitRepository(source, self._context.environment, confined=is_confined) as repository:
            selection = (
                GitSelection(pinned.commit)
                if pinned is not None and pinned.commit
                else repository.select_commit()
            )
            repository.fetch(selection)
            left_out = write_tree(directory, repository.read_files(selection.commit))
            submodules = sorted(repository.submodules)
        return selection.commit, left_out, submodules

    def finish(self, *, is_complete: bool) -> list[Diagnostic]:
        """Write the lock file and remove temporary and unused directories.

        Without `is_complete` (after errors) other entries of the lock file stay. Return errors.
        """
        for directory in self._temporary_directories:
            with suppress(OSError):
                remove_tree(directory)
        if not self._selected and not (is_complete and self._locked):
            return []
        modules = self._selected if is_complete else {**self._locked, **self._selected}
        text = render_lock_file(modules.values()) if modules else ""
        if text != self._lock_text:
            if self.options.is_readonly:
                return [_build_readonly_error()]
            try:
                self._write_lock(text)
            except OSError as problem:
                detail = f"{LOCK_FILE} cannot be written: {problem.strerror}."
                return [build_error("invalid-module-lock", detail)]
        if is_complete:
            self._remove_unused_directories()
        return []

    def _write_lock(self, text: str) -> None:
        path = Path(self._context.confinement.resolve(Path(self._context.directory, LOCK_FILE)))
        if text:
            write_file_atomically(path, text.encode(), _LOCK_MODE)
        else:
            remove_file(path, missing_ok=True)

    def _remove_unused_directories(self) -> None:
        """Remove the directories of former calls, as the old lock file names them."""
        directory = self._context.packages_directory
        with (
            suppress(OSError),
            open_directory(self._context.confinement.resolve(directory)) as packages,
        ):
            for name in self._locked.keys() - self._selected.keys():
                with suppress(OSError):
                    _remove_package(packages, name)
            _remove_abandoned_downloads(packages)


def _build_readonly_error(call: CallHeader | None = None) -> Diagnostic:
    """Build the error for a change of the lock file with -lockfile=readonly."""
    detail = (
        f"{LOCK_FILE} would change, and -lockfile=readonly does not allow it. Run "
        "`nexusform init` and commit the file."
    )
    return build_error("module-lock-readonly", detail, call.source_span if call else None)


def _describe_selection(module: LockedModule) -> str:
    """Return the version or commit of a module for a line of progress."""
    return module.version or (f"(commit {module.commit[:_SHORT_COMMIT]})" if module.commit else "")


def _compute_installed_hash(directory: Path) -> str:
    """Return the hash of an installed tree; "" without a usable one."""
    if not directory.is_dir() or directory.is_symlink():
        return ""
    try:
        return compute_tree_hash(directory)
    except (OSError, UnsafeTree):
        return ""


def _replace_tree(target: Path, source: Path) -> None:
    """Replace a directory by a copy of another one beside it, in one step."""
    copy = source.with_name(f"{source.name}-{secrets.token_hex(4)}")
    make_directories(copy)
    try:
        write_tree(copy, read_tree(source))
        with open_directory(target.parent) as packages:
            _remove_package(packages, target.name)
            packages.rename(copy.name, target.name)
    finally:
        with suppress(OSError):
            remove_tree(copy)


def _remove_package(packages: OpenDirectory, name: str) -> None:
    """Remove the directory of a package, or a link or file in its place."""
    if not packages.has_entry(name):
        return
    trash = f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    packages.rename(name, trash)
    with suppress(OSError):
        packages.remove_tree(trash)


def _remove_abandoned_downloads(packages: OpenDirectory) -> None:
    """Remove temporary directories of killed processes; a running one is younger than a day."""
    for name in packages.list_names():
        is_temporary = name.startswith(_TEMPORARY_PREFIX)
        if is_temporary and time.time() - packages.get_status(name).st_mtime > _ABANDONED_SECONDS:
            packages.remove_tree(name)


def _check_commit(source: ModuleSource, commit: str, place: str, remedy: str) -> None:
    """Check that a commit is that of the source, if the source names one.

    Raises DownloadError.
    """
    wrong_commit = describe_wrong_commit(source, commit, f"{place} has")
    if wrong_commit:
        raise DownloadError(f"{wrong_commit} {remedy}")


def _check_module_directory(package: _Package, source: ModuleSource) -> None:
    """Check that no entry of the directory of a module was left out.

    Raises UnsafeTree.
    """
    directory = posixpath.normpath(posixpath.join(package.subdirectory, source.subdirectory))
    for entry in package.left_out:
        if entry.directory == directory:
            raise UnsafeTree(str(entry))


def _describe_skipped_content(
    left_out: Sequence[UnsafeTree], submodules: Sequence[str]
) -> Iterator[str]:
    """Yield warnings about the parts of a package that are not installed."""
    if left_out:
        reasons = " ".join(str(entry) for entry in left_out[:_MAX_NAMES])
        more = len(left_out) - _MAX_NAMES
        rest = f" {format_count(more, 'more file')}." if more > 0 else ""
        yield f"Files of the package are left out. {reasons}{rest}"
    if submodules:
        names = format_first_items(submodules, _MAX_NAMES)
        yield (
            f"Submodules are not downloaded: {names}. Refer to their repositories by module blocks."
        )


def _strip_top_directory(entries: Iterable[TreeEntry]) -> Iterator[TreeEntry]:
    """Yield the files below the only directory at the top of an archive.

    Raises UnsafeTree for another archive.
    """
    top = ""
    for entry in entries:
        # `write_tree` checks the rest.
        first, _, rest = entry.path.removeprefix("./").partition("/")
        top = top or first
        if first != top or not rest:
            raise UnsafeTree('It has more than one directory at its top, so "//*" names none.')
        yield TreeEntry(rest, entry.content, entry.link)
