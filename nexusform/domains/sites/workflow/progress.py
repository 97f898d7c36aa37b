"""How far a plan of sites was applied: a file of lines beside it, each on the disk before anything follows.

States are the truth about sites; what stands here is what they do not say: when a wave ended, that somebody
approved of it, why it stopped.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from nexusform.domains.sites.types.work import Status
from nexusform.ports import FileProblem
from nexusform.regular_files import PRIVATE, NotRegular, TooLarge, read_regular

SUFFIX: Final = ".progress"
_LARGEST: Final = 256 << 20  # bytes


class Event(StrEnum):
    """What happened."""

    APPROVED = "approved"
    BEGUN = "begun"
    SITE = "site"
    STOPPED = "stopped"
    FINISHED = "finished"


class Line(Struct, frozen=True, omit_defaults=True):
    """One thing that happened to the plan with this identity, `at` seconds after 1970."""

    plan: str
    event: Event
    wave: str
    at: float
    site: str = ""
    status: Status | None = None
    reason: str = ""


class Progress(Struct):
    """What the file says of one plan."""

    path: Path
    plan: str
    lines: list[Line]

    def add(self, line: Line) -> None:
        """Note what happened, durable on return. Raises FileProblem."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.path, flags, PRIVATE)
            try:
                os.write(descriptor, msgspec.json.encode(line) + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as problem:
            raise FileProblem(f'"{self.path}" cannot be written: {problem.strerror}.') from None
        self.lines.append(line)

    def when(self, event: Event, wave: str) -> float | None:
        """When that happened to a wave last; None when it never did."""
        times = [line.at for line in self.lines if line.event is event and line.wave == wave]
        return max(times, default=None)

    def is_finished(self, wave: str) -> bool:
        """Whether a wave came to its end."""
        return self.when(Event.FINISHED, wave) is not None

    def unfinished(self) -> str:
        """The wave that was begun and not finished; "" when there is none."""
        begun = [line.wave for line in self.lines if line.event is Event.BEGUN]
        return next((wave for wave in begun if not self.is_finished(wave)), "")


def read_progress(plan_path: str, identity: str) -> Progress:
    """What was noted of a plan before. Raises FileProblem."""
    path = Path(f"{plan_path}{SUFFIX}")
    try:
        data = read_regular(path, _LARGEST, follow=False)
    except FileNotFoundError:
        return Progress(path, identity, [])
    except (OSError, NotRegular, TooLarge) as problem:
        raise FileProblem(f'"{path}" cannot be read: {problem}.') from None
    lines: list[Line] = []
    whole, _, _ = data.rpartition(b"\n")  # a line that was cut off never counted
    for number, text in enumerate(whole.split(b"\n") if whole else (), start=1):
        try:
            line = msgspec.json.decode(text, type=Line)
        except msgspec.MsgspecError:
            raise FileProblem(f'"{path}", line {number}, is not what nexusform wrote.') from None
        if line.plan == identity:
            lines.append(line)
    return Progress(path, identity, lines)
