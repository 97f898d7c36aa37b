"""The current time of providers."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from nexusform.documents.times import format_time


def read_clock() -> str:
    """Read the current time, RFC 3339 in UTC. SOURCE_DATE_EPOCH overrides it."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return format_time(moment)
