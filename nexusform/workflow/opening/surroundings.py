"""The real files and the real clock; and the files that users name for what nexusform hands out: plans,
reports, rescued state.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from nexusform.configuration.declared.limits import DEFAULT, VARIABLE
from nexusform.diagnostics import Refused, error
from nexusform.log import log
from nexusform.ports import FileProblem
from nexusform.regular_files import (
    FREE,
    PRIVATE,
    Confinement,
    NotRegular,
    Outside,
    TooLarge,
    open_to_read,
    read_regular,
    write_whole,
)

SIZE_CAP: Final = 64 * 1024 * 1024  # bytes that one file() may give


def read_file(path: str, most: int, confinement: Confinement = FREE, *, hint: str = "") -> bytes:
    """The whole content of a file of at most so many bytes; `hint` says what to do about a larger one.

    Raises FileProblem for what is missing, special, too large, or outside of the confinement.
    """
    log("debug", "file read", path=path)
    with _told(path, most, hint):
        return read_regular(confinement.admitted(path), most)


def open_file(path: str, most: int, confinement: Confinement = FREE, *, hint: str = "") -> BinaryIO:
    """A file to be read piece by piece; for the rest as `read_file`."""
    log("debug", "file read", path=path)
    with _told(path, most, hint):
        return open_to_read(confinement.admitted(path), most)


@contextmanager
def _told(path: str, most: int, hint: str) -> Iterator[None]:
    """What a system says of a file that cannot be read, as a FileProblem."""
    try:
        yield
    except FileNotFoundError:
        raise FileProblem(f'There is no file "{path}".') from None
    except NotRegular:
        raise FileProblem(f'"{path}" is not a regular file.') from None
    except TooLarge:
        detail = f'"{path}" is larger than {most} bytes, the most that is read. {hint}'
        raise FileProblem(detail.rstrip()) from None
    except OSError as problem:
        raise FileProblem(f'"{path}" cannot be read: {problem.strerror}.') from None
    except ValueError:
        raise FileProblem(f"{path!r} is not the name of a file.") from None


class RealFiles:
    """Bounded reads of regular files of this machine, as far as a confinement lets configuration look."""

    def __init__(self, confinement: Confinement = FREE, budget_mib: int = DEFAULT.read_mib) -> None:
        self._confinement = confinement
        self._budget_mib = budget_mib
        self._read = 0  # bytes so far

    def read(self, path: str) -> bytes:
        """The whole content; raises FileProblem for what is missing, special or too large, and Refused when
        all that was read is: that ends the run, whatever `try` or `can` would make of it.
        """
        left = (self._budget_mib << 20) - self._read
        if left <= 0:
            detail = (
                f'"{path}" is not read: {self._budget_mib:,} MiB of files were read already, the most of one '
                f"run. If that is meant, raise the limit: -limit=read_mib=N or {VARIABLE}READ_MIB=N."
            )
            raise Refused(error("read-budget", detail))
        content = read_file(path, SIZE_CAP, self._confinement)
        self._read += len(content)
        return content

    def exists(self, path: str) -> bool:
        """Whether a regular file stands there; a directory or a device raises FileProblem."""
        try:
            status = Path(self._confinement.admitted(path)).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except Outside as problem:
            raise _outside(path, problem) from None
        except (OSError, ValueError) as problem:
            raise FileProblem(f'"{path}" cannot be looked at: {problem}.') from None
        if not stat.S_ISREG(status.st_mode):
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise FileProblem(f'"{path}" is {kind}, not a file.')
        return True

    def glob(self, base: str, pattern: str) -> list[str]:
        """Regular files below `base` that match, sorted, relative to it, with slashes."""
        from nexusform.workflow.opening.file_patterns import matching_files

        return matching_files(base or ".", pattern, self)

    def may_start(self, path: Path) -> bool:
        """Whether a directory stands there; raises FileProblem where configuration may not look."""
        try:
            return Path(self._confinement.admitted(path)).is_dir()
        except Outside as problem:
            raise _outside(str(path), problem) from None
        except (OSError, ValueError):
            # Such as a name longer than any file system allows.
            return False

    def absolute(self, path: str) -> str:
        """The absolute path without `.` and `..`."""
        return os.path.normpath(Path.cwd() / path).replace(os.sep, "/")

    def expand_home(self, path: str) -> str:
        """`~` at the start as the home directory."""
        if path.startswith("~") and self._confinement.root:
            raise _outside(path, Outside(self._confinement.root, self._confinement.why))
        try:
            return str(Path(path).expanduser()) if path.startswith("~") else path
        except RuntimeError:
            raise FileProblem(f'"{path}" names the home directory of somebody unknown.') from None

    def is_directory(self, path: Path) -> bool:
        """Whether a directory stands there that configuration may look into."""
        try:
            return Path(self._confinement.admitted(path)).is_dir()
        except (OSError, ValueError):
            return False

    def is_file(self, path: Path) -> bool:
        """Whether a regular file stands there, as far as this user may see."""
        try:
            return Path(self._confinement.admitted(path)).is_file()
        except Outside as problem:
            raise _outside(str(path), problem) from None
        except (OSError, ValueError):
            return False


def _outside(path: str, problem: Outside) -> FileProblem:
    return FileProblem(f'"{path}" cannot be read: {problem.strerror}.')


class SystemClock:
    """The time of this machine."""

    def now(self) -> datetime:
        """The current time, UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


_COMMITS: Final = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILD_SOURCEVERSION")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LARGEST_REFERENCES: Final = 1 << 24  # bytes


def commit_of(directory: str, environment: Mapping[str, str], confinement: Confinement = FREE) -> str:
    """The commit that is checked out: what the CI job says, else what stands in .git; "" when neither does.

    Git is not asked: its configuration in a work tree may start programs. A confined run looks into no .git.
    """
    named = next((environment[name] for name in _COMMITS if environment.get(name)), "")
    if _COMMIT.fullmatch(named) or confinement.root:
        return named if _COMMIT.fullmatch(named) else ""
    return _checked_out(Path(directory).absolute())


def _checked_out(directory: Path) -> str:
    """The commit that the work tree around a directory is at; "" when it is not told."""
    top = next((each for each in (directory, *directory.parents) if (each / ".git").exists()), None)
    if top is None:
        return ""
    git = top / ".git"
    try:
        if git.is_file():  # a further work tree, or a submodule
            git = top / _line(git).removeprefix("gitdir: ")
        common = git / _line(git / "commondir") if (git / "commondir").exists() else git
        head = _line(git / "HEAD")
        name = head.removeprefix("ref: ")
        if name == head:
            return head if _COMMIT.fullmatch(head) else ""
        loose = next((base / name for base in (git, common) if (base / name).is_file()), None)
        commit = _line(loose) if loose is not None else _packed(common, name)
    except (OSError, UnicodeDecodeError):
        return ""
    return commit if _COMMIT.fullmatch(commit) else ""


def _line(path: Path) -> str:
    return read_regular(path, _LARGEST_REFERENCES).decode().partition("\n")[0].strip()


def _packed(git: Path, name: str) -> str:
    """The commit of a branch that stands in the list of all references."""
    for line in read_regular(git / "packed-refs", _LARGEST_REFERENCES).decode().splitlines():
        commit, _, reference = line.partition(" ")
        if reference == name:
            return commit
    return ""


def plan_time(environment: Mapping[str, str]) -> str:
    """The time that a plan takes as now, RFC 3339 in UTC: SOURCE_DATE_EPOCH fixes it."""
    fixed = environment.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdigit() else datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


_OF_SYSTEM: Final = re.compile(
    r"/dev/(?:std(?:in|out|err)|fd/\d+)|/proc/(?:self|thread-self|\d+)/(?:.*/)?fd/\d+"
)


def write_output(
    path: str, content: bytes | Iterable[bytes], *, private: bool = False, durable: bool = True
) -> None:
    """Write a file, which may come in pieces, so that it is whole or as it was; `private` keeps others from
    reading it. One that is not `durable` is for this command alone: nobody waits for the disk.

    A link is replaced, not followed: in a work tree of somebody else it may lead anywhere. What is no file
    (a pipe, /dev/stdout) is written to as it comes. Raises OSError.
    """
    target = Path(path)
    if _takes_what_comes(target):
        with target.open("wb") as stream:
            stream.writelines((content,) if isinstance(content, bytes) else content)
        return
    write_whole(target, content, PRIVATE if private else 0o666, durable=durable)
    if private:
        target.chmod(PRIVATE)


def unwritable(path: str) -> str:
    """Why a file could not be written there, as far as that can be told beforehand; "" when it may be."""
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        return f'"{path}" is a directory.'
    if not folder.is_dir():
        return f'"{path}" cannot be written: there is no directory "{folder}".'
    if not _takes_what_comes(target) and not os.access(folder, os.W_OK):
        return f'"{path}" cannot be written: nothing can be made in the directory "{folder}".'
    return ""


def _takes_what_comes(path: Path) -> bool:
    """/dev/stdout and /dev/fd/63 are links of the system's, and may lead to a file; /dev/shm holds files."""
    if _OF_SYSTEM.fullmatch(str(path.absolute())):
        return True
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISLNK(kind))
