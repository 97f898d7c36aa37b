"""Time budget of a repacking search; the caller provides the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct


class TimeBudget(Struct, frozen=True):
    """Remaining seconds; None for no limit."""

    seconds_left: Callable[[], float] | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether no time remains."""
        return self.seconds_left is not None and self.seconds_left() <= 0

    def compute_share(self, part: float) -> float | None:
        """Return this share of the remaining seconds, None without a limit."""
        return None if self.seconds_left is None else max(part * self.seconds_left(), 0.0)

    def split(self, share: float) -> TimeBudget:
        """Return a budget limited to this share of the remaining time."""
        if self.seconds_left is None:
            return self
        remaining_seconds = self.seconds_left
        reserved = (1 - share) * max(remaining_seconds(), 0.0)
        return TimeBudget(lambda: remaining_seconds() - reserved)


NO_TIME_LIMIT: Final = TimeBudget()
