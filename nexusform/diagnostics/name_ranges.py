"""Ranges of names: `rack1..8`, `edge01..40/pool1`."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import group_by, group_ranges

_NUMBERED_NAME: Final = re.compile(r"(.*?)([0-9]{1,15})", re.DOTALL)
_MAX_PREFIXES: Final = 6
# Limit of spans of numbers after one prefix.
_MAX_SPANS: Final = 12
# Number of consecutive numbers listed individually; more become a span.
MAX_LISTED_NUMBERS: Final = 2


class NameRange(Struct, frozen=True):
    """Names with a common `prefix` and consecutive `numbers` as written.

    `numbers` are ("",) for a name without a number.
    """

    prefix: str
    numbers: tuple[str, ...]

    @property
    def first(self) -> str:
        """The name with the lowest number."""
        return f"{self.prefix}{self.numbers[0]}"

    @property
    def last(self) -> str:
        """The name with the highest number."""
        return f"{self.prefix}{self.numbers[-1]}"

    @property
    def span(self) -> str:
        """The numbers in short form: `1..8`, `7,8`, `4`, ""."""
        if len(self.numbers) > MAX_LISTED_NUMBERS:
            return f"{self.numbers[0]}..{self.numbers[-1]}"
        return ",".join(self.numbers)


def build_name_runs(names: Iterable[str]) -> list[NameRange]:
    """Group names into runs without gaps, in the order of the first name per prefix.

    The names `vm1`, `vm2`, `vm4` and `spare` are three runs, one of `vm1` and `vm2`. Every name
    is in one run. Numbers of a run are padded to one width (`08`, `09`, `10`) or not at all
    (`8`, `9`, `10`).
    """
    # Prefix, and digits at the end ("" for none).
    split_names: list[tuple[str, str]] = []
    for name in dict.fromkeys(names):
        match = _NUMBERED_NAME.fullmatch(name)
        split_names.append((match[1], match[2]) if match else (name, ""))
    # A number is padded if it starts with 0 and is not 0. Numbers without padding have the
    # width 0 below.
    padded_widths = {
        (prefix, len(digits))
        for prefix, digits in split_names
        if digits[:1] == "0" and digits != "0"
    }
    # By prefix, width and whether there is a number.
    groups: dict[tuple[str, int, bool], list[str]] = {}
    for prefix, digits in split_names:
        # `10` has the width of the padded `08`, so both are in one run.
        width = len(digits) if (prefix, len(digits)) in padded_widths else 0
        groups.setdefault((prefix, width, bool(digits)), []).append(digits)
    runs: list[NameRange] = []
    for (prefix, _, has_number), group_digits in groups.items():
        if not has_number:
            runs.append(NameRange(prefix, ("",)))
            continue
        texts = {int(digits): digits for digits in group_digits}
        for low, high in group_ranges(sorted(texts)):
            runs.append(NameRange(prefix, tuple(texts[number] for number in range(low, high + 1))))
    return runs


def format_names(names: Iterable[str], maximum: int = _MAX_PREFIXES) -> str:
    """Format names as runs: `rack1,2,4..7, db`.

    Names beyond `maximum` prefixes, or _MAX_SPANS runs, are counted.
    """
    distinct_names = list(dict.fromkeys(names))
    runs = group_by(build_name_runs(distinct_names), lambda run: run.prefix)
    if len(runs) > maximum:
        return (
            f"{', '.join(distinct_names[: maximum - 1])} and "
            f"{len(distinct_names) - maximum + 1:,} more"
        )
    texts: list[str] = []
    for prefix, prefix_runs in runs.items():
        visible_runs = prefix_runs
        note = ""
        if len(prefix_runs) > _MAX_SPANS:
            # The note takes the place of some.
            visible_runs = prefix_runs[: _MAX_SPANS - 4]
            note = f" and {sum(len(run.numbers) for run in prefix_runs[_MAX_SPANS - 4 :]):,} more"
        texts.append(f"{prefix}{','.join(run.span for run in visible_runs)}{note}")
    return ", ".join(texts)


def format_part_names(names: Iterable[str], part: str, separator: str = "/") -> str:
    """Format a part of several objects: `edge01..40/pool1`, or `pool1 of amf, smf`."""
    distinct_names = list(dict.fromkeys(names))
    text = format_names(distinct_names)
    if len({run.prefix for run in build_name_runs(distinct_names)}) > 1:
        return f"{part} of {text}"
    return f"{text}{separator}{part}"


def format_range(numbers: Iterable[int]) -> str:
    """Format numbers as `3` or `3..5`; `-` without any."""
    distinct_numbers = sorted(set(numbers))
    if not distinct_numbers:
        return "-"
    low = distinct_numbers[0]
    high = distinct_numbers[-1]
    return str(low) if low == high else f"{low}..{high}"
