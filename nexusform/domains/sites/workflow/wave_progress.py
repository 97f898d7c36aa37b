"""Progress of applying a plan of sites.

The progress is a file of lines next to the plan, each written durably before the next action.
States are authoritative for sites; this file records what they do not: ends, approvals and
stops of waves.
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from nexusform.domains.sites.types.site_tasks import SiteStatus
from nexusform.files.regular_files import (
    FileTooLarge,
    NotRegularFile,
    open_regular_file,
    read_regular,
)
from nexusform.interfaces.plugins import FileProblem

SUFFIX: Final = ".progress"
_MAX_BYTES: Final = 256 << 20  # bytes


class ProgressEventKind(StrEnum):
    """Kind of a progress line."""

    APPROVED = "approved"
    STARTED = "started"
    SITE = "site"
    STOPPED = "stopped"
    FINISHED = "finished"


class WaveProgressLine(Struct, frozen=True, omit_defaults=True):
    """Event of the plan with this identity, `at` seconds after 1970."""

    plan: str
    event: ProgressEventKind
    wave: str
    at: float
    site: str = ""
    status: SiteStatus | None = None
    reason: str = ""


class FleetApplyProgress(Struct):
    """Progress lines of one plan."""

    path: Path
    plan: str
    lines: list[WaveProgressLine]

    def add_line(self, line: WaveProgressLine) -> None:
        """Append a line durably.

        Raises FileProblem.
        """
        try:
            descriptor = open_regular_file(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(descriptor, msgspec.json.encode(line) + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as problem:
            raise FileProblem(f'"{self.path}" cannot be written: {problem.strerror}.') from None
        self.lines.append(line)

    def find_time(self, event: ProgressEventKind, wave: str) -> float | None:
        """Find the last time of an event in a wave, None without one."""
        times = [line.at for line in self.lines if (line.event, line.wave) == (event, wave)]
        return max(times, default=None)

    def is_finished(self, wave: str) -> bool:
        """Return True if a wave is finished."""
        return self.find_time(ProgressEventKind.FINISHED, wave) is not None

    def find_unfinished_wave(self) -> str:
        """Find the wave in progress, "" if there is none."""
        started_waves = [
            line.wave for line in self.lines if line.event is ProgressEventKind.STARTED
        ]
        return next((wave for wave in started_waves if not self.is_finished(wave)), "")


def read_wave_progress(plan_path: str, identity: str) -> FleetApplyProgress:
    """Read the progress of the plan with this identity.

    There is none before its first apply. An incomplete last line is removed from the
    file. Raises FileProblem.
    """
    path = Path(f"{plan_path}{SUFFIX}")
    try:
        data = read_regular(path, _MAX_BYTES, follow=False)
        complete_lines, _, incomplete_line = data.rpartition(b"\n")
        # Of a killed run: later lines must not follow it on the same line.
        if incomplete_line:
            descriptor = open_regular_file(path, os.O_WRONLY)
            try:
                os.ftruncate(descriptor, len(data) - len(incomplete_line))
            finally:
                os.close(descriptor)
    except FileNotFoundError:
        return FleetApplyProgress(path, identity, lines=[])
    except (OSError, NotRegularFile, FileTooLarge) as problem:
        raise FileProblem(f'"{path}" cannot be used: {problem}.') from None
    lines: list[WaveProgressLine] = []
    for number, text in enumerate(complete_lines.splitlines(), start=1):
        try:
            line = msgspec.json.decode(text, type=WaveProgressLine)
        except msgspec.MsgspecError:
            raise FileProblem(f'"{path}", line {number}, is not what nexusform wrote.') from None
        # Not of an earlier plan at this path.
        if line.plan == identity:
            lines.append(line)
    return FleetApplyProgress(path, identity, lines)
