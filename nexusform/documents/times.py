"""Times and durations of foreign documents."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

# The clocks of two machines may differ by this.
CLOCK_TOLERANCE: Final = timedelta(minutes=10)
_UNITS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"(?:\d{1,6}[dhms])+")
_PART: Final = re.compile(r"(\d+)([dhms])")


def parse_duration(text: str) -> timedelta | None:
    """Parse a duration such as "24h", "7d" or "1h30m"; None for anything else."""
    if not _DURATION.fullmatch(text):
        return None
    return timedelta(seconds=sum(int(n) * _UNITS[unit] for n, unit in _PART.findall(text)))


def parse_time(text: str) -> datetime | None:
    """Parse an RFC 3339 time to UTC; without a zone it counts as UTC.

    Return None for any other text.
    """
    try:
        # Azure writes up to seven digits of a second; Python accepts six.
        moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.strip()))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def is_in_future(time: str, now: str) -> bool:
    """Return whether an RFC 3339 time is later than `now` by more than clocks may differ.

    Return False if one of them is not a time.
    """
    moment = parse_time(time)
    current = parse_time(now)
    return moment is not None and current is not None and moment - current > CLOCK_TOLERANCE


def format_time(moment: datetime) -> str:
    """Format a time, in UTC, as RFC 3339 with whole seconds: `2026-01-31T12:00:00Z`."""
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"
