"""Write files of cases for the recorders."""

from __future__ import annotations

import gzip
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import json

Body = dict[str, Any]
# processor seconds of two processors in half an hour.
_NIGHT = 2 * 30 * 60


def write_cases(path: Path, cases: Iterator[Body]) -> int:
    """Add cases to a file one by one, and return their number."""
    number = 0
    with path.open("ab") as file, gzip.GzipFile("", "ab", 4, file, mtime=0) as packed:
        for case in cases:
            packed.write(json.encode(case, order="sorted") + b"\n")
            number += 1
            if number % 100 == 0:
                # The recorder may be killed.
                packed.flush()
    return number


def run_recorder(path: Path, cases: Iterator[Body]) -> None:
    """Add cases to a file, and print their number and rate."""
    begun = time.monotonic()
    number = write_cases(path, cases)
    seconds = time.monotonic() - begun
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    busy = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    print(
        f"{number} decisions, {60 * number / seconds:.0f} a minute; "
        f"{1000 * busy / max(number, 1):.1f} ms of processor "
        f"time each: {_NIGHT * number / busy:.0f} in 30 minutes on two free processors"
    )
