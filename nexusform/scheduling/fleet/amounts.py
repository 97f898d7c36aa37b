"""A whole number or a percentage, as Kubernetes writes maxUnavailable, maxSurge and the like; durations."""

from __future__ import annotations

import re

from msgspec import Struct


class Amount(Struct, frozen=True):
    """`value` things, or `value` per cent of a total."""

    value: int
    percent: bool = False

    def of(self, total: int, *, up: bool = True) -> int:
        """The number it stands for; a percentage is rounded up, or down when `up` is False."""
        if not self.percent:
            return self.value
        product = self.value * total
        return -(-product // 100) if up else product // 100

    def __str__(self) -> str:
        return f"{self.value}%" if self.percent else str(self.value)


def parse_amount(written: str | int) -> Amount | str:
    """An amount from a number or a text ("25%", "2"), or why it is none."""
    if isinstance(written, int):
        return Amount(written)
    match = re.fullmatch(r"(-?[0-9]{1,9})(%?)", written, re.ASCII)
    if match is None:
        return f'{written!r} is neither a whole number nor a percentage such as "25%"'
    return Amount(int(match[1]), bool(match[2]))


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(written: str) -> float | str:
    """Seconds from a text such as "1h30m" (hours, minutes, seconds), or why it is none."""
    if not re.fullmatch(r"([0-9]{1,9}(\.[0-9]{1,9})?[smh])+", written, re.ASCII):
        return f'{written!r} is no duration such as "1h30m": hours (h), minutes (m) and seconds (s) only'
    parts = re.findall(r"([0-9.]+)([smh])", written)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
