"""Files that users name for what nexusform hands out: plans, reports, rescued state."""

from __future__ import annotations

from pathlib import Path

from nexusform.backends.atomic_file import PRIVATE, write_whole


def write_output(path: str, content: bytes, *, private: bool = False) -> None:
    """Write a file so that it is whole or as it was; `private` keeps others from reading it.

    What is no regular file (a pipe, /dev/stdout) is written to as it comes. Raises OSError.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    write_whole(target, content, PRIVATE if private else 0o666)
    if private:
        target.chmod(PRIVATE)
