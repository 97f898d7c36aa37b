"""Selection of long cases: fault series, kill points, random cases, stories, and running programs.

The README's test command tries the first of every eight, the same ones on each commit. `.ci/run`
sets NEXUSFORM_CRASH_POINTS=first: all cases of the test files that a change can reach
(tests/change_reach.py), and of a command's durable calls (tests/contracts/crash_runner.py) and
requests the first one of each situation. `.ci/crashes` sets NEXUSFORM_CRASH_POINTS=all: all cases
of all files, and each durable call and request. NEXUSFORM_CRASH_POINTS=2/6 tries the second of six
shares, which together cover all.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import pytest

Point = TypeVar("Point")
# The README's command tries one of so many long cases.
SHARE = 8


def tries_all() -> bool:
    """Return whether this run tries every case, or every case of its share."""
    return bool(os.environ.get("NEXUSFORM_CRASH_POINTS"))


def tries_first_calls() -> bool:
    """Return whether this run tries only the first durable call of each situation."""
    return os.environ.get("NEXUSFORM_CRASH_POINTS", "first") == "first"


def select_share(points: Sequence[Point]) -> list[Point]:
    """Return the points of this run's share: all of them, or those of a share like 2/6."""
    number, _, count = os.environ["NEXUSFORM_CRASH_POINTS"].partition("/")
    return list(points[int(number) - 1 :: int(count)] if count else points)


def select_cases(cases: Sequence[Point]) -> list[Point]:
    """Return the first of every eight cases; all cases, or those of a share, if all are tried."""
    return select_share(cases) if tries_all() else list(cases[::SHARE])


def select_groups(groups: Sequence[Point]) -> list[Point]:
    """Return the first of every eight groups of points; all groups if all points are tried.

    A share has points of each group.
    """
    return list(groups) if tries_all() else select_cases(groups)


def select_points(points: Sequence[Point], maximum: int) -> list[Point]:
    """Return the points of this run: at most `maximum`, spread evenly, unless all are tried."""
    if tries_all():
        return select_share(points)
    count = min(maximum, len(points))
    return [points[number * len(points) // count] for number in range(count)]


def select_situations(situations: Mapping[Point, Hashable]) -> list[Point]:
    """Return the first point of each situation, or all points if each one is tried."""
    if not tries_first_calls():
        return list(situations)
    first_points: dict[Hashable, Point] = {}
    for point, situation in situations.items():
        first_points.setdefault(situation, point)
    return list(first_points.values())


def scale_count(count: int) -> int:
    """Return the number of random cases of this run: an eighth, or all if all are tried."""
    return count if tries_all() else count // SHARE


def build_long_mark() -> pytest.MarkDecorator:
    """Return the mark of a test that only `.ci/run` and `.ci/crashes` try."""
    reason = "long: .ci/run tries it if the change can reach it, .ci/crashes always"
    return pytest.mark.skipif(not tries_all(), reason=reason)


long_case = build_long_mark()
