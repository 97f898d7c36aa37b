"""The current time of providers."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from nexusform.documents.scalars import parse_integer
from nexusform.documents.times import format_time

_VARIABLE: Final = "SOURCE_DATE_EPOCH"
_MAX_SHOWN: Final = 40  # characters of a wrong value


def read_clock(environment: Mapping[str, str] = os.environ) -> str:
    """Read the current time, RFC 3339 in UTC.

    SOURCE_DATE_EPOCH overrides it, up to the year 9999.
    """
    epoch = _read_fixed_time(environment)
    return format_time(datetime.now(UTC) if epoch is None else datetime.fromtimestamp(epoch, UTC))


def is_clock_fixed(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether SOURCE_DATE_EPOCH sets the current time, so that no age is known."""
    return _read_fixed_time(environment) is not None


def check_clock(environment: Mapping[str, str]) -> str:
    """Return an error message if SOURCE_DATE_EPOCH is set, but not to a time; else ""."""
    value = environment.get(_VARIABLE)
    if not value or _read_fixed_time(environment) is not None:
        return ""
    return (
        f'{_VARIABLE}="{value[:_MAX_SHOWN]}" is not a time: seconds since 1970 as a whole number, '
        "up to the year 9999. Correct or unset it."
    )


def _read_fixed_time(environment: Mapping[str, str]) -> int | None:
    epoch = parse_integer(environment.get(_VARIABLE))
    # The year 10000.
    return epoch if epoch is not None and epoch < 253_402_300_800 else None
