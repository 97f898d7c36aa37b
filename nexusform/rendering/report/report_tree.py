"""Tree of a report: a verdict and sections.

Text, Markdown and HTML render the same tree, computing nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.diagnostics.levels import PlacementImpact

# They build parts of the tree.
if TYPE_CHECKING:
    from nexusform.rendering.report.decision_lines import DecisionLine
    from nexusform.rendering.report.finding_entries import Finding, FindingEntries


class Style(StrEnum):
    """Style of a part of a text.

    A LOCATION (`file:line`) and a SITE of the map are links if possible. The ACTION of an
    `ActionText` has a colour.
    """

    ACTION = "action"
    ARROW = "arrow"
    CODE = "code"
    LOCATION = "location"
    SITE = "site"
    STRONG = "strong"


class StyledText(Struct, frozen=True):
    """A part of a text with a style."""

    text: str
    style: Style


class ActionText(StyledText, frozen=True):
    """What a plan does at a place, such as `+ Bound`.

    `action` is the action of a placement, "" for a place that takes nothing. The figures `detail`
    are below the text, and `reason` is its tooltip.
    """

    action: str = ""
    detail: str = ""
    reason: str = ""


# A string is a sentence; its parts in backticks are code.
Text: TypeAlias = "str | StyledText | tuple[str | StyledText, ...]"
ARROW = StyledText("->", Style.ARROW)


def list_spans(text: Text) -> tuple[str | StyledText, ...]:
    """Return the parts of a text, with or without a style.

    A plain string is one part.
    """
    return text if isinstance(text, tuple) else (text,)


def get_plain_text(text: Text) -> str:
    """Return a text without styles."""
    return "".join(part.text if isinstance(part, StyledText) else part for part in list_spans(text))


class Row(Struct, frozen=True):
    """One row of a table; `is_finding` marks a part of the finding.

    The `note` is shown below the row.
    """

    cells: tuple[Text, ...]
    is_finding: bool = False
    note: str = ""


class Table(Struct, frozen=True):
    """Headers, rows, and the positions of columns with numbers (aligned to the right).

    Narrow screens omit the columns `details`; a comment shows the lines `compact` instead, if there
    are any, because a phone cuts wide tables off. Rows of an `is_grouped` table share their first
    cell. Cells of an `is_unwrapped` one stay on one line. Cells of an `is_matrix` are `ActionText`,
    but for the first one of a row, its name; `summary` describes a picture of it. A table with a
    `fold_title` is closed at first.
    """

    headers: tuple[str, ...]
    rows: tuple[Row, ...]
    number_columns: frozenset[int] = frozenset()
    caption: str = ""
    details: frozenset[int] = frozenset()
    compact: tuple[Text, ...] = ()
    is_grouped: bool = False
    is_unwrapped: bool = False
    is_matrix: bool = False
    summary: str = ""
    fold_title: str = ""

    @property
    def has_findings(self) -> bool:
        """Whether a row is a finding."""
        return any(row.is_finding for row in self.rows)


class Item(Struct, frozen=True):
    """An object, or `count` similar ones: symbol of the change, name and text.

    `is_strong` highlights the name.
    """

    symbol: str
    label: str
    text: Text = ""
    is_strong: bool = False
    count: int = 1


class ItemGroup(Struct, frozen=True):
    """Items with a common name ("" = none)."""

    name: str
    items: tuple[Item, ...]


class CodeBlock(Struct, frozen=True):
    """Lines of fixed width.

    The `language` is "diff", "text", "hcl" or "".
    """

    text: str
    language: str = ""


class Findings(Struct, frozen=True):
    """Findings with the source files of their locations."""

    findings: tuple[Finding, ...]
    sources: Mapping[str, SourceFile]


_NO_CODE: Final = CodeBlock("")
_NO_FINDINGS: Final = Findings(findings=(), sources={})


class Section(Struct, frozen=True):
    """A section of a report.

    An `is_folded` one is detail: closed at first if the format allows. `commands` are for copying.
    `notes` are pairs of heading and sentence. `name` identifies the section on a page, and
    `cluster_names` are the names of clusters in it, each with the id of the cluster.
    """

    title: str
    lines: tuple[Text, ...] = ()
    commands: tuple[str, ...] = ()
    table: Table | None = None
    is_folded: bool = False
    is_finding: bool = False
    name: str = ""
    tables: tuple[Table, ...] = ()
    groups: tuple[ItemGroup, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    code: CodeBlock = _NO_CODE
    entries: FindingEntries | None = None
    findings: Findings = _NO_FINDINGS
    cluster_names: tuple[tuple[str, str], ...] = ()

    @property
    def all_tables(self) -> tuple[Table, ...]:
        """The tables of the section."""
        return (self.table, *self.tables) if self.table is not None else self.tables

    @property
    def has_content(self) -> bool:
        """Whether there is anything besides the title."""
        items = chain.from_iterable(group.items for group in self.groups)
        rows = chain.from_iterable(table.rows for table in self.all_tables)
        texts = (*self.lines, *self.commands, *self.notes, self.code.text)
        return any((*texts, self.entries, *self.findings.findings, *items, *rows))


# A section that no format shows.
NO_SECTION: Final = Section("")


class Report(Struct, frozen=True):
    """The whole report.

    `is_finding` means that the verdict is a finding; `impact` is set for reports about a plan. A
    plan has a `decision` instead of one verdict.
    """

    title: str
    verdict: str
    is_finding: bool
    facts: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    impact: PlacementImpact | None = None
    decision: tuple[DecisionLine, ...] = ()

    @property
    def alert_level(self) -> PlacementImpact | None:
        """The impact of the plan, always the highest if it is rejected.

        It is None for a report without a plan.
        """
        return PlacementImpact.LOSES if self.is_finding and self.impact is not None else self.impact


_Part = TypeVar("_Part")
# Records with texts on one line. Code and findings have texts of several lines.
_LINE_PARTS: Final = (Report, Section, Table, Row, Item, ItemGroup, StyledText)


def change_texts(part: _Part, change: Callable[[str], str]) -> _Part:
    """Return a part of a report with each of its texts on one line changed.

    The decision block, code and findings stay as they are.
    """
    changed: Any = part
    if isinstance(part, str):
        changed = change(part) if type(part) is str else part
    elif isinstance(part, tuple):
        changed = tuple(change_texts(item, change) for item in part)
    elif isinstance(part, _LINE_PARTS):
        changed = replace(
            part,
            **{name: change_texts(getattr(part, name), change) for name in part.__struct_fields__},
        )
    return cast("_Part", changed)


class CodeOrigin(Struct, frozen=True):
    """The commit of a plan and the address of its files: `url`/`directory`/FILE.

    `directory` is the path of the root module there. An empty field is unknown and gives no
    link or commit.
    """

    url: str = ""
    directory: str = ""
    commit: str = ""


UNKNOWN_ORIGIN: Final = CodeOrigin()
