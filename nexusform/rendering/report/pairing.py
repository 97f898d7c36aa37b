"""Pairing of the elements of two lists by longest common subsequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

# Above this many cells the exact table would be slow to fill; difflib's blocks are used instead.
_TABLE_LIMIT = 250_000

# A position on each side; in a pair, None for an element of one side only.
Match: TypeAlias = tuple[int, int]
Pair: TypeAlias = tuple[int | None, int | None]


def pair_elements(before: Sequence[Any], after: Sequence[Any]) -> list[Pair]:
    """Return pairs of positions (before, after) in display order; None for an element of one side only. Equal
    elements pair by longest common subsequence. Between them, objects (dicts) pair in order as one changed
    object; other elements are removed and added.
    """
    pairs: list[Pair] = []
    i = j = 0
    for b, a in _match_equal(before, after):
        pairs += _pair_gap(before, after, range(i, b), range(j, a))
        pairs.append((b, a))
        i, j = b + 1, a + 1
    pairs += _pair_gap(before, after, range(i, len(before)), range(j, len(after)))
    return pairs


def _pair_gap(before: Sequence[Any], after: Sequence[Any], old_range: range, new_range: range) -> list[Pair]:
    """Pair the elements between two equal ones."""
    pairs: list[Pair] = []
    j = new_range.start
    for i in old_range:
        if j < new_range.stop and before[i].__class__ is dict and after[j].__class__ is dict:
            pairs.append((i, j))
            j += 1
        else:
            pairs.append((i, None))
    return pairs + [(None, k) for k in range(j, new_range.stop)]


def _match_equal(before: Sequence[Any], after: Sequence[Any]) -> list[Match]:
    """Return the equal elements that pair, in order."""
    # Equal elements at the ends are the common case and cost nothing to match.
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old_middle, new_middle = before[head : len(before) - tail], after[head : len(after) - tail]
    is_small = len(old_middle) * len(new_middle) <= _TABLE_LIMIT
    middle = _match_by_table(old_middle, new_middle) if is_small else _match_by_blocks(old_middle, new_middle)
    matches = [(k, k) for k in range(head)]
    matches += [(head + i, head + j) for i, j in middle]
    matches += [(len(before) - k, len(after) - k) for k in range(tail, 0, -1)]
    return matches


def _match_by_table(before: Sequence[Any], after: Sequence[Any]) -> list[Match]:
    """Return the matches of a longest common subsequence by the table of its lengths."""
    if not before or not after:
        return []
    width = len(after) + 1
    rows = [[0] * width]
    for element in reversed(before):
        below = rows[-1]
        row = [0] * width
        for j in range(width - 2, -1, -1):
            row[j] = below[j + 1] + 1 if element == after[j] else max(below[j], row[j + 1])
        rows.append(row)
    rows.reverse()
    matches: list[Match] = []
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


def _match_by_blocks(before: Sequence[Any], after: Sequence[Any]) -> list[Match]:
    """Return the matches by difflib blocks, for sequences with a large table."""
    from difflib import SequenceMatcher

    # difflib hashes its elements; dicts are unhashable, so numbers replace them.
    numbers: dict[str, int] = {}
    old_numbers = [numbers.setdefault(repr(element), len(numbers)) for element in before]
    new_numbers = [numbers.setdefault(repr(element), len(numbers)) for element in after]
    matches: list[Match] = []
    for block in SequenceMatcher(None, old_numbers, new_numbers, autojunk=False).get_matching_blocks():
        matches += [(block.a + step, block.b + step) for step in range(block.size)]
    return matches
