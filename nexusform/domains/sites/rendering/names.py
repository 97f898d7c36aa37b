"""Names of sites in a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.words import first_of, natural

_MOST_NAMES: Final = 8


def names_text(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """`lon1, lon2 and 3 more`, in the order in which people count."""
    return first_of(sorted(names, key=natural), most)
