"""How old an export is: what it says of itself, or the newest change that it knows of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from nexusform.importers.arm import Item

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


def newest_change(items: Iterable[Item]) -> datetime | None:
    """The newest createdAt or lastModifiedAt among resources."""
    newest: datetime | None = None
    for item in items:
        system: Any = item.value("systemData")
        if not isinstance(system, dict):
            continue
        for key in ("createdAt", "lastModifiedAt"):
            text = system.get(key)
            moment = parse_time(text) if isinstance(text, str) else None
            if moment is not None and (newest is None or moment > newest):
                newest = moment
    return newest
