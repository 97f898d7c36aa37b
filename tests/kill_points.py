"""Points at which a test kills a command, and long cases: a quarter per commit, an eighth of the longest ones, all of
them with NEXUSFORM_CRASH_POINTS=all.

NEXUSFORM_CRASH_POINTS=2/6 runs the second of six shares; the six shares together cover all points.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

Point = TypeVar("Point")
_SHARE = 4
EIGHTH = 8


@cache
def choose_quarter(share: int = _SHARE) -> int:
    """Return the quarter (or other share) of this commit, from 0; 0 outside of git, and if all points are tried."""
    if tries_all():
        return 0
    command = ["git", "rev-parse", "HEAD"]
    root = Path(__file__).parent
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return int(result.stdout.strip() or "0", 16) % share if result.returncode == 0 else 0


def tries_all() -> bool:
    """Return whether this run tries every point, or every point of its share."""
    return bool(os.environ.get("NEXUSFORM_CRASH_POINTS"))


def select_share(points: Sequence[Point]) -> list[Point]:
    """Return the points of this run's share: all of them, or those of a share like 2/6."""
    number, _, count = os.environ["NEXUSFORM_CRASH_POINTS"].partition("/")
    return list(points[int(number) - 1 :: int(count)] if count else points)


def select_cases(cases: Sequence[Point], share: int = _SHARE) -> list[Point]:
    """Return a quarter of long cases (or another share) by commit; if every point is tried, all of them or a share."""
    if tries_all():
        return select_share(cases)
    return list(cases[choose_quarter(share) % min(share, len(cases)) :: share])


def select_groups(groups: Sequence[Point]) -> list[Point]:
    """Return a quarter of groups of points by commit; if every point is tried, all groups, because a share has
    points of each."""
    return list(groups) if tries_all() else select_cases(groups)


def scale_count(count: int) -> int:
    """Return the number of random cases of this run: a quarter, or all if every point is tried."""
    return count if tries_all() else count // _SHARE


def run_at_quarter(number: int, share: int = _SHARE) -> pytest.MarkDecorator:
    """Return the mark of tests for one quarter (or other share) of the commits; a run of all points includes them."""
    is_skipped = not tries_all() and choose_quarter(share) != number
    return pytest.mark.skipif(is_skipped, reason="tried by a share of the commits, and by .ci/crashes")


def select_points(points: Sequence[Point], maximum: int) -> list[Point]:
    """Return the points of this run, at most `maximum` of them spread evenly from first to last."""
    if tries_all():
        return select_share(points)
    chosen = list(points[choose_quarter() :: _SHARE])
    count = min(maximum, len(chosen))
    return [chosen[number * len(chosen) // count] for number in range(count)]
