"""Times and spans of time, as foreign documents write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"(?:\d{1,6}[dhms])+")
_PART: Final = re.compile(r"(\d+)([dhms])")


def parse_duration(text: str) -> timedelta | None:
    """A time span such as "24h", "7d" or "1h30m"; None for anything else."""
    if not _DURATION.fullmatch(text):
        return None
    return timedelta(seconds=sum(int(n) * _UNITS[unit] for n, unit in _PART.findall(text)))


def parse_time(text: str) -> datetime | None:
    """An RFC 3339 time in UTC; one without a zone counts as UTC. None for anything else."""
    try:
        # Azure writes up to seven digits of a second; Python takes six.
        moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.strip()))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def time_text(moment: datetime) -> str:
    """RFC 3339, UTC, whole seconds."""
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"
