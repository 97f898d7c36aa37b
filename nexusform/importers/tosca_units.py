"""Sizes as TOSCA writes them: a number and a unit, decimal (GB) or binary (GiB)."""

from __future__ import annotations

import re
from typing import Any, Final

_FORM: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]+)\s*\Z")
_BYTES: Final = {
    "b": 1,
    "kb": 10**3,
    "kib": 2**10,
    "mb": 10**6,
    "mib": 2**20,
    "gb": 10**9,
    "gib": 2**30,
    "tb": 10**12,
    "tib": 2**40,
}
_GIB: Final = 2**30
_NANO: Final = 10**9


def gib(value: Any) -> int | None:
    """A size in whole GiB, rounded up ("4 GB" and "4 GiB" are both 4); None when it has no known unit."""
    match = _FORM.match(value) if isinstance(value, str) else None
    if match is None:
        return None
    unit = _BYTES.get(match[2].lower())
    if unit is None:
        return None
    whole, _, fraction = match[1].partition(".")
    billionths = int(whole) * _NANO + int(fraction.ljust(9, "0") or "0")
    return -(-billionths * unit // (_GIB * _NANO))
