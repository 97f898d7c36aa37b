"""The room that a plan leaves, in a comment: a narrow table for each site."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.rendering.pull_request.markdown_parts import plain, table
from nexusform.rendering.report.overview import Overview
from nexusform.rendering.report.room import RoomRow

_SITES: Final = 3  # that have a table in sight


def room_lines(sites: Sequence[str], rows: Sequence[RoomRow]) -> list[str]:
    """The tables of the sites that a reviewer should see first, one below the other."""
    if not rows:
        return []
    picked = _picked_sites(len(sites), rows)
    lines: list[str] = []
    for number in picked:
        lines += ["", *_site_table(sites[number], number, rows)]
    if len(sites) > len(picked):
        lines += ["", f"{len(picked)} of {len(sites)} sites"]
    return lines[1:]


def _picked_sites(count: int, rows: Sequence[RoomRow]) -> list[int]:
    """The numbers of sites where the plan leaves less room, then of those it changes, then of the rest."""

    def rank(number: int) -> tuple[bool, bool, int]:
        worse = any(row.worse[number] for row in rows)
        changed = any(row.values[number][0] != row.values[number][1] for row in rows)
        return not worse, not changed, number

    return sorted(sorted(range(count), key=rank)[:_SITES])


def _site_table(site: str, number: int, rows: Iterable[RoomRow]) -> list[str]:
    return table((plain(site), "before", "after"), [_cells(row, number) for row in rows], figures=2)


def _cells(row: RoomRow, number: int) -> list[str]:
    before, after = row.values[number]
    return [plain(row.label), plain(before), f"**{plain(after)}**" if row.worse[number] else plain(after)]


def all_rooms(overview: Overview) -> str:
    """Where some of the sites only have a table: all of them, as text."""
    if len(overview.sites) <= _SITES:
        return ""
    lines = []
    for number, site in enumerate(overview.sites):
        lines.append(f"{site}:")
        for row in overview.room:
            before, after = row.values[number]
            lines.append(f"  {row.label}: {before} -> {after}")
    return "\n".join(lines)
