"""Points at which a test kills a command, and long or random cases.

An eighth of them per commit, all of them with NEXUSFORM_CRASH_POINTS=all.

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
SHARE = 8


@cache
def choose_share(share: int = SHARE) -> int:
    """Return the eighth (or other share) of this commit, from 0.

    0 outside of git, and if all points are tried.
    """
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


def select_cases(cases: Sequence[Point]) -> list[Point]:
    """Return an eighth of long cases by commit, at least one.

    If every point is tried, all of them or a share.
    """
    if tries_all():
        return select_share(cases)
    return list(cases[choose_share() % min(SHARE, len(cases)) :: SHARE])


def select_groups(groups: Sequence[Point]) -> list[Point]:
    """Return an eighth of groups of points by commit, at least one.

    If every point is tried, all groups, because a share has points of each.
    """
    return list(groups) if tries_all() else select_cases(groups)


def scale_count(count: int) -> int:
    """Return the number of random cases of this run: an eighth, or all if every point is tried."""
    return count if tries_all() else count // SHARE


def run_at_eighth(number: int) -> pytest.MarkDecorator:
    """Return the mark of tests for one eighth of the commits; a run of all points includes them."""
    is_skipped = not tries_all() and choose_share() != number
    return pytest.mark.skipif(
        is_skipped, reason="tried by an eighth of the commits, and by .ci/crashes"
    )


def select_points(points: Sequence[Point], maximum: int) -> list[Point]:
    """Return the points of this run, at most `maximum` of them spread evenly.

    The first one depends on the commit.
    """
    if tries_all():
        return select_share(points)
    chosen = select_cases(points) if points else []
    count = min(maximum, len(chosen))
    first = choose_share(SHARE * len(chosen)) // SHARE if chosen else 0
    return [
        chosen[(first + number * len(chosen) // count) % len(chosen)] for number in range(count)
    ]
