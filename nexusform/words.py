"""Numbers and names as sentences count, list and order them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def form(count: int, singular: str, plural: str = "") -> str:
    """The form of a word that goes with a count: `VM` with 1, else `VMs`, or the `plural` given."""
    return singular if count == 1 else plural or f"{singular}s"


def counted(count: int, singular: str, plural: str = "") -> str:
    """`1 VM`, `1,024 VMs`."""
    return f"{count:,} {form(count, singular, plural)}"


def listed(names: Iterable[str], most: int = 8) -> str:
    """`a`, `a and b`, `a, b and c`; beyond `most` names, how many more there are."""
    texts = list(names)
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def first_of(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """`a, b`, or `a, b and 3 more`: the first `most` and how many more there are."""
    shown = separator.join(texts[:most])
    return f"{shown} and {len(texts) - most:,} more" if len(texts) > most else shown


def spans(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as (first, last) of every run without a gap: 1, 2, 3, 5 are (1, 3) and (5, 5)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def natural(text: str) -> list[tuple[int, int, str]]:
    """The sort key of a name in which digits count as numbers: rack2 before rack10."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def duration(seconds: float) -> str:
    """`1h30m`, `1m`, `0s`."""
    left = round(seconds)
    parts = []
    for unit, letter in ((3600, "h"), (60, "m"), (1, "s")):
        if left >= unit:
            parts.append(f"{left // unit}{letter}")
            left %= unit
    return "".join(parts) or "0s"
