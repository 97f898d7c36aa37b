"""Whether a process of this host still runs, told apart from a later one with its number."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
# Fields of /proc/PID/stat, counted from the one after the command's name.
_STATE_FIELD: Final = 0
_START_FIELD: Final = 19


def start_mark(pid: int) -> str:
    """A text that no other process of this number ever has; "" when the system does not tell."""
    boot, fields = _content(_BOOT_ID), _fields(pid)
    if not boot or len(fields) <= _START_FIELD:
        return ""
    return f"{boot.strip()}/{fields[_START_FIELD]}"


def is_gone(pid: int, mark: str) -> bool:
    """Whether the process that had this number and start mark has ended, as far as can be told."""
    if pid <= 0 or sys.platform == "win32":
        return False
    try:
        with suppress(PermissionError):  # it runs, but belongs to somebody else
            os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    fields = _fields(pid)
    if fields and fields[_STATE_FIELD] in ("Z", "X"):
        return True  # ended, and only not yet collected by its parent
    return bool(mark) and start_mark(pid) not in (mark, "")


def _fields(pid: int) -> list[str]:
    return _content(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
