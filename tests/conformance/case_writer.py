"""Files of cases, written by the recorders."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import json

Body = dict[str, Any]


def write_cases(path: Path, cases: Iterator[Body]) -> int:
    """Add cases to a file as they come, and return their number."""
    number = 0
    with path.open("ab") as file, gzip.GzipFile("", "ab", 4, file, mtime=0) as packed:
        for case in cases:
            packed.write(json.encode(case, order="sorted") + b"\n")
            number += 1
    return number


def run_recorder(path: Path, cases: Iterator[Body]) -> None:
    """Add cases to a file, and print their number and rate."""
    begun = time.monotonic()
    number = write_cases(path, cases)
    print(f"{number} decisions, {60 * number / (time.monotonic() - begun):.0f} a minute")
