"""How long a repacking may be searched for. Whoever asks brings the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct


class Patience(Struct, frozen=True):
    """The seconds that are left; None: it ends by itself."""

    seconds_left: Callable[[], float] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the answer is wanted now."""
        return self.seconds_left is not None and self.seconds_left() <= 0

    def share(self, part: float) -> float | None:
        """This part of the seconds that are left, for one of several searches."""
        return None if self.seconds_left is None else max(part * self.seconds_left(), 0.0)

    def part(self, part: float) -> Patience:
        """Patience that ends when this part of what is left is over."""
        if self.seconds_left is None:
            return self
        left = self.seconds_left
        kept = (1 - part) * max(left(), 0.0)
        return Patience(lambda: left() - kept)


ENDLESS: Final = Patience()
