"""Which elements of two lists belong together: by longest common subsequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Above this many cells the exact table would be slow to fill; difflib's blocks are used instead.
_TABLE_LIMIT = 250_000

Pair = tuple[int | None, int | None]


def paired(before: Sequence[Any], after: Sequence[Any]) -> list[Pair]:
    """Positions (before, after) in display order; None where an element stands on one side only.

    Equal elements pair by longest common subsequence. Between them, objects (dicts) pair in
    order, as one object changed in place; anything else is a removal and an addition.
    """
    pairs: list[Pair] = []
    i = j = 0
    for b, a in [*_common(before, after), (len(before), len(after))]:
        while i < b:
            if before[i].__class__ is dict and j < a and after[j].__class__ is dict:
                pairs.append((i, j))
                j += 1
            else:
                pairs.append((i, None))
            i += 1
        while j < a:
            pairs.append((None, j))
            j += 1
        if b < len(before) and a < len(after):
            pairs.append((b, a))
        i, j = b + 1, a + 1
    return pairs


def _common(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[int, int]]:
    # Equal elements at the ends are the common case and cost nothing to match.
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    b = before[head : len(before) - tail]
    a = after[head : len(after) - tail]
    middle = _table(b, a) if len(b) * len(a) <= _TABLE_LIMIT else _blocks(b, a)
    ends = [(len(before) - k, len(after) - k) for k in range(tail, 0, -1)]
    return [(k, k) for k in range(head)] + [(head + i, head + j) for i, j in middle] + ends


def _table(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[int, int]]:
    if not before or not after:
        return []
    width = len(after) + 1
    rows = [[0] * width]
    for item in reversed(before):
        below = rows[-1]
        row = [0] * width
        for j in range(width - 2, -1, -1):
            row[j] = below[j + 1] + 1 if item == after[j] else max(below[j], row[j + 1])
        rows.append(row)
    rows.reverse()
    matches: list[tuple[int, int]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            matches.append((i, j))
            i, j = i + 1, j + 1
        elif rows[i + 1][j] >= rows[i][j + 1]:
            i += 1
        else:
            j += 1
    return matches


def _blocks(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[int, int]]:
    from difflib import SequenceMatcher

    numbers: dict[str, int] = {}
    left = [numbers.setdefault(repr(item), len(numbers)) for item in before]
    right = [numbers.setdefault(repr(item), len(numbers)) for item in after]
    found = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    return [(m.a + k, m.b + k) for m in found for k in range(m.size)]
