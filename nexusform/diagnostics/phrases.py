"""Phrases: counts, lists, groups and sort keys of names."""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from nexusform.diagnostics.names import escape_name

Item = TypeVar("Item")
GroupKey = TypeVar("GroupKey", bound=Hashable)


def select_word_form(count: int, singular: str, plural: str = "") -> str:
    """Return the form of a word for a count: `VM` for 1, else `VMs`, or the given `plural`."""
    return singular if count == 1 else plural or f"{singular}s"


def format_count(count: int, singular: str, plural: str = "") -> str:
    """Format a count with its noun: `1 VM`, `1,024 VMs`."""
    return f"{count:,} {select_word_form(count, singular, plural)}"


def format_counts(counts: Iterable[tuple[int, str]]) -> list[str]:
    """Format every count other than 0 with its text: `3 to place`, `1,024 kept`."""
    return [f"{count:,} {text}" for count, text in counts if count]


def format_list(names: Iterable[str], max_items: int = 8, conjunction: str = "and") -> str:
    """Format a list: `a`, `a and b`, `a, b and c`, or with another conjunction before the last.

    Beyond `max_items` names, the number of further ones.
    """
    texts = [escape_name(name) for name in names]
    if len(texts) > max_items:
        return f"{', '.join(texts[:max_items])} and {len(texts) - max_items} more"
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {conjunction} {texts[-1]}"


def format_first_items(texts: Sequence[str], max_items: int, separator: str = ", ") -> str:
    """Format the first texts and the number of further ones: `a, b`, or `a, b and 3 more`."""
    first_texts = separator.join(map(escape_name, texts[:max_items]))
    return (
        f"{first_texts} and {len(texts) - max_items:,} more"
        if len(texts) > max_items
        else first_texts
    )


def join_texts(texts: Iterable[str], separator: str = ", ") -> str:
    """Join the nonempty texts."""
    return separator.join(filter(None, texts))


def enclose(before: str, text: object, after: str = "") -> str:
    """Return a nonempty text, or a number other than 0, between two others; else ""."""
    return f"{before}{text}{after}" if text else ""


def group_by(
    items: Iterable[Item], get_key: Callable[[Item], GroupKey]
) -> dict[GroupKey, list[Item]]:
    """Group items by key, in the order of the first item of each key."""
    groups: dict[GroupKey, list[Item]] = {}
    for item in items:
        groups.setdefault(get_key(item), []).append(item)
    return groups


def group_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Group ascending numbers into (first, last) of every run: 1, 2, 3, 5 are (1, 3) and (5, 5)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def format_ranges(numbers: Iterable[int], dash: str = "..", separator: str = ",") -> str:
    """Format ascending numbers with their runs in short form: `0..3,5`."""
    return separator.join(
        str(low) if low == high else f"{low}{dash}{high}" for low, high in group_ranges(numbers)
    )


def compute_natural_sort_key(text: str) -> list[tuple[int, int, str]]:
    """Return the sort key of a name with digits as numbers: rack2 before rack10."""
    parts = re.split(r"(\d+)", text)
    # A number sorts by the count of its digits, then by the digits. As text, a long number
    # needs no conversion.
    return [
        (0, len(n := part.lstrip("0")), n) if part.isdecimal() else (1, 0, part) for part in parts
    ]


def format_duration(seconds: float) -> str:
    """Format seconds as `1h30m`, `1m`, `0s`."""
    seconds_left = round(seconds)
    parts = []
    for unit, letter in ((3600, "h"), (60, "m"), (1, "s")):
        if seconds_left >= unit:
            parts.append(f"{seconds_left // unit}{letter}")
            seconds_left %= unit
    return "".join(parts) or "0s"
