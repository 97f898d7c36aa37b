"""Mirrors of module packages: a directory with an index, for machines without a network."""

import json
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from nexusform.configuration.remote_modules.module_lock import LockedModule, is_tree_hash
from nexusform.configuration.remote_modules.module_sources import ModuleSource, find_package_name
from nexusform.configuration.version_constraints import sort_versions
from nexusform.files.directories import make_directories, open_directory, remove_tree
from nexusform.files.file_trees import UnsafeTree, compute_tree_hash, read_tree, write_tree
from nexusform.files.regular_files import read_regular, write_file_atomically
from nexusform.network.read_limits import parse_json
from nexusform.workflow.module_packages.package_download import DownloadError

INDEX: Final = "index.json"
_FORMAT: Final = "nexusform-module-mirror"
_TEMPORARY_PREFIX: Final = ".copy-"
_MAX_INDEX_BYTES: Final = 1 << 26
_INDEX_MODE: Final = 0o644
_KEYS: Final = ("package", "version", "commit", "hash")
_OPTIONAL_KEYS: Final = ("subdirectory", "incomplete")


class MirroredPackage(Struct, frozen=True):
    """Package of a mirror: the canonical form of its source, and what the lock file names."""

    package: str
    version: str
    commit: str
    hash: str
    subdirectory: str = ""
    incomplete: str = ""

    @property
    def directory(self) -> str:
        """The name of its directory in the mirror, from its hash."""
        return self.hash.removeprefix("h1:").replace("/", "_").replace("+", "-").rstrip("=")


def read_mirror(directory: Path) -> list[MirroredPackage]:
    """Read the index of a mirror.

    Raises DownloadError.
    """
    path = directory / INDEX
    try:
        document = parse_json(read_regular(path, _MAX_INDEX_BYTES))
    except OSError as problem:
        raise DownloadError(
            f'"{path}" cannot be read: {problem.strerror}. `nexusform modules mirror DIR` writes a '
            "mirror"
        ) from None
    except ValueError as problem:
        raise DownloadError(f'"{path}" is unusable: {problem}') from None
    packages = _parse_index(document)
    if packages is None:
        raise DownloadError(f'"{path}" is not the index of a mirror of modules')
    return packages


def _parse_index(document: Any) -> list[MirroredPackage] | None:
    is_index = isinstance(document, dict) and document.get("format") == _FORMAT
    entries = document.get("packages") if is_index else None
    if not isinstance(entries, list):
        return None
    packages: list[MirroredPackage] = []
    for entry in entries:
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in _KEYS):
            return None
        if not is_tree_hash(entry["hash"]):
            return None
        # Older versions wrote the parameters of a server, too.
        package = find_package_name(entry["package"]) or entry["package"]
        options = {key: entry[key] for key in _OPTIONAL_KEYS if isinstance(entry.get(key), str)}
        packages.append(MirroredPackage(package, *(entry[key] for key in _KEYS[1:]), **options))
    return packages


def select_mirrored_package(
    packages: Iterable[MirroredPackage],
    source: ModuleSource,
    constraints: str,
    pinned: LockedModule | None,
) -> MirroredPackage:
    """Return the package of a mirror for a source: the pinned one, else the newest version.

    Raises DownloadError.
    """
    matching = [package for package in packages if package.package == source.package]
    if pinned is not None:
        matching = [package for package in matching if package.hash == pinned.hash]
    elif source.kind == "registry":
        newest = sort_versions((package.version for package in matching), constraints)[-1:]
        matching = [package for package in matching if package.version in newest]
    if not matching:
        raise DownloadError(
            f"the mirror has no {source.package}"
            + (f" with the hash {pinned.hash}" if pinned is not None else "")
            + ". Write it with `nexusform modules mirror DIR` on a machine with a network"
        )
    # The last one written.
    return matching[-1]


def write_mirror(directory: Path, modules: Iterable[tuple[LockedModule, Path]]) -> int:
    """Add the packages of locked modules, each with its directory, to a mirror.

    A damaged package is written again. Return the number of packages written.
    Raises DownloadError, UnsafeTree, OSError.
    """
    make_directories(directory)
    packages = read_mirror(directory) if (directory / INDEX).exists() else []
    count = 0
    for module, tree in modules:
        package = MirroredPackage(
            find_package_name(module.source),
            module.version,
            module.commit,
            module.hash,
            module.subdirectory,
            module.incomplete,
        )
        target = directory / package.directory
        is_intact = _has_hash(target, package.hash)
        if is_intact and package in packages:
            continue
        if not is_intact:
            _copy_package(tree, target, package)
        packages = [*[entry for entry in packages if entry != package], package]
        count += 1
    entries = [
        {
            key: getattr(package, key)
            for key in (*_KEYS, *_OPTIONAL_KEYS)
            if key in _KEYS or getattr(package, key)
        }
        for package in packages
    ]
    document = {"format": _FORMAT, "version": 1, "packages": entries}
    text = json.dumps(document, indent=2) + "\n"
    write_file_atomically(directory / INDEX, text.encode(), _INDEX_MODE)
    return count


def _has_hash(directory: Path, tree_hash: str) -> bool:
    """Return whether a directory of a mirror has the files of its hash."""
    try:
        return not directory.is_symlink() and compute_tree_hash(directory) == tree_hash
    except (OSError, UnsafeTree):
        return False


def _copy_package(tree: Path, target: Path, package: MirroredPackage) -> None:
    """Copy a package into a mirror, in place of a damaged one.

    The target appears complete. Raises DownloadError, UnsafeTree, OSError.
    """
    copy = target.with_name(f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}")
    make_directories(copy)
    try:
        write_tree(copy, read_tree(tree))
        if compute_tree_hash(copy) != package.hash:
            raise DownloadError(
                f'the files in "{tree}" changed meanwhile. Run `nexusform init` and write the '
                "mirror again"
            )
        with open_directory(target.parent) as mirror:
            if mirror.has_entry(target.name):
                mirror.remove_tree(target.name)
            mirror.rename(copy.name, target.name)
    finally:
        with suppress(OSError):
            remove_tree(copy)
