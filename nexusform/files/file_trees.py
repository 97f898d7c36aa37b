"""Trees of files from outside, such as module packages: written safely, and hashed.

A tree has regular files, directories, and links that stay in it. Files are written first and links
last, so no file is written through a link.
"""

import hashlib
import os
import posixpath
import stat
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from nexusform.files.directories import LinkInWorkTree, OpenDirectory, open_directory
from nexusform.files.regular_files import CREATE_FLAGS, is_path_below, read_regular, write_all_bytes

# Maximum of one tree.
MAX_TREE_FILES: Final = 50_000
_MAX_TREE_BYTES: Final = 512 * 1024 * 1024
_FILE_MODE: Final = 0o644
_MAX_NAME_LENGTH: Final = 1024
_WINDOWS_LETTERS: Final = frozenset('<>:"|?*\\')


class UnsafeTree(Exception):
    """Tree that is not written or not used; the message is a sentence for the user.

    With a `directory`, only one entry of this directory is; without it, the rest is usable.
    """

    def __init__(self, message: str, directory: str = "") -> None:
        super().__init__(message)
        self.directory = directory


class TreeEntry(Struct, frozen=True):
    """File of a tree: its path with slashes, and its content, or the target of a link."""

    path: str
    content: bytes = b""
    link: str | None = None


class TreeLimits:
    """Remaining number of files and bytes of a tree that is read."""

    def __init__(self, max_files: int = MAX_TREE_FILES, max_bytes: int = _MAX_TREE_BYTES) -> None:
        self._files = max_files
        self._max_files = max_files
        self._max_bytes = max_bytes
        self.remaining_bytes = max_bytes

    def check_number(self, number: int) -> None:
        """Check the number of files and directories before they are read.

        Raises UnsafeTree.
        """
        if number > 2 * self._max_files:
            raise UnsafeTree(f"It has more than {self._max_files:,} files.")

    def check_files(self, number: int) -> None:
        """Check the number of files before they are read.

        Raises UnsafeTree.
        """
        if number > self._max_files:
            raise UnsafeTree(f"It has more than {self._max_files:,} files.")

    def count(self, size: int) -> None:
        """Count a file.

        Raises UnsafeTree above a maximum.
        """
        self._files -= 1
        if self._files < 0:
            raise UnsafeTree(f"It has more than {self._max_files:,} files.")
        self.count_bytes(size)

    def count_bytes(self, size: int) -> None:
        """Count bytes of a counted file.

        Raises UnsafeTree above the maximum.
        """
        self.remaining_bytes -= size
        if self.remaining_bytes < 0:
            raise UnsafeTree(f"Its files have more than {self._max_bytes >> 20} MiB.")


def check_tree_path(path: str) -> str:
    """Return the normal form of a path in a tree.

    Raises UnsafeTree for a path out of the tree, and with a directory for an unusable name.
    """
    shown_path = ascii(path[:80])
    if path.startswith("/") or ".." in path.split("/"):
        raise UnsafeTree(f"The path {shown_path} leads out of it.")
    normal_path = posixpath.normpath(path)
    directory = ""
    for part in normal_path.split("/"):
        if part.casefold() == ".git":
            raise UnsafeTree(f"It contains a .git directory: {shown_path}.", directory or ".")
        is_usable = part.isprintable() and "\\" not in part and len(path) <= _MAX_NAME_LENGTH
        if not is_usable or (os.name == "nt" and _WINDOWS_LETTERS.intersection(part)):
            raise UnsafeTree(
                f"It has a file with an unusable name: {shown_path}.", directory or "."
            )
        directory = posixpath.join(directory, part)
    return normal_path


def write_tree(directory: Path, entries: Iterable[TreeEntry]) -> list[UnsafeTree]:
    """Write a tree into an empty directory.

    Return the entries left out: unusable names, and links out of the tree. Raises UnsafeTree,
    OSError. After an error the directory has a part of the files.
    """
    with open_directory(directory) as top:
        return _write_entries(top, entries)


def _write_entries(top: OpenDirectory, entries: Iterable[TreeEntry]) -> list[UnsafeTree]:
    links: list[tuple[str, str]] = []
    left_out: list[UnsafeTree] = []
    for entry in entries:
        try:
            path = check_tree_path(entry.path)
        except UnsafeTree as problem:
            if not problem.directory:
                raise
            left_out.append(problem)
            continue
        if entry.link is not None:
            links.append((path, entry.link))
            continue
        with _open_entry_directory(top, path) as directory:
            try:
                descriptor = directory.open_file(posixpath.basename(path), CREATE_FLAGS, _FILE_MODE)
            except FileExistsError:
                raise UnsafeTree(f"It contains {path!a} twice.") from None
        try:
            write_all_bytes(descriptor, entry.content)
        finally:
            os.close(descriptor)
    return [*left_out, *_write_links(top, links)]


def _open_entry_directory(top: OpenDirectory, path: str) -> OpenDirectory:
    """Open the directory of an entry, created if missing.

    Raises OSError; UnsafeTree if one of its parts is another entry.
    """
    directory = top.open_again()
    for part in posixpath.dirname(path).split("/"):
        if not part:
            continue
        try:
            child = directory.open_directory(part, create=True)
        except (LinkInWorkTree, NotADirectoryError):
            raise UnsafeTree(f"It contains {path!a} twice.") from None
        finally:
            directory.close()
        directory = child
    return directory


def _write_links(top: OpenDirectory, links: Iterable[tuple[str, str]]) -> list[UnsafeTree]:
    """Write the links of a tree, and return those left out."""
    left_out: list[UnsafeTree] = []
    written: list[str] = []
    for path, link in links:
        if os.path.lexists(os.path.join(top.path, path)):  # noqa: PTH118
            raise UnsafeTree(f"It contains {path!a} twice.")
        try:
            _check_link(path, link)
        except UnsafeTree as problem:
            left_out.append(problem)
            continue
        with _open_entry_directory(top, path) as directory:
            try:
                directory.make_link(posixpath.basename(path), link)
            except FileExistsError:
                raise UnsafeTree(f"It contains {path!a} twice.") from None
        written.append(path)
    # Without one link, another may lead elsewhere.
    has_changed = True
    while has_changed:
        problems = _list_links_out(Path(top.path), written)
        for path in problems:
            with _open_entry_directory(top, path) as directory:
                directory.remove_file(posixpath.basename(path))
        left_out += problems.values()
        written = [path for path in written if path not in problems]
        has_changed = bool(problems)
    return left_out


def _list_links_out(directory: Path, paths: Iterable[str]) -> dict[str, UnsafeTree]:
    problems: dict[str, UnsafeTree] = {}
    for path in paths:
        try:
            _check_link_target(directory, directory / path, path)
        except UnsafeTree as problem:
            problems[path] = problem
    return problems


def _check_link(path: str, target: str) -> None:
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    is_outside = target.startswith("/") or resolved == ".." or resolved.startswith("../")
    if is_outside or not target.isprintable() or "\\" in target or not target:
        raise UnsafeTree(f"The link {path!a} leads out of it.", posixpath.dirname(path) or ".")
    if any(part.casefold() == ".git" for part in target.split("/")):
        raise UnsafeTree(
            f"The link {path!a} leads to a .git directory.", posixpath.dirname(path) or "."
        )


def _check_link_target(directory: Path, link: Path, path: str) -> None:
    """Check the target of a link through all other links.

    Raises UnsafeTree.
    """
    root = os.path.realpath(directory)
    try:
        target = os.path.realpath(link, strict=False)
    except (OSError, RuntimeError):
        raise UnsafeTree(
            f"The link {path!a} has no target.", posixpath.dirname(path) or "."
        ) from None
    if not is_path_below(target, root):
        raise UnsafeTree(f"The link {path!a} leads out of it.", posixpath.dirname(path) or ".")


def compute_tree_hash(directory: Path) -> str:
    """Compute the hash of a tree, as `h1:` of Go modules and Terraform: SHA-256 of a list of files.

    Raises UnsafeTree, OSError.
    """
    limits = TreeLimits()
    lines: list[tuple[str, str]] = []
    for path, entry in _list_files(directory, ""):
        if entry.is_symlink():
            _check_link_target(directory, Path(entry.path), path)
            limits.count(0)
            # A file cannot have this name.
            name = f"{path}\0link"
            digest = hashlib.sha256(os.fsencode(os.readlink(entry.path))).hexdigest()  # noqa: PTH115
        elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
            content = read_regular(entry.path, max(limits.remaining_bytes, 0), follow=False)
            limits.count(len(content))
            name = path
            digest = hashlib.sha256(content).hexdigest()
        else:
            raise UnsafeTree(f"{path!a} is neither a file nor a directory.")
        lines.append((name, digest))
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(lines))
    summary = hashlib.sha256(text.encode(errors="surrogateescape")).digest()
    return f"h1:{b64encode(summary).decode()}"


def compute_tree_fingerprint(directory: Path) -> tuple[str, int]:
    """Return a digest of the status of all files of a tree, and the newest time of change in ns.

    Raises UnsafeTree, OSError.
    """
    newest_change = 0
    lines: list[str] = []
    for path, entry in _list_files(directory, ""):
        status = entry.stat(follow_symlinks=False)
        newest_change = max(newest_change, status.st_ctime_ns)
        lines.append(
            f"{path}\0{status.st_mode} {status.st_size} {status.st_ino} {status.st_dev} "
            f"{status.st_mtime_ns} {status.st_ctime_ns}"
        )
    text = "\n".join(sorted(lines))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest(), newest_change


def _list_files(directory: Path, prefix: str) -> list[tuple[str, os.DirEntry[str]]]:
    """List the files below a directory with their paths, without following links."""
    files: list[tuple[str, os.DirEntry[str]]] = []
    directories = [(os.fspath(directory), prefix)]
    while directories:
        path, path_in_tree = directories.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                name = f"{path_in_tree}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    directories.append((entry.path, f"{name}/"))
                else:
                    files.append((name, entry))
        if len(files) + len(directories) > 2 * MAX_TREE_FILES:
            raise UnsafeTree(f"It has more than {MAX_TREE_FILES:,} files.")
    return files


def read_tree(directory: Path) -> list[TreeEntry]:
    """Read a tree, to copy it.

    Raises UnsafeTree, OSError.
    """
    limits = TreeLimits()
    tree: list[TreeEntry] = []
    for path, entry in sorted(_list_files(directory, ""), key=lambda pair: pair[0]):
        if entry.is_symlink():
            limits.count(0)
            tree.append(TreeEntry(path, link=os.readlink(entry.path)))  # noqa: PTH115
            continue
        content = read_regular(entry.path, max(limits.remaining_bytes, 0), follow=False)
        limits.count(len(content))
        tree.append(TreeEntry(path, content))
    return tree
