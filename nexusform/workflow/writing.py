"""Files that users name for what nexusform hands out: plans, reports, rescued state."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from nexusform.regular_files import PRIVATE, write_whole

_SYSTEMS: Final = (Path("/dev"), Path("/proc"))


def write_output(path: str, content: bytes, *, private: bool = False) -> None:
    """Write a file so that it is whole or as it was; `private` keeps others from reading it.

    A link is replaced, not followed: in a work tree of somebody else it may lead anywhere. What is no file
    (a pipe, /dev/stdout) is written to as it comes. Raises OSError.
    """
    target = Path(path)
    if _takes_what_comes(target):
        with target.open("wb") as stream:
            stream.write(content)
        return
    write_whole(target, content, PRIVATE if private else 0o666)
    if private:
        target.chmod(PRIVATE)


def _takes_what_comes(path: Path) -> bool:
    """/dev/stdout and /dev/fd/63 are links of the system's, and may lead to a file."""
    if any(system in path.absolute().parents for system in _SYSTEMS):
        return True
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISLNK(kind))
