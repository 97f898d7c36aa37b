"""Tree of a report: a verdict and sections of lines, commands, rows and pictures. Text, Markdown and HTML render
the same tree and compute nothing.
"""

from __future__ import annotations

from msgspec import Struct

from nexusform.diagnostics.levels import Impact


class Row(Struct, frozen=True):
    """One row of a table; `is_finding` marks a part of the finding."""

    cells: tuple[str, ...]
    is_finding: bool = False


class Table(Struct, frozen=True):
    """Headers, rows, and the columns with figures (aligned to the right)."""

    headers: tuple[str, ...]
    rows: tuple[Row, ...]
    figures: frozenset[int] = frozenset()


class Section(Struct, frozen=True):
    """A section of a report. An `is_folded` one is detail: closed at first if the format allows. `commands`
    are for copying.
    """

    title: str
    lines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    table: Table | None = None
    is_folded: bool = False
    is_finding: bool = False


class Report(Struct, frozen=True):
    """The whole report. `is_finding` means that the verdict is a finding; `impact` is set for reports about a
    plan.
    """

    title: str
    verdict: str
    is_finding: bool
    facts: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    impact: Impact | None = None

    @property
    def alert_level(self) -> Impact | None:
        """The impact, the highest one for a rejected plan; None without a plan."""
        return Impact.LOSES if self.is_finding and self.impact is not None else self.impact
