"""JSON of an answer, written from the tree of its report."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.rendering.json.json_diagnostics import build_finding_document
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.rendering.report.report_tree import (
    Item,
    Report,
    Row,
    Section,
    Table,
    Text,
    get_plain_text,
)

# Key of a column without a header.
_REMARK: Final = "remark"
_NUMBER: Final = re.compile(r"-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?")


def build_report_document(report: Report) -> dict[str, Any]:
    """Build the facts and sections of a report as JSON data.

    Its verdict, and whether it is a finding, are members of every answer.
    """
    return {
        "facts": list(report.facts),
        "sections": [
            build_section_document(section) for section in report.sections if section.has_content
        ],
    }


def build_section_document(section: Section) -> dict[str, Any]:
    """Build a section; parts without content are omitted."""
    items = [item for group in section.groups for item in group.items]
    return {
        "name": section.name or build_key(section.title),
        "title": section.title,
        "finding": section.is_finding,
        **omit_empty(
            {
                "lines": list(map(get_plain_text, section.lines)),
                "notes": [{"heading": heading, "text": text} for heading, text in section.notes],
                "commands": list(section.commands),
                "tables": [_build_table(table) for table in section.all_tables],
                "items": list(map(_build_item, items)),
                "findings": [
                    build_finding_document(finding, section.findings.sources)
                    for finding in section.findings.findings
                ],
                "code": section.code.text,
            }
        ),
    }


def _build_table(table: Table) -> dict[str, Any]:
    """Build a table: each row is an object by the names of the columns."""
    keys = list(_build_column_keys(table.headers))
    return {
        **omit_empty({"caption": table.caption}),
        "rows": [_build_row(table, keys, row) for row in table.rows],
    }


def _build_row(table: Table, keys: Iterable[str], row: Row) -> Mapping[str, Any]:
    """Build a row; the cells of columns with numbers are numbers."""
    cells = {
        key: _build_cell(cell, is_number=column in table.number_columns)
        for column, (key, cell) in enumerate(zip(keys, row.cells, strict=False))
    }
    return {**cells, "finding": row.is_finding, **omit_empty({"note": row.note})}


def _build_cell(cell: Text, *, is_number: bool) -> Any:
    """Build a cell: a number (null: not known), an object with the bounds of one, or a text."""
    text = get_plain_text(cell)
    if is_number and not text:
        return None
    bounds = text.split(" to ")
    if not is_number or not all(map(_NUMBER.fullmatch, bounds)):
        return text
    minimum, *maximum = (_parse_number(bound) for bound in bounds)
    return {"min": minimum, "max": maximum[0]} if maximum else minimum


def _parse_number(text: str) -> int | float:
    """Return the number of `1,200` or `0.5`."""
    digits = text.replace(",", "")
    return float(digits) if "." in digits else int(digits)


def _build_item(item: Item) -> dict[str, Any]:
    """Build an item of a list: symbol of its change, name, text, and the number of objects."""
    return {
        "symbol": item.symbol,
        "label": item.label,
        "text": get_plain_text(item.text),
        "count": item.count,
    }


def _build_column_keys(headers: Iterable[str]) -> Iterable[str]:
    """Yield a key per column; equal headers get numbers."""
    seen: dict[str, int] = {}
    for header in headers:
        key = build_key(header) or _REMARK
        seen[key] = seen.get(key, 0) + 1
        yield key if seen[key] == 1 else f"{key}_{seen[key]}"


def build_key(text: str) -> str:
    """Return the words of a text as a key: `Re-created by` is `re_created_by`."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
