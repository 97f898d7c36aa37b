"""The current time of providers."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime

from nexusform.documents.scalars import parse_integer
from nexusform.documents.times import format_time


def read_clock(environment: Mapping[str, str] = os.environ) -> str:
    """Read the current time, RFC 3339 in UTC.

    SOURCE_DATE_EPOCH overrides it, up to the year 9999.
    """
    epoch = parse_integer(environment.get("SOURCE_DATE_EPOCH"))
    # The year 10000.
    is_valid = epoch is not None and epoch < 253_402_300_800
    return format_time(datetime.fromtimestamp(epoch or 0, UTC) if is_valid else datetime.now(UTC))
