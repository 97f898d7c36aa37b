"""Servers, programs and variables used by this process, for the provenance of a plan."""

from __future__ import annotations

import os
import sys
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct, field


class Accesses(Struct):
    """Origins of servers, names of programs, and names of variables with a value."""

    origins: set[str] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    is_watching: bool = False


_ACCESSES: Final = Accesses()


def get_accesses() -> Accesses:
    """Return the accesses since `start_accesses`."""
    return _ACCESSES


def start_accesses() -> None:
    """Start a new record for a command or a site."""
    for names in (_ACCESSES.origins, _ACCESSES.programs, _ACCESSES.variables):
        names.clear()
    if not _ACCESSES.is_watching:
        _ACCESSES.is_watching = True
        sys.addaudithook(_record_program)  # also sees the programs started by SDKs


def record_origin(origin: str) -> None:
    """Record the origin of a server."""
    _ACCESSES.origins.add(origin)


def read_variable(name: str) -> str:
    """Return a variable of the environment, "" without one."""
    value = os.environ.get(name, "")
    if value:
        _ACCESSES.variables.add(name)
    return value


def _record_program(event: str, details: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        words = details[1]
        program = details[0] or (words if isinstance(words, str | bytes | os.PathLike) else words[0])
        _ACCESSES.programs.add(PurePath(os.fsdecode(program)).name)
